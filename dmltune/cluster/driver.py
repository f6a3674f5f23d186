"""What a job runs on the head: one command of dmltune, started again when its process was lost.

    python -m dmltune.cluster.driver --retries 2 -- search glyphs-ccp.yaml --name glyphs-ccp …

The last line of the job's log is the marked result of the command, so that whoever submitted it needs no
access to the store. Only the standard library is imported here: a cluster without dmltune's packages gets a
line that names them.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import FrameType

from dmltune.errors import parse_json

MARK = "dmltune-result "
RESULT_FILE = "DMLTUNE_RESULT_FILE"
FINAL = (0, 2, 130)  # done, a mistake of the user, stopped in order: the same command would do the same
MODULES = ("torch", "torchvision", "optuna", "mlflow", "pydantic", "ruamel.yaml", "safetensors", "rich")
PAUSE_S = 2.0


def main(arguments: list[str]) -> int:
    retries, command = parse(arguments)
    if missing := [name for name in MODULES if not found(name)]:
        print(
            f"the cluster's Python {sys.version.split()[0]} lacks {', '.join(missing)}. "
            "Use an image with dmltune, or list packages under pip: in the job.",
            flush=True,
        )
        return 2
    with tempfile.TemporaryDirectory(prefix="dmltune-job-") as folder:
        file = Path(folder) / "result.json"
        code = attempts([sys.executable, "-m", "dmltune", *command], retries, file)
        if (line := result_line(file)) is not None:
            print(line, flush=True)
    return code


def parse(arguments: list[str]) -> tuple[int, list[str]]:
    if (
        len(arguments) < 4
        or arguments[0] != "--retries"
        or not arguments[1].isdigit()
        or arguments[2] != "--"
    ):
        raise SystemExit("usage: python -m dmltune.cluster.driver --retries N -- COMMAND …")
    return int(arguments[1]), arguments[3:]


def found(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def attempts(command: list[str], retries: int, file: Path) -> int:
    """Run the command; a lost or failed process is started again. The same name continues its search."""
    stopped = Stop()
    for attempt in range(retries + 1):
        process = subprocess.Popen(command, env=os.environ | {RESULT_FILE: str(file)})
        stopped.process = process
        code = process.wait()
        if code in FINAL or stopped.wanted.is_set() or attempt == retries:
            return code if code >= 0 else 128 - code
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        print(f"the driver ended {how}; attempt {attempt + 2} of {retries + 1} continues", flush=True)
        time.sleep(PAUSE_S)
        if stopped.wanted.is_set():
            return 143
    raise AssertionError("the last attempt returns")


class Stop:
    """SIGTERM and SIGINT go on to the command, which stops in order."""

    def __init__(self) -> None:
        self.wanted = threading.Event()
        self.process: subprocess.Popen[bytes] | None = None
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._pass_on)

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        self.wanted.set()
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)


def result_line(file: Path) -> str | None:
    """Return the marked line with the command's JSON document, or None when it left none.

    Of a thousand trials the log needs the number: the runs have them.
    """
    try:
        document = parse_json(file.read_bytes())
    except (OSError, ValueError):
        return None
    if isinstance(document, dict) and isinstance(document.get("rows"), list):
        document["trials"] = len(document.pop("rows"))
    return MARK + json.dumps(document, ensure_ascii=True, separators=(",", ":"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
