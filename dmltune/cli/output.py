"""stdout belongs to the result: one JSON document, or tables. Everything else goes to stderr."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


class Output:
    """What a command hands its result to. In JSON only `document` prints, in tables only `show`."""

    def __init__(self, form: str, stream: IO[str]) -> None:
        self.json = form == "json"
        self.stream = stream

    def document(self, value: Any) -> None:
        """The one JSON document (no effect in tables)."""
        if self.json:
            json.dump(plain(value), self.stream, indent=2, ensure_ascii=False, allow_nan=False)
            self.stream.write("\n")
            self.stream.flush()

    def show(self, *renderables: RenderableType) -> None:
        """What people read (no effect in JSON)."""
        if not self.json:
            from rich.text import Text

            console = console_for(self.stream)
            for renderable in renderables:
                # A line of text is for the terminal to wrap: commands in it are copied.
                console.print(renderable, soft_wrap=isinstance(renderable, str | Text))


def console_for(stream: IO[str]) -> Console:
    """Colours on a terminal only; the width of the terminal, at most 100, 80 when there is none."""
    from rich.console import Console

    console = Console(file=stream, highlight=False, soft_wrap=False)
    console.width = min(console.width, 100) if console.is_terminal else 80
    return console


def plain(value: Any) -> Any:
    """Dataclasses, paths, numpy's numbers → JSON's types; NaN and infinity become null."""
    if isinstance(value, str):  # a file name may have bytes that are not UTF-8
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, bool | int) or value is None:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Path):
        return plain(str(value))
    if hasattr(value, "item"):
        return plain(value.item())
    raise TypeError(f"no JSON for {type(value).__name__}")


@contextlib.contextmanager
def output(form: str) -> Iterator[Output]:
    """In JSON, file descriptor 1 points to stderr meanwhile: libraries' prints stay out of the document."""
    if form != "json":
        yield Output(form, sys.stdout)
        return
    own = _owns_descriptor()
    sys.stdout.flush()
    stream = os.fdopen(os.dup(1), "w", encoding="utf-8") if own else sys.stdout
    try:
        with contextlib.redirect_stdout(sys.stderr):
            if own:
                os.dup2(2, 1)
            yield Output(form, stream)
    finally:
        if own:
            os.dup2(stream.fileno(), 1)
            stream.close()


def _owns_descriptor() -> bool:
    """False when somebody replaced sys.stdout (a notebook, a test)."""
    try:
        return sys.stdout.fileno() == 1
    except (OSError, ValueError, AttributeError):
        return False
