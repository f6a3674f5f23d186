"""Results on stdout: one JSON document, or tables. Everything else goes to stderr."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NoReturn

from dmltune.cli.boundary import output_errors
from dmltune.cluster.driver import RESULT_FILE
from dmltune.errors import printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table


class Output:
    """Takes the result of a command. In JSON only `document` prints, in tables only `show` and `text`."""

    def __init__(self, form: str, stream: IO[str]) -> None:
        self.json = form == "json"
        self.stream = stream

    def document(self, value: Any) -> None:
        """Print the one JSON document (no effect in tables). A cluster job leaves it in a file as well."""
        if file := os.environ.get(RESULT_FILE):
            Path(file).write_text(to_json(value), encoding="utf-8")
        if self.json:
            with output_errors():
                self.stream.write(to_json(value))
                self.stream.flush()

    def show(self, *renderables: RenderableType) -> None:
        """Print what people read (no effect in JSON)."""
        if not self.json:
            from rich.text import Text

            console = console_for(self.stream)
            with output_errors():
                for renderable in renderables:
                    # The terminal wraps a line of text: commands in it are copied.
                    console.print(renderable, soft_wrap=isinstance(renderable, str | Text))

    def text(self, text: str) -> None:
        """Print `text` as it is, but for control characters (no effect in JSON)."""
        if not self.json:
            with output_errors():
                self.stream.write(printable(text))


def to_json(value: Any) -> str:
    text = json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    return re.sub("[\x7f-\x9f]", lambda match: f"\\u{ord(match[0]):04x}", text)


def terminal_environment() -> dict[str, str]:
    """Return the environment for rich, which reads every number as a size, also one that int() refuses."""
    sizes = {name: os.environ.get(name, "") for name in ("COLUMNS", "LINES")}
    odd = {name for name, value in sizes.items() if not value.isascii() or len(value) > 5}
    return {name: value for name, value in os.environ.items() if name not in odd}


def console_for(stream: IO[str], widest: int = 100) -> Console:
    """Return a console: colours on a terminal only, at most `widest` columns, 80 when it is no terminal."""
    from rich.console import Console
    from rich.segment import Segment

    class SafeConsole(Console):
        def render(self, renderable: Any, options: Any = None) -> Any:
            """Yield the segments with control characters of names and values escaped."""
            for segment in super().render(renderable, options):
                yield segment if segment.control else Segment(printable(segment.text), segment.style)

        def on_broken_pipe(self) -> NoReturn:
            raise BrokenPipeError(32, os.strerror(32))

    console = SafeConsole(file=stream, highlight=False, soft_wrap=False, _environ=terminal_environment())
    console.width = min(console.width, widest) if console.is_terminal else 80
    return console


def new_table(first: str, *columns: str) -> Table:
    """Return a table: the first column is not wrapped, the others are right-aligned numbers."""
    from dmltune.report.terminal import grid

    table = grid()
    table.add_column(first, no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def facts_table(*rows: tuple[str, str]) -> Table:
    """Return a table of names and values; long values are folded."""
    from dmltune.report.terminal import grid

    table = grid(show_header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def plain(value: Any) -> Any:
    """Return JSON's types for dataclasses, paths, numpy's numbers; NaN and infinity become null."""
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
    """Yield the output. In JSON, file descriptor 1 is stderr meanwhile: prints of libraries go there."""
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
            with contextlib.suppress(OSError):  # raised by `document` already
                stream.close()


def say(text: object) -> None:
    """Print a line for people on stderr: stdout is for the result."""
    print(printable(str(text)), file=sys.stderr, flush=True)


def _owns_descriptor() -> bool:
    """Return False when sys.stdout was replaced, as in a notebook or a test."""
    try:
        return sys.stdout.fileno() == 1
    except (OSError, ValueError, AttributeError):
        return False
