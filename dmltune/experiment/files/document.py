"""Read one YAML text as plain values with the line of every key.

A settings file needs mappings with unique text keys, lists, and the scalars of YAML 1.2's core schema
(`none`, `on` and `yes` are texts, `1e-5` is a number). Anchors, tags, merge keys and several documents are
refused: `extends` replaces them, and no file expands to more than its own text.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path as File
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml import events as ev
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from dmltune.data.files import open_regular
from dmltune.errors import UserError
from dmltune.experiment.problems import Path, Problem, one_line, show

MAX_BYTES = 64 * 1024
MAX_DEPTH = 12
MAX_VALUES = 5000  # the largest space has 300; ruamel reads 10,000 in a second
MAX_TEXT = 4096
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]")
_INT = re.compile(r"[-+]?[0-9]+|0x[0-9a-fA-F]+|0o[0-7]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
LARGEST_INT = 2**63 - 1


@dataclass(frozen=True)
class Document:
    """Values, and in `lines[path]` the line (from 1) of the key at `path`; list items have their index."""

    tree: dict[str, Any]
    lines: dict[Path, int]

    def place(self, shown: str, paths: Iterable[Path]) -> str:
        """Return `shown:line` of the first path of which a key is in the file, otherwise `shown`."""
        for path in paths:
            while path and path not in self.lines:
                path = path[:-1]
            if path:
                return f"{shown}:{self.lines[path]}"
        return shown


class _Mistake(Exception):
    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(one_line(message))
        self.line = line


def read_document(file: File, shown: str) -> Document:
    """Read `file`; every error is one line that begins with `shown` and the line number."""
    try:
        with open_regular(file, "rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise UserError(f"{shown}: cannot be read ({error.strerror}). Name a readable YAML file.") from None
    if len(raw) > MAX_BYTES:
        raise UserError(f"{shown}: larger than {MAX_BYTES // 1024} KiB. Name a settings file.")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        byte = f"byte 0x{raw[error.start]:02x} is not UTF-8"
        raise UserError(f"{shown}:{line}: {byte}. Save the file as UTF-8.") from None
    try:
        value, lines = copy.deepcopy(_built(text))
    except _Mistake as error:
        place = f"{shown}:{error.line}" if error.line else shown
        raise UserError(f"{place}: {error}") from None
    if value is None:
        raise UserError(f"{shown}: the file is empty. Write 'key: value' lines, such as 'extends: glyphs'.")
    if not isinstance(value, dict):
        kind = "a list" if isinstance(value, list) else show(value)
        raise UserError(f"{shown}:{lines.get((), 1)}: the file must hold 'key: value' lines; got {kind}.")
    return Document(value, lines)


def read_value(text: str) -> Any:
    """Read the value of an override: a YAML scalar, or a flow list or mapping. Raises ValueError."""
    stripped = text.strip()
    try:
        if stripped[:1] in ("[", "{", "'", '"'):
            return _build(stripped)[0]
        return scalar(_text(stripped))
    except _Mistake as error:
        raise ValueError(str(error)) from None


def unreadable(text: str) -> str | None:
    """Return why `text` cannot be a value (its length, a control character, a lone surrogate), or None."""
    if len(text) > MAX_TEXT:
        return f"a text has at most {MAX_TEXT:,} characters; got {len(text):,}. Shorten it."
    if control := _CONTROL.search(text):
        return f"character U+{ord(control.group()):04X} is not allowed in a text. Delete it."
    return None


def validate_plain(value: Any, path: Path = ()) -> None:
    """Refuse what JSON, YAML and the trackers do not take: values may come from a program."""
    where = one_line(".".join(path), 100)
    if len(path) > MAX_DEPTH:
        raise Problem(f"{where} is nested deeper than {MAX_DEPTH} levels. Flatten it.", path)
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str) or unreadable(key):
                raise Problem(f"a key must be a text of printable characters; got {show(key)}.", path)
            validate_plain(item, (*path, key))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            validate_plain(item, (*path, str(index)))
    elif value is not None and not isinstance(value, (bool, int, float, str)):
        raise Problem(f"{where} must be a plain value; got {show(value)}.", path)
    elif isinstance(value, float) and not math.isfinite(value):
        raise Problem(f"{where} must be a finite number; got {value!r}.", path)
    elif isinstance(value, int) and abs(value) > LARGEST_INT:
        raise Problem(f"{where} must fit 64 bits; got a larger number.", path)
    elif isinstance(value, str) and (reason := unreadable(value)):
        raise Problem(f"{where}: {reason}", path)


def _text(text: str, line: int | None = None) -> str:
    if reason := unreadable(text):
        raise _Mistake(reason, line)
    return text


def scalar(text: str, line: int | None = None) -> Any:
    """Read a plain scalar by YAML 1.2's core schema; numbers must be finite and fit 64 bits."""
    if text in ("", "~", "null", "Null", "NULL"):
        return None
    if text in ("true", "True", "TRUE", "false", "False", "FALSE"):
        return text.lower() == "true"
    if _INT.fullmatch(text):
        number = int(text, 0 if text[:2] in ("0x", "0o") else 10) if len(text) < 40 else LARGEST_INT + 1
        if abs(number) > LARGEST_INT:
            raise _Mistake(f"a whole number must fit 64 bits; got {text[:40]}. Write a smaller one.", line)
        return number
    if _NOT_FINITE.fullmatch(text):
        raise _Mistake(f"a number must be finite; got {text}. Write null for no value.", line)
    if _FLOAT.fullmatch(text):
        real = float(text)
        if not math.isfinite(real):
            raise _Mistake(f"a number must be finite; got {text[:40]}. Write a smaller one.", line)
        return real
    return text


