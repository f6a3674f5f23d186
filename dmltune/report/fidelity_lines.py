"""What is said about the cheap trainings of a search."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmltune.report import formatting

if TYPE_CHECKING:
    from dmltune.search.state import FidelityResult, Trust


def trust_message(trust: Trust) -> str:
    """Return `rank correlation with the full score 0.94 (0.54 to 1.00) of 6 points: …`."""
    correlation = f"{trust.correlation:.2f} ({trust.low:.2f} to {trust.high:.2f}, 90 %)"
    found = f"cheap trials: rank correlation with the full score {correlation}, {trust.pairs} points"
    if trust.trusted:
        return f"{found}: new points are tried cheaply first"
    if trust.correlation >= trust.threshold:
        return f"{found}: too few to show it, switched off"
    return f"{found}: below {trust.threshold:g}, switched off"


def fidelity_lines(found: FidelityResult | None) -> list[str]:
    """Return what the fidelity was and whether it was used; nothing without one."""
    if found is None:
        return []
    settings = formatting.parameters(found.settings)
    number = f"{found.cheap_trials} trial{'' if found.cheap_trials == 1 else 's'}"
    first = f"Cheap fidelity {settings}: {number}, each counted as {100 * found.cost:.0f} % of a full one"
    first += "." if found.measured_cost is None else f"; {100 * found.measured_cost:.0f} % of the time."
    if found.trust is None:
        return [first, "It was not measured: too few points had ended."]
    text = trust_message(found.trust).removeprefix("cheap trials: ")
    return [first, f"{text[0].upper()}{text[1:]}."]
