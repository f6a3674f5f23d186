"""Malformed input has one clear line, at once, and leaves nothing behind; `case.verify` has the rules."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from malformed import addresses as store_addresses
from malformed import arguments, broken_servers, files, images, output, saved
from malformed import servers as addresses
from malformed.case import Case, apart, files_of, here, verify

CASES = [
    case
    for table in (arguments, files, images, addresses, store_addresses, broken_servers, saved, output)
    for case in table.CASES
]


def test_the_corpus_is_large_and_its_names_are_unique() -> None:
    assert len(CASES) >= 600
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.timeout(120, func_only=True)
@pytest.mark.usefixtures("no_folder_is_left_unreadable")
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_malformed(
    case: Case,
    tmp_path: Path,
    copy_store: Callable[[Path], None],
    servers: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "tmp").mkdir()
    if case.saved:
        copy_store(tmp_path / "runs")
    case.prepare(tmp_path)

    def filled(text: str) -> str:
        for name, value in {"store": str(tmp_path / "runs"), "dir": str(tmp_path), **servers}.items():
            text = text.replace(f"{{{name}}}", value)
        return text

    command = [filled(word) for word in case.command]
    env = {name: filled(value) for name, value in case.env.items()}
    before = files_of(tmp_path)
    if case.shell:
        answer = apart(case, command, env, tmp_path)
    else:
        answer = here(case, command, env, tmp_path, monkeypatch, capfd)
    verify(case, answer)
    new = files_of(tmp_path) - before
    assert not new, f"files outside of the store: {sorted(new)[:5]}"
