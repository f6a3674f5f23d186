"""How many threads a training takes."""

from __future__ import annotations

import pytest

from dmltune.train.ray_session import threads_of


@pytest.mark.parametrize(
    ("asked", "cores", "threads"),
    [(None, 4, 4), (None, 0, 1), ("2", 4, 2), ("8", 4, 4), ("3,1", 4, 3), ("0", 4, 4), ("many", 2, 2)],
)
def test_threads_fill_the_cores_unless_fewer_are_asked_for(
    asked: str | None, cores: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if asked is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", asked)
    assert threads_of(cores) == threads
