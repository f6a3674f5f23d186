"""Where errors and log records leave the program: streams that always work, and one line per mistake."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import IO

from dmltune.errors import NOTE, UserError, UserErrors, printable, readable
from dmltune.store import without_password

FAILED, MISTAKE, INTERRUPTED = 1, 2, 130  # 130 is 128 + SIGINT, as in shells
LONGEST_LINE = 900  # characters of a message
_CREDENTIALS = re.compile(r"(?<=://)[^\s/?#@]*@")
_LONG_WORD = re.compile(r"\S{300,}")
LEVELS = (NOTE, logging.INFO, logging.DEBUG)
ANSWER_READERS = ("mlflow.store.tracking.rest_store", "mlflow.store.model_registry.rest_store")
STORAGE_LIBRARIES = ("mlflow", "sqlalchemy", "alembic", "optuna", "sqlite3")


class OutputError(Exception):
    """The result cannot be written; the cause is the OSError. A closed pipe is no failure."""


@contextlib.contextmanager
def output_errors() -> Iterator[None]:
    """Turn an OSError of a write to stdout into an OutputError."""
    try:
        yield
    except OSError as error:
        raise OutputError from error


def guarded(run: Callable[[], int], verbose: int) -> int:
    """Return the exit code of `run`. A user's mistake becomes one line; other errors keep their traceback."""
    _open_streams()
    with _logging_to_stderr(verbose):
        try:
            code = _messages(run, verbose)
        except OutputError as error:
            return _without_output(error.__cause__)
        try:
            sys.stdout.flush()
        except OSError as error:
            return _without_output(error)
        return code


def _messages(run: Callable[[], int], verbose: int) -> int:
    try:
        return run()
    except OutputError:
        raise
    except SystemExit as end:  # from argparse, after --help
        return int(end.code or 0)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except UserError as error:
        for line in error.lines if isinstance(error, UserErrors) else (str(error),):
            print(message_line(line), file=sys.stderr)
        return MISTAKE
    except Exception as error:
        message = library_message(error)
        if message is None:
            raise
        if verbose:
            traceback.print_exc()
        print(message_line(message), file=sys.stderr)
        return FAILED if lost_process(error) else MISTAKE


def verbosity(arguments: Sequence[str]) -> int:
    """Return how often -v was given, before anything is parsed."""
    return sum(
        1 if text == "--verbose" else len(text) - 1
        for text in arguments
        if text == "--verbose" or re.fullmatch("-v{1,9}", text)
    )


def message_line(text: str) -> str:
    """Return `text` on one line of at most LONGEST_LINE characters, without control characters.

    A user and a password in an address are hidden, also where an address is in the wrong place.
    """
    line = printable(text[: len(text) - len(text.lstrip(" "))] + " ".join(text.split()))
    line = _CREDENTIALS.sub("***@", line)
    line = _LONG_WORD.sub(lambda word: f"{word[0][:120]}…({len(word[0]):,} characters)", line)
    return line if len(line) <= LONGEST_LINE else f"{line[:500]} … {line[-350:]}"


def library_message(error: Exception) -> str | None:
    """Return rule, value and remedy for a library's error that the user can correct, else None."""
    if is_full(error):
        return (
            f"no space is left on the disk of the store or of the temporary files ({type(error).__name__}). "
            "Make room; the same command continues. -v shows the traceback."
        )
    if isinstance(error, OSError) and error.filename is not None:
        name = readable(os.fsdecode(error.filename) if isinstance(error.filename, bytes | str) else "a file")
        return f"a file must be readable or writable; got {name} ({error.strerror}). Check its path and mode."
    if isinstance(error, RuntimeError) and "home directory" in str(error):
        return "a path that begins with ~ must name a user of this machine. Write the whole path."
    if isinstance(error, ImportError) and "DB access module" in str(error):
        driver = getattr(error.__cause__, "name", None) or "a module"
        return f"DMLTUNE_OPTUNA_STORAGE needs {driver}, which is not installed. Install it, or unset it."
    if isinstance(error, UnicodeEncodeError) and "surrogates" in error.reason:
        return f"a value must be UTF-8 text; got {readable(str(error.object))}. Write it as UTF-8."
    if lost_process(error):
        return (
            f"Ray lost a process of this command ({type(error).__name__}), often for lack of memory. "
            "The same command continues; a smaller --concurrent needs less. -v shows the traceback."
        )
    if _answered_wrongly(error):
        return (
            f"the tracking server's answer makes no sense ({type(error).__name__}). Check that "
            "MLFLOW_TRACKING_URI names an MLflow server of a version like this one; -v shows the traceback."
        )
    if type(error).__module__.partition(".")[0] in STORAGE_LIBRARIES:
        reason = without_password((str(error).strip().splitlines() or [""])[0])
        return (
            f"the storage of runs or studies failed ({type(error).__name__}: {reason[:300]}). "
            "Check --store, MLFLOW_TRACKING_URI and DMLTUNE_OPTUNA_STORAGE; -v shows the traceback."
        )
    return None


