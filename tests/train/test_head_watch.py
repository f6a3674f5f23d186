"""A driver whose cluster has lost its head says so, and ends."""

from __future__ import annotations

import socket
import time

import pytest

from dmltune.errors import UserError
from dmltune.train import head_watch as module
from dmltune.train.head_watch import head_watch
from dmltune.train.ray_session import ray_session

GIVEN_UP = "RAY_gcs_rpc_server_reconnect_timeout_s"


def test_a_head_that_goes_away_is_told_once_and_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_S", 0.05)
    monkeypatch.setattr(module, "MARGIN_S", 0.2)
    monkeypatch.setenv(GIVEN_UP, "0")
    head = socket.create_server(("127.0.0.1", 0))
    address = f"127.0.0.1:{head.getsockname()[1]}"
    said, ends = list[str](), list[int]()
    with head_watch(address, said.append, ends.append):
        time.sleep(0.3)
        assert said == []
        head.close()
        deadline = time.monotonic() + 20
        while not ends and time.monotonic() < deadline:
            time.sleep(0.02)
    assert ends == [1]
    (line,) = said
    assert "does not answer" in line
    assert "the same command continues" in line


def test_an_address_that_cannot_be_reached_at_the_beginning_is_not_watched() -> None:
    said: list[str] = []
    with head_watch("127.0.0.1:1", said.append):
        time.sleep(0.05)
    assert said == []


@pytest.mark.parametrize("text", ["soon", "", "-1", "1e9", "5 s"])
def test_a_time_that_ends_ray_by_a_segmentation_fault_is_refused(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(GIVEN_UP, text)
    with pytest.raises(UserError, match="must be a whole number of seconds"), ray_session(None):
        pass
