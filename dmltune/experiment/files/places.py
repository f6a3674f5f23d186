"""Named YAML files: those in the user's folder come before those that are shipped with dmltune."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path as File

import dmltune
from dmltune.errors import UserError, printable, readable
from dmltune.experiment.files.document import Document, read_document
from dmltune.experiment.problems import near_or_list, show

SPACES = "search_spaces"
SUFFIXES = (".yaml", ".yml")


def shown(file: File) -> str:
    """Return a path for messages: relative when it lies below the working directory."""
    path, here = os.path.realpath(file), os.path.realpath(File.cwd())
    return printable(os.path.relpath(path, here) if path.startswith(here + os.sep) else str(file))


def folders(kind: str) -> list[File]:
    """Return the folders with named files of a kind (`search_spaces`, `jobs`), the user's first."""
    package = File(dmltune.__path__[0]).resolve()
    existing: dict[str, File] = {}
    for folder in (File.cwd() / kind, package / kind, package.parent / kind):
        if os.path.isdir(folder):
            existing.setdefault(os.path.realpath(folder), folder)
            if not os.access(folder, os.R_OK | os.X_OK):
                raise UserError(f"the folder {shown(folder)} cannot be read. Change its permissions or name.")
    return list(existing.values())


def named_files(kind: str) -> dict[str, File]:
    """Return name → file; a file of the user replaces a shipped one of the same name."""
    files: dict[str, File] = {}
    for folder in folders(kind):
        for file in sorted(folder.iterdir()):
            if file.suffix in SUFFIXES and not file.name.startswith("."):
                files.setdefault(file.stem, file)
    return files


def is_path(name: str) -> bool:
    return name.endswith(SUFFIXES) or "/" in name or "\\" in name


def find_file(
    name: str | File, kind: str, what: str, beside: File | None = None, besides: Collection[File] = ()
) -> File:
    """Return the file that a name or path means, `besides` excluded; a UserError with the nearest name."""
    text = str(name)
    if not text.strip():
        names = near_or_list("", named_files(kind), "available")
        raise UserError(f"the name of a {what} must not be empty{names}")
    if not is_path(text):
        excluded = {os.path.realpath(file) for file in besides}
        for folder in ([beside] if beside else []) + folders(kind):
            for file in (folder / f"{text}{suffix}" for suffix in SUFFIXES):
                if os.path.isfile(file) and os.path.realpath(file) not in excluded:
                    return file
        raise UserError(f"no {what} {readable(text)}{near_or_list(text, named_files(kind), 'there are')}")
    file = File(os.path.expanduser(text))
    if beside is not None and not file.is_absolute():
        file = beside / file
    if os.path.isfile(file):
        return file
    kind_of_file = " (a folder)" if os.path.isdir(file) else ""
    near = near_or_list(file.stem, named_files(kind), "names that come with dmltune")
    raise UserError(f"no file {readable(text)}{kind_of_file} for a {what}{near}")


def chain(file: File) -> list[tuple[str, Document]]:
    """Return a space's documents from its last base to itself, each with its name for messages."""
    documents: list[tuple[str, Document]] = []
    files: list[File] = []
    place = ""
    while True:
        name = shown(file)
        try:
            document = read_document(file, name)
        except UserError as error:
            raise UserError(f"{place}: extends: {error}" if place else str(error)) from None
        documents.append((name, document))
        files.append(file)
        base = document.tree.get("extends")
        if base is None:
            return documents[::-1]
        place = f"{name}:{document.lines[('extends',)]}"
        if not isinstance(base, str):
            raise UserError(f"{place}: extends must be the name of one space or a path; got {show(base)}.")
        try:
            file = find_file(base, SPACES, "search space", beside=file.parent, besides=files)
        except UserError as error:
            if not (circle := [known for known in files if known.stem == base]):
                raise UserError(f"{place}: extends: {error}") from None
            file = circle[0]
        if os.path.realpath(file) in map(os.path.realpath, files):
            way = " → ".join(map(shown, [*files, file]))
            raise UserError(f"{place}: extends goes in a circle: {way}. Break it.")