@lru_cache(maxsize=128)
def _built(text: str) -> tuple[Any, dict[Path, int]]:
    """Return what `_build` does: a list of all spaces reads those that others extend many times."""
    return _build(text)


def _build(text: str) -> tuple[Any, dict[Path, int]]:
    """Return the value of a YAML text and the line of every key."""
    lines: dict[Path, int] = {}
    value: Any = None
    try:
        events = _limited(YAML(typ="safe", pure=True).parse(text))
        for event in events:
            if isinstance(event, ev.DocumentStartEvent) and lines:
                line = event.start_mark.line + 1
                raise _Mistake("a second document begins here; write one in each file", line)
            if isinstance(event, ev.NodeEvent):
                value = _value(event, events, (), lines)
    except MarkedYAMLError as error:
        raise _syntax(error) from None
    except YAMLError as error:
        character = getattr(error, "character", None)
        if character is None:
            raise _Mistake(f"not YAML: {error}") from None
        code = character if isinstance(character, int) else ord(character)
        line = text.count("\n", 0, getattr(error, "position", 0)) + 1
        raise _Mistake(f"character U+{code:04X} is not allowed in YAML. Delete it.", line) from None
    return value, lines


def _limited(events: Iterable[Any]) -> Iterator[Any]:
    for number, event in enumerate(events):
        if number > MAX_VALUES:
            line = event.start_mark.line + 1
            raise _Mistake(f"more than {MAX_VALUES:,} keys and values. Write fewer.", line)
        yield event


def _value(event: Any, events: Iterator[Any], path: Path, lines: dict[Path, int]) -> Any:
    """Return the scalar, list or mapping that begins with `event`."""
    line = event.start_mark.line + 1
    lines.setdefault(path, line)
    if isinstance(event, ev.AliasEvent) or event.anchor:
        rule = f"anchors and aliases ('{one_line(event.anchor, 60)}') are not supported"
        raise _Mistake(f"{rule}. Write the value out, or use extends.", line)
    if event.tag is not None and not (isinstance(event, ev.ScalarEvent) and event.tag == "!"):
        raise _Mistake(f"tags ('{one_line(event.tag, 60)}') are not supported. Write the plain value.", line)
    if isinstance(event, ev.ScalarEvent):
        value = scalar(event.value, line) if event.implicit[0] else event.value
        return _text(value, line) if isinstance(value, str) else value
    if len(path) >= MAX_DEPTH:
        raise _Mistake(f"nested deeper than {MAX_DEPTH} levels. Flatten it.", line)
    if isinstance(event, ev.SequenceStartEvent):
        values: list[Any] = []
        while not isinstance(event := next(events), ev.SequenceEndEvent):
            values.append(_value(event, events, (*path, str(len(values))), lines))
        return values
    mapping: dict[str, Any] = {}
    while not isinstance(event := next(events), ev.MappingEndEvent):
        line = event.start_mark.line + 1
        key = _key(event, line)
        if key in mapping:
            rule = f"key {show(key)} is written twice, first on line {lines[(*path, key)]}"
            raise _Mistake(f"{rule}. Delete one of them.", line)
        lines[(*path, key)] = line
        mapping[key] = _value(next(events), events, (*path, key), lines)
    return mapping


def _key(event: Any, line: int) -> str:
    if not isinstance(event, ev.ScalarEvent):
        raise _Mistake("a key must be a plain word, not a list or a mapping", line)
    if event.value == "<<":
        raise _Mistake("merge keys ('<<') are not supported. Use extends.", line)
    return _text(event.value, line)


def _syntax(error: MarkedYAMLError) -> _Mistake:
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark is not None else None
    problem = one_line(str(error.problem or error.context or "not YAML"), 200)
    if "'\\t'" in problem:
        return _Mistake("a tab where YAML wants spaces. Indent with spaces.", line)
    if "mapping values are not allowed" in problem:
        remedy = "Check the indentation, or quote a text that holds ': '."
        return _Mistake(f"a ':' that YAML does not expect here. {remedy}", line)
    if "<stream end>" in problem or "end of stream" in problem:
        opened = error.context_mark or mark
        line = opened.line + 1 if opened is not None else None
        return _Mistake("a bracket or quote is opened here and never closed. Close it.", line)
    context = f" {one_line(error.context, 200)}" if error.context and error.context != problem else ""
    return _Mistake(f"not YAML: {problem}{context}", line)
