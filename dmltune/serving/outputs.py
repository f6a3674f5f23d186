"""Files that the commands write: whole or not at all, and never over another one unasked."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from dmltune.errors import UserError, readable


def require_writable(
    file: Path, suffixes: tuple[str, ...] = (), force: bool = False, option: str = "-o"
) -> None:
    """Raise a UserError unless the file can be made. Checked before anything that takes long."""
    if suffixes and file.suffix.lower() not in suffixes:
        raise UserError(f"{option} must end with {' or '.join(suffixes)}; got {readable(str(file))}.")
    folder = file.absolute().parent
    try:
        if file.is_dir():
            raise UserError(f"{option} must name a file; {readable(str(file))} is a folder.")
        if os.path.lexists(file) and not force:
            raise UserError(
                f"{option}: {readable(str(file))} exists already. Choose another name, or add --force."
            )
        if not folder.is_dir():
            raise UserError(f"{option}: the folder {readable(str(folder))} does not exist. Make it first.")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{option} must name a file; got {readable(str(file))} ({reason}).") from None
    if not os.access(folder, os.W_OK):
        raise UserError(f"{option}: the folder {readable(str(folder))} cannot be written. Choose another.")


def write_file(file: Path, write: Callable[[Path], object]) -> None:
    """Let `write` make a file beside `file`, and put it in its place when it is complete."""
    try:
        handle, temporary = tempfile.mkstemp(
            prefix=f".{file.name[:50]}.", suffix=file.suffix, dir=file.parent
        )
        os.close(handle)
        try:
            write(Path(temporary))
            os.replace(temporary, file)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise UserError(
            f"-o: {readable(str(file))} cannot be written ({error.strerror or error}). Choose another place."
        ) from None
