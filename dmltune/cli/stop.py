"""`dmltune stop`: end a search of this machine in order; it can be resumed."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from dmltune.cli.boundary import FAILED
from dmltune.cli.output import Output, say
from dmltune.cli.parser import Parser, add_format, add_store, duration, places_of
from dmltune.errors import UserError

if TYPE_CHECKING:
    from dmltune.train.name_holder import NameHolder

SUMMARY = "stop a running search of this machine in order, to be resumed"
EXAMPLES = """\
  dmltune stop demo
  dmltune stop demo --wait 30s                      typed twice: it ends at once
"""
WAIT_S = 300.0


def add_arguments(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", help="the name of a search, training or check")
    parser.add_argument(
        "--wait",
        type=duration,
        default=WAIT_S,
        metavar="5m",
        help="how long to wait for its end (default: 5m)",
    )
    add_store(parser)
    add_format(parser)


def run(args: argparse.Namespace, out: Output) -> int:
    from dmltune.search.stored import StoredSearches
    from dmltune.store import Store, validated_name
    from dmltune.train.name_holder import ask_to_stop, name_holder, wait_until_free

    store, name = Store.to_read(args.store), validated_name(args.name)
    holder = name_holder(store, name)
    if holder is None:
        state = StoredSearches(store).state_of(name)
        out.document({"name": name, "stopped": False, "pid": None, "state": state})
        out.show(f"'{name}' does not run; it is {state}")
        return 0
    pid = pid_here(name, holder)
    try:
        ask_to_stop(pid)
    except PermissionError:
        raise UserError(f"'{name}' runs in process {pid} of another user. Ask them to stop it.") from None
    except ProcessLookupError:
        pass  # it has ended meanwhile
    say(f"process {pid} was asked to stop '{name}'; waiting for its end")
    ended = wait_until_free(store, name, args.wait)
    state = StoredSearches(store).state_of(name)
    out.document({"name": name, "stopped": ended, "pid": pid, "state": state})
    if not ended:
        out.show(f"'{name}' still runs in process {pid}. Wait, or end it at once: dmltune stop {name}")
        return FAILED
    out.show(f"'{name}' has stopped; it is {state}")
    if state == "interrupted":
        out.show(f"\n  dmltune resume {name}{places_of(args)}")
    return 0


def pid_here(name: str, holder: NameHolder) -> int:
    """Return the holder's process on this machine; a UserError when it is elsewhere or unknown."""
    import socket

    if holder.host != socket.gethostname():
        raise UserError(f"'{name}' runs on {holder.host}. Stop it there: dmltune stop {name}")
    if holder.pid is None:
        raise UserError(
            f"'{name}' runs in a process that left no note, such as one of an older version. "
            "Press Ctrl-C where it runs."
        )
    return holder.pid
