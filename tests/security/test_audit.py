"""`make audit`: what could not be asked is not taken for a good answer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import audit

FLAW = {"id": "PYSEC-2018-28", "fix_versions": ["2.20.0"]}
GOOD = {"name": "a", "version": "1", "vulns": []}
SKIPPED = {"name": "b", "skip_reason": "Dependency not found on PyPI and could not be audited: b (1)"}
OWN = {"name": "dmltune", "skip_reason": "not on PyPI"}


def test_a_vulnerability_fails_and_names_its_fix() -> None:
    code, lines = audit.verdict([GOOD, {"name": "requests", "version": "2.19.0", "vulns": [FLAW]}, OWN])
    assert code == 1
    assert lines[0] == "requests 2.19.0: PYSEC-2018-28, fixed in 2.20.0"
    assert lines[-1] == "audit: 2 packages, 1 with known vulnerabilities"


def test_packages_that_were_not_asked_for_are_told() -> None:
    assert audit.verdict([GOOD, OWN]) == (0, ["audit: 1 packages, 0 with known vulnerabilities"])
    assert "nothing is known of 1: b" in audit.verdict([GOOD, SKIPPED])[1][0]
    for nothing in ([SKIPPED, OWN], [SKIPPED] * 3, []):
        code, lines = audit.verdict(nothing)
        assert (code, len(lines)) == (0, 1)
        assert "not asked" in lines[0]


def test_without_a_network_it_says_so_and_does_not_fail(tmp_path: Path) -> None:
    closed = dict.fromkeys(("https_proxy", "HTTPS_PROXY", "http_proxy", "ALL_PROXY"), "http://127.0.0.1:9")
    environment = {**os.environ, **closed, "NO_PROXY": "", "no_proxy": "", "HOME": str(tmp_path)}
    command = [sys.executable, audit.__file__]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "not asked" in done.stdout
