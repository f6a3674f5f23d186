"""A name stands for one configuration on one data set; what cannot be read back is one line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dmltune.errors import UserError
from dmltune.experiment import load_experiment
from dmltune.store import Store
from dmltune.train.name_claim import IDENTITY, claim_name, require_same

EXPERIMENT = load_experiment("glyphs-ccp")
HOLD = """
import sys, time
from pathlib import Path
from dmltune.experiment import load_experiment
from dmltune.store import Store
from dmltune.train.name_claim import claim_name
with claim_name(Store(Path(sys.argv[1])), "s", load_experiment("glyphs-ccp"), "f"):
    print("held", flush=True)
    time.sleep(60)
"""


def claim(folder: Path, overrides: tuple[str, ...] = (), data: str = "f") -> None:
    with claim_name(Store.at(folder), "s", load_experiment("glyphs-ccp", overrides), data):
        pass


def refused(action: Callable[[], object], message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        action()
    assert "\n" not in str(error.value)


def test_another_configuration_or_other_data_are_refused_with_the_difference(tmp_path: Path) -> None:
    claim(tmp_path)
    written = (tmp_path / "searches" / "s" / IDENTITY).read_bytes()
    claim(tmp_path)
    claim(tmp_path, ("trials=40", "about=more"))  # these may differ between the sessions of a search
    refused(lambda: claim(tmp_path, ("max_steps=450",)), r"max_steps: \d+ → 450.*take the change back")
    refused(lambda: claim(tmp_path, ("loss=triplet",)), "loss")
    refused(lambda: claim(tmp_path, data="other"), "was made with other data: fingerprint f → other")
    assert (tmp_path / "searches" / "s" / IDENTITY).read_bytes() == written


def test_a_name_is_held_by_one_process_and_free_when_it_was_killed(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True, env=os.environ
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        refused(lambda: claim(tmp_path), "'s' is running in another process")
        assert (tmp_path / "searches" / "s" / "lock").stat().st_mode & 0o077 == 0
    finally:
        holder.kill()
        holder.communicate()
    claim(tmp_path)


def damaged(**changes: Any) -> bytes:
    document = {"experiment": EXPERIMENT.to_dict(), "data": "f"} | changes
    return json.dumps({key: value for key, value in document.items() if value != "drop"}).encode()


def test_a_damaged_identity_is_one_line_and_nothing_begins_anew(tmp_path: Path) -> None:
    claim(tmp_path)
    path = tmp_path / "searches" / "s" / IDENTITY
    whole = path.read_bytes()
    tree = json.loads(whole)["experiment"]
    contents = {
        *(b"", b"null", b"[]", b"5", b"{", b"\xff\xfe", whole[: len(whole) // 2], b"[" * 100_000),
        *(damaged(experiment=value) for value in ("drop", None, [], "text", {})),
        *(damaged(data=value) for value in ("drop", None, 5)),
        damaged(experiment=tree | {"max_steps": "many"}),
        damaged(experiment=tree | {"nonsense": 1}),
        damaged(experiment=tree | {"loss": {"name": "nosuch"}}),
    }
    for content in contents:
        path.write_bytes(content)
        refused(lambda: claim(tmp_path), IDENTITY)
        assert path.read_bytes() == content
    path.unlink()
    for make in (path.mkdir, lambda: os.mkfifo(path), lambda: path.symlink_to(path)):
        make()
        refused(lambda: claim(tmp_path), IDENTITY)
        path.rmdir() if path.is_dir() else path.unlink()


def test_what_stands_in_the_way_of_the_folder_or_the_lock_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "searches").write_text("a file")
    refused(lambda: claim(tmp_path), "must be a folder")
    (tmp_path / "searches").unlink()
    folder = tmp_path / "searches" / "s"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "lock")  # opening it would wait for ever
    refused(lambda: claim(tmp_path), "must be a regular file")
    (folder / "lock").unlink()
    (folder / "lock").mkdir()
    refused(lambda: claim(tmp_path), "must be a regular file")
    require_same(Store.at(tmp_path), "s", EXPERIMENT, "f")  # the name stands for nothing yet
