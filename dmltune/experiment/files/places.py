"""Where named YAML files live: the user's folder first, then those that come with dmltune."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path as File

import dmltune
from dmltune.errors import UserError
from dmltune.experiment import tree as trees
from dmltune.experiment.files.document import Document, read_document
from dmltune.experiment.problems import near_or_list, one_line

SPACES = "search_spaces"
SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True)
class SpaceInfo:
    """One named space; `error` says what is wrong with a file that cannot be read."""

    name: str
    about: str
    path: File
    searchable: bool
    error: str = ""


def shown(file: File) -> str:
    """A path as its user knows it: relative when it lies below the working directory."""
    try:
        return str(file.resolve().relative_to(File.cwd().resolve()))
    except (ValueError, OSError):
        return str(file)


def folders(kind: str) -> list[File]:
    """The folders that hold named files of a kind (`search_spaces`, `jobs`), the user's first."""
    package = File(dmltune.__path__[0]).resolve()
    found: list[File] = []
    for folder in (File.cwd() / kind, package / kind, package.parent / kind):
        if folder.is_dir() and folder.resolve() not in [known.resolve() for known in found]:
            found.append(folder)
    return found


def named_files(kind: str) -> dict[str, File]:
    """Name → file; a file of the user hides one of ours that has the same name."""
    found: dict[str, File] = {}
    for folder in folders(kind):
        for file in sorted(folder.iterdir()):
            if file.suffix in SUFFIXES and not file.name.startswith("."):
                found.setdefault(file.stem, file)
    return found


def is_path(name: str) -> bool:
    return name.endswith(SUFFIXES) or "/" in name or "\\" in name


def find_file(
    name: str | File, kind: str, what: str, beside: File | None = None, besides: Collection[File] = ()
) -> File:
    """The file that a name or path means, `besides` excluded; a UserError with the nearest name."""
    text = str(name)
    if not text.strip():
        raise UserError(
            f"the name of a {what} must not be empty{near_or_list('', named_files(kind), 'there are')}"
        )
    if "\0" in text:
        raise UserError(f"no {what} {text!r}: a name cannot hold a NUL character")
    if is_path(text):
        file = File(text).expanduser()
        if beside is not None and not file.is_absolute():
            file = beside / file
        if not file.is_file():
            folder = " (a folder)" if file.is_dir() else ""
            near = near_or_list(file.stem, named_files(kind), "names that come with dmltune")
            raise UserError(f"no file '{one_line(text)}'{folder} for a {what}{near}")
        return file
    candidates = [
        folder / f"{text}{suffix}" for folder in ([beside] if beside else []) for suffix in SUFFIXES
    ]
    candidates += [folder / f"{text}{suffix}" for folder in folders(kind) for suffix in SUFFIXES]
    excluded = {file.resolve() for file in besides}
    for file in candidates:
        if file.is_file() and file.resolve() not in excluded:
            return file
    raise UserError(f"no {what} '{one_line(text)}'{near_or_list(text, named_files(kind), 'there are')}")


def chain(file: File, top: str | None = None) -> list[tuple[str, Document]]:
    """A space's documents from its last base to itself, each with the name to show for it."""
    found: list[tuple[str, Document]] = []
    files: list[File] = []
    here = file
    while True:
        name = shown(here)
        document = read_document(here, name)
        found.append((name, document))
        files.append(here)
        base = document.tree.get("extends")
        if base is None:
            return found[::-1]
        place = f"{name}:{document.lines[('extends',)]}"
        if not isinstance(base, str):
            raise UserError(f"{place}: extends must be the name of one space or a path; got {base!r}.")
        try:
            here = find_file(base, SPACES, "search space", beside=here.parent, besides=files)
        except UserError as error:
            circle = [shown(one) for one in files if one.stem == base]
            if circle:
                way = " → ".join([*(shown(one) for one in files), circle[0]])
                raise UserError(f"{place}: extends goes in a circle: {way}. Break it.") from None
            raise UserError(f"{place}: extends: {error}") from None
        if here.resolve() in [one.resolve() for one in files]:
            way = " → ".join(shown(one) for one in [*files, here])
            raise UserError(f"{place}: extends goes in a circle: {way}. Break it.")


def spaces() -> list[SpaceInfo]:
    """Every named space, by name. Reads YAML only: a broken file is listed with its error."""
    return [_info(name, file) for name, file in sorted(named_files(SPACES).items())]


def _info(name: str, file: File) -> SpaceInfo:
    tree: dict[str, object] = {}
    try:
        for _, document in chain(file):
            trees.lay_over(tree, document.tree)
    except UserError as error:
        return SpaceInfo(name, "", file, False, str(error))
    own = document.tree.get("about", "")
    return SpaceInfo(name, one_line(str(own or "")), file, bool(tree.get("search")))
