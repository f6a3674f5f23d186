"""What is installed is what was written: the wheel carries spaces and jobs, and works outside the clone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", str(ROOT), "--no-build-isolation", "--wheel-dir", str(folder))
    (built,) = folder.glob("dmltune-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel unpacked by pip into a folder of its own; its dependencies are those of the tests."""
    folder = tmp_path_factory.mktemp("installed")
    pip("install", str(wheel), "--target", str(folder))
    return folder


def pip(*words: str) -> None:
    command = [sys.executable, "-m", "pip", *words, "--no-deps", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def run(installed: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The installed console script in a folder that knows nothing of the clone."""
    return subprocess.run(
        [sys.executable, str(installed / "bin" / "dmltune"), *words],
        capture_output=True,
        text=True,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(installed), "PYTHONSAFEPATH": "1"},
        check=False,
    )


def test_the_wheel_holds_every_space_every_job_and_no_test(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for kind in ("search_spaces", "jobs"):
        files = {f"dmltune/{kind}/{file.name}" for file in (ROOT / kind).glob("*.yaml")}
        assert files
        assert files <= names
    assert {"dmltune/py.typed", "dmltune/report/templates/check.html.j2"} <= names
    assert not [
        name for name in names if name.split("/")[0] not in ("dmltune", f"dmltune-{version()}.dist-info")
    ]
    assert not [name for name in names if "__pycache__" in name or "/tests/" in name]


def test_the_installed_command_lists_every_space_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    done = run(installed, tmp_path, "spaces", "-f", "json")
    assert done.returncode == 0, done.stderr
    found = {space["name"]: Path(space["path"]) for space in json.loads(done.stdout)}
    assert set(found) == {file.stem for file in (ROOT / "search_spaces").glob("*.yaml")}
    assert all(installed.resolve() in path.resolve().parents for path in found.values())


def test_the_installed_command_searches(installed: Path, tmp_path: Path) -> None:
    words = ("data.classes=40", "batch.size=16", "max_steps=4", "validate_every=2", "--trials", "2")
    done = run(
        installed,
        tmp_path,
        "search",
        "glyphs-ccp",
        *words,
        "--concurrent",
        "1",
        "--name",
        "small",
        "-f",
        "json",
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["winner"]["state"] == "complete"
    assert len(result["rows"]) == 2
    assert (tmp_path / "mlruns" / "mlflow.db").exists()


def test_constraints_name_a_version_of_every_dependency_and_only_versions() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert all(line.count("==") == 1 and "/" not in line for line in pins)
    names = {line.partition("==")[0].lower().replace("_", "-") for line in pins}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [
        *project["dependencies"],
        *(line for extra, lines in extras.items() if extra != "gpu" for line in lines),
    ]
    for requirement in wanted:
        assert requirement.partition(">=")[0].partition("[")[0] in names


def version() -> str:
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"])
