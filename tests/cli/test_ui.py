"""The port of `dmltune ui`: the store's own, because browsers keep settings by address and port."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from dmltune.cli.ui import FIRST_PORT, PORTS, free_port, usual_port
from dmltune.errors import UserError
from dmltune.store import Store


def test_a_store_has_the_same_port_every_time_and_stores_have_different_ones(tmp_path: Path) -> None:
    ports = [usual_port(Store.at(tmp_path / f"store{number}")) for number in range(20)]
    assert ports == [usual_port(Store.at(tmp_path / f"store{number}")) for number in range(20)]
    assert len(set(ports)) > 15
    assert all(FIRST_PORT <= port < FIRST_PORT + PORTS < 32768 for port in ports)


def test_another_port_is_free_when_the_usual_one_is_taken() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        assert free_port(None, taken) != taken
        with pytest.raises(UserError, match=rf"port {taken} is taken or not allowed"):
            free_port(taken, 20_000)
    assert free_port(None, taken) == taken
