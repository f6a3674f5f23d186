"""How many threads a training takes."""

from __future__ import annotations

import pytest

from dmltune.train.ray_session import threads_of


def test_threads_fill_the_cores_unless_omp_num_threads_is_lower(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert (threads_of(4), threads_of(0)) == (4, 1)
    for limit, cores, threads in [("2", 4, 2), ("8", 4, 4), ("3,1", 4, 3), ("0", 4, 4), ("many", 2, 2)]:
        monkeypatch.setenv("OMP_NUM_THREADS", limit)
        assert threads_of(cores) == threads, limit
