"""What a job runs: started again when it was lost, stopped in order, its result as a marked last line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dmltune.cluster import driver

BEGIN = "import os, signal, sys, pathlib, json, time\nfile = os.environ['DMLTUNE_RESULT_FILE']\n"


def attempts(tmp_path: Path, program: str, retries: int) -> tuple[int, Path]:
    script, result = tmp_path / "program.py", tmp_path / "result.json"
    script.write_text(BEGIN + program, encoding="utf-8")
    usual = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        return driver.attempts([sys.executable, str(script)], retries, result), result
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "PAUSE_S", 0.01)


COUNT = "mark = pathlib.Path(file).with_name('count')\nmark.open('a').write('x')\nn = len(mark.read_text())\n"


def test_a_driver_that_was_killed_is_started_again(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, result = attempts(
        tmp_path,
        COUNT
        + "if n < 3: os.kill(os.getpid(), signal.SIGKILL)\npathlib.Path(file).write_text('{\"rows\": [1]}')",
        2,
    )
    assert code == 0
    assert "the driver ended by signal 9; attempt 3 of 3 continues" in capfd.readouterr().out
    assert driver.result_line(result) == 'dmltune-result {"trials":1}'


def test_after_the_last_attempt_the_code_is_that_of_shells(tmp_path: Path) -> None:
    assert attempts(tmp_path, COUNT + "os.kill(os.getpid(), signal.SIGKILL)", 1)[0] == 137
    assert len((tmp_path / "count").read_text()) == 2


@pytest.mark.parametrize("code", [2, 130])
def test_a_mistake_and_a_stop_in_order_are_not_tried_again(tmp_path: Path, code: int) -> None:
    assert attempts(tmp_path, COUNT + f"sys.exit({code})", 5)[0] == code
    assert (tmp_path / "count").read_text() == "x"


def test_sigterm_goes_on_to_the_command_and_ends_the_attempts(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (print('asked', flush=True), sys.exit(1)))\n"
        "print('ready', flush=True)\ntime.sleep(60)\n",
        encoding="utf-8",
    )
    code = f"from dmltune.cluster import driver; import pathlib, sys; sys.exit(driver.attempts([sys.executable, {str(program)!r}], 3, pathlib.Path({str(tmp_path / 'r')!r})))"  # noqa: E501
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=20)
    assert out == "asked\n", "and no further attempt"
    assert process.returncode == 1


def test_two_signals_at_once_are_one_wish_and_a_later_one_ends_at_once() -> None:
    program = (
        "import os, signal, time\nfrom dmltune.train.stop_signals import stop_signals\n"
        "with stop_signals(lambda text: print(text, flush=True)) as stopped:\n"
        "    os.kill(os.getpid(), signal.SIGTERM); os.kill(os.getpid(), signal.SIGTERM)\n"
        "    print('goes on', stopped.is_set(), flush=True)\n"
        "    time.sleep(0.5)\n"
        "    try:\n        os.kill(os.getpid(), signal.SIGTERM); time.sleep(5)\n"
        "    except KeyboardInterrupt: print('ended', flush=True)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout.splitlines() == [
        "stopping cleanly; once more to stop at once",
        "goes on True",
        "ended",
    ]


def test_a_cluster_without_the_packages_gets_one_line_that_names_them(tmp_path: Path) -> None:
    """A Python without site-packages, as a cluster whose nodes have nothing installed."""
    root = Path(driver.__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-S", "-m", "dmltune.cluster.driver", "--retries", "0", "--", "spaces"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(root), "PATH": os.environ["PATH"]},
        timeout=30,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert len(done.stdout.splitlines()) == 1
    assert "lacks torch, " in done.stdout
    assert "pip: in the job" in done.stdout


def test_the_result_of_a_real_command_is_the_last_line(tmp_path: Path) -> None:
    words = ["--retries", "0", "--", "methods"]
    done = subprocess.run(
        [sys.executable, "-m", "dmltune.cluster.driver", *words],
        capture_output=True, text=True, cwd=tmp_path, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    *_, last = done.stdout.splitlines()
    assert last.startswith(driver.MARK)
    assert json.loads(last.removeprefix(driver.MARK))


def test_a_pause_between_attempts_can_be_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "PAUSE_S", 0.5)
    begin = time.monotonic()
    import threading

    threading.Timer(0.4, os.kill, (os.getpid(), signal.SIGTERM)).start()
    code, _ = attempts(tmp_path, COUNT + "sys.exit(1)", 20)
    assert code in (1, 143)
    assert time.monotonic() - begin < 10
