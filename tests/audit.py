"""Known vulnerabilities of the installed packages, by pip-audit. `make audit` and `make check` run it.

pip-audit says that it found none when it could ask about none, as with an index that has no advisories. This
program says so, and fails for vulnerabilities only.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

SECONDS = 300
OWN = "dmltune"  # not on an index


def verdict(packages: Sequence[Mapping[str, Any]]) -> tuple[int, list[str]]:
    """Return the exit code and the lines to print for what pip-audit says of each package."""
    packages = [each for each in packages if each["name"] != OWN]
    skipped = [each["name"] for each in packages if "skip_reason" in each]
    asked = len(packages) - len(skipped)
    lines = [
        f"{each['name']} {each['version']}: {flaw['id']}, {_remedy(flaw)}"
        for each in packages
        for flaw in each.get("vulns", ())
    ]
    if not asked:
        return 0, ["audit: not asked: the package index here has no advisories. Run it with a network."]
    if skipped:
        lines.append(f"audit: nothing is known of {len(skipped)}: {', '.join(skipped[:5])}")
    affected = sum(bool(each.get("vulns")) for each in packages)
    return int(affected > 0), [*lines, f"audit: {asked} packages, {affected} with known vulnerabilities"]


def _remedy(flaw: Mapping[str, Any]) -> str:
    fixed = flaw.get("fix_versions") or []
    return f"fixed in {', '.join(fixed)}" if fixed else "without a fix"


def main() -> int:
    if importlib.util.find_spec("pip_audit") is None:
        print("audit: not asked: pip-audit is not installed. pip install 'dmltune[dev]'")
        return 0
    command = [sys.executable, "-m", "pip_audit", "--format", "json", "--progress-spinner", "off", "--local"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        packages = json.loads(done.stdout)["dependencies"]
    except (subprocess.TimeoutExpired, ValueError, KeyError):
        print("audit: not asked: no service of advisories answers. Run it with a network.")
        return 0
    code, lines = verdict(packages)
    print("\n".join(lines))
    return code


if __name__ == "__main__":
    sys.exit(main())
