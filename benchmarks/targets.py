"""How a benchmark says what it measured: a line per target, the overall line last, exit code 1 when one is
missed.
"""

from __future__ import annotations

import operator
import sys
from dataclasses import dataclass, field

_HOLDS = {"≤": operator.le, "≥": operator.ge}


@dataclass
class Targets:
    """`name: figure (target …) reached|missed`"""

    missed: int = 0
    lines: list[str] = field(default_factory=list)

    def check(self, name: str, figure: float, relation: str, target: float, unit: str = "") -> None:
        reached = _HOLDS[relation](figure, target)
        self.missed += not reached
        word = "reached" if reached else "missed"
        print(f"{name}: {figure:.3g}{unit} (target {relation} {target:g}{unit}) {word}", flush=True)

    def end(self) -> None:
        """Print the overall line and leave with its exit code."""
        print(f"overall: {'all targets reached' if not self.missed else f'{self.missed} missed'}", flush=True)
        sys.exit(1 if self.missed else 0)
