"""Ray clusters and tracking servers that are away, mute or broken: one line within 10 seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.servers import closed_port, server

import dmltune
from dmltune.errors import UserError
from dmltune.experiment import load_experiment
from dmltune.store import Store
from dmltune.tracking import Tracker
from dmltune.train.cluster_address import parse_address
from dmltune.train.ray_session import ray_session

WITHIN_S = 10.0
ERROR_500 = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n"
NOISE = b"\xff\xfe this is no HTTP \x1b[31m\r\n\r\n"


def refused(action: Callable[[], object]) -> str:
    """Return the message, which is one line and comes in time."""
    began = time.monotonic()
    with pytest.raises(UserError) as error:
        action()
    assert time.monotonic() - began < WITHIN_S
    message = str(error.value)
    assert "\n" not in message
    assert message.isprintable()
    assert "geheim77" not in message
    return message


def connect(address: str) -> None:
    with ray_session(address):
        raise AssertionError("no cluster answers here")


def test_a_ray_address_without_a_cluster_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    away = f"127.0.0.1:{closed_port()}"
    for address in (away, f"ray://{away}"):
        assert f"no Ray cluster answers at {address}" in refused(lambda a=address: connect(a))  # type: ignore[misc]
    monkeypatch.setenv("RAY_ADDRESS", away)
    store, experiment = Store.at(tmp_path), load_experiment("glyphs", ["data.classes=40", "batch.size=32"])
    message = refused(lambda: list(dmltune.train(experiment, store=store, workers=2)))
    assert f"no Ray cluster answers at {away}" in message
    assert "--address (or RAY_ADDRESS)" in message
    for answer in (None, NOISE):
        with server(answer) as port:
            message = refused(lambda p=port: connect(f"127.0.0.1:{p}"))  # type: ignore[misc]
            assert "no Ray cluster answers" in message


def test_what_is_no_ray_address_is_one_line() -> None:
    for address in (
        *("not an address", "tripwire://x", "127.0.0.1", "127.0.0.1:99999", "127.0.0.1:0", ":6379", "a b:1"),
        *(
            "http://user:geheim77@host:1",
            "user:geheim77@host:1",
            "ray://[::1",
            "x" * 5000,
            "\x1b[31m:1",
            "ü:1",
        ),
    ):
        message = refused(lambda a=address: connect(a))  # type: ignore[misc]
        assert "a Ray address must be host:port" in message
        assert len(message) < 500
    assert parse_address("ray://head.example:10001") == ("head.example", 10001)
    assert parse_address("[::1]:6379") == ("::1", 6379)


def test_a_tracking_server_that_does_not_answer_is_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store = Store.at(tmp_path)

    def names(address: str) -> str:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
        return refused(lambda: Tracker(store).names())

    away = f"127.0.0.1:{closed_port()}"
    assert f"no tracking server answers at http://{away}" in names(f"http://{away}")
    assert "http://***@" in names(f"http://user:geheim77@{away}")
    for answer, message in (
        (None, "no tracking server answers"),
        (NOISE, "no tracking server answers"),
        (ERROR_500, "answers with error 500"),
    ):
        with server(answer) as port:
            assert message in names(f"http://user:geheim77@127.0.0.1:{port}")
    assert "must name a host" in names("http://")
    assert "must begin with" in names("gopher://user:geheim77@host/")
    assert "must be an address" in names("http://[::1")
    assert "must be an address" in names("http://127.0.0.1:abc")
    assert "does not answer" in names(f"postgresql://user:geheim77@{away}/mlflow")
    assert not (tmp_path / "mlflow.db").exists()


def test_an_optuna_storage_that_cannot_be_opened_is_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from dmltune.search.study import Study

    store = Store.at(tmp_path)
    for address in (
        "nonsense",
        "sqlite:////no/such/folder/x.db",
        "gopher://user:geheim77@host/",
        "http://[::1",
    ):
        monkeypatch.setenv("DMLTUNE_OPTUNA_STORAGE", address)
        assert "the study 's' cannot be read" in refused(lambda: Study(store, "s", "max"))
