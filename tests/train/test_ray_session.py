"""Where a private Ray has its files."""

from __future__ import annotations

import tempfile

import pytest

from dmltune.train import ray_session


@pytest.mark.parametrize("length", range(5, 30))
def test_no_socket_of_ray_has_a_longer_path_than_a_socket_may_have(
    length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = "/" + (length - 1) * "t"
    monkeypatch.setattr(tempfile, "tempdir", folder)
    used = ray_session._short_temporary_folder()
    process = "4194304"
    session = f"session_2026-11-20_01-31-34_151467_{process}"
    socket = f"{used}/dmltune-ray-{process}-30ea5b9z/r/{session}/sockets/plasma_store"
    assert len(socket) <= 107
    assert used == (folder if length <= 12 else "/tmp")