def _answered_wrongly(error: Exception) -> bool:
    """Return whether MLflow's client failed to read an answer: it does not examine their types."""
    frames = (frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__))
    return not type(error).__module__.startswith("mlflow") and any(
        name.startswith(ANSWER_READERS) for name in frames
    )


def is_full(error: BaseException | None) -> bool:
    """Return whether a full disk is the error, or its cause. SQLite tells it in a text only."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        if "database or disk is full" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def lost_process(error: Exception) -> bool:
    """Return whether a process or node that Ray started for this command is gone."""
    known = sys.modules.get("ray.exceptions")
    names = ("RayActorError", "WorkerCrashedError", "NodeDiedError", "OutOfMemoryError", "ObjectLostError")
    return known is not None and isinstance(error, tuple(getattr(known, name) for name in names))


def require_working_folder() -> None:
    """Raise a UserError when the working folder was removed: relative paths mean nothing then."""
    try:
        os.getcwd()
    except OSError:
        raise UserError("the working folder was removed. Change to a folder that exists.") from None


def _open_streams() -> None:
    """Open what was closed (`>&-`) on os.devnull, and replace characters that the encoding lacks."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)
    for stream, errors in ((sys.stdout, "replace"), (sys.stderr, "backslashreplace")):
        with contextlib.suppress(AttributeError):
            stream.reconfigure(errors=errors)  # type: ignore[union-attr]
    # torch makes this folder when it is imported; only torch.compile, which is not used, fills it.
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", tempfile.gettempdir())


def _without_output(error: BaseException | None) -> int:
    """Return the exit code after stdout failed; what is still buffered goes to os.devnull."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        if sys.stdout.fileno() == 1:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    if isinstance(error, OSError) and error.errno == errno.EPIPE:
        return 0  # the reader (`| head`) has seen enough
    reason = getattr(error, "strerror", None) or type(error).__name__
    print(f"the result cannot be written to stdout ({reason}). Send it elsewhere.", file=sys.stderr)
    return FAILED


class _OneLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        level = "" if record.levelno == NOTE else f"{record.levelname.lower()}: "
        line = message_line(level + record.getMessage())
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class _Stderr(logging.StreamHandler[IO[str]]):
    """Write to what sys.stderr is now: a live table replaces it, and moves down below each line."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> IO[str]:  # type: ignore[override]
        return sys.stderr


@contextlib.contextmanager
def _logging_to_stderr(verbose: int) -> Iterator[None]:
    """Write dmltune's log records to stderr, a line each; those of libraries and warnings only with -v."""
    handler = _Stderr()
    handler.setFormatter(_OneLine())
    handler.addFilter(lambda record: verbose > 0 or record.name.partition(".")[0] == "dmltune")
    if not verbose:
        os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "ERROR")
    ours, root = logging.getLogger("dmltune"), logging.getLogger()
    databases = logging.getLogger("mlflow.store.db.utils")  # logs the traceback of what it raises

    def only_with_v(record: logging.LogRecord) -> bool:
        return verbose > 0

    databases.addFilter(only_with_v)  # Alembic resets levels
    level, show = ours.level, warnings.showwarning
    ours.setLevel(LEVELS[min(verbose, 2)])
    root.addHandler(handler)

    def log_warning(message: Warning | str, category: type[Warning], *_: object) -> None:
        logging.getLogger("py.warnings").warning("%s: %s", category.__name__, message)

    warnings.showwarning = log_warning  # type: ignore[assignment]
    try:
        yield
    finally:
        warnings.showwarning = show
        databases.removeFilter(only_with_v)
        root.removeHandler(handler)
        ours.setLevel(level)
