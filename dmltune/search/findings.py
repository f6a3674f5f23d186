"""What the trials of a search say beside their scores: the noise, and parameters without effect."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence

from dmltune.experiment.fidelity import Fidelity
from dmltune.search.state import FidelityResult, IdleParameter, Noise, TrialRecord, Trust

_ENDED = ("complete", "pruned")


def noise(rows: Iterable[TrialRecord]) -> Noise | None:
    """Return the noise of the reference point over seeds, when it ran with two or more."""
    repeated = [row for row in rows if row.state == "complete" and _is_reference(row)]
    scores = tuple(row.best for row in repeated if row.best is not None)
    return Noise(scores, statistics.stdev(scores)) if len(scores) > 1 else None


def idle_parameters(names: Iterable[str], rows: Sequence[TrialRecord]) -> tuple[IdleParameter, ...]:
    """Return the searched parameters that acted in less than half of the ended trials that had them."""
    points = [row for row in rows if row.role in ("reference", "search") and row.state in _ENDED]
    found = []
    for name in names:
        having = [row for row in points if name in row.values]
        reasons = Counter(row.idle[name] for row in having if name in row.idle)
        if 2 * reasons.total() > len(having):
            acted = len(having) - reasons.total()
            found.append(IdleParameter(name, acted, len(having), reasons.most_common(1)[0][0]))
    return tuple(found)


def fidelity_result(
    fidelity: Fidelity | None, trust: Trust | None, rows: Sequence[TrialRecord]
) -> FidelityResult | None:
    """Return how cheap trainings were used, with their time beside that of full ones of the same points."""
    if fidelity is None:
        return None
    cheap = [row for row in rows if row.role == "cheap"]
    points = {tuple(sorted(row.values.items())): row for row in rows if row.role in ("reference", "search")}
    twins = [(row, points.get(tuple(sorted(row.values.items())))) for row in cheap]
    both = [(a.seconds, b.seconds) for a, b in twins if b and a.state == b.state == "complete"]
    whole = sum(seconds for _, seconds in both)
    share = round(sum(seconds for seconds, _ in both) / whole, 3) if whole else None
    return FidelityResult(dict(fidelity.settings), fidelity.cost, len(cheap), trust, share)


def _is_reference(row: TrialRecord) -> bool:
    """Whether it trained the reference point, which is trial 0, on the usual fold."""
    return row.role == "reference" or (row.role == "repeat" and not row.repeats and not row.fold)
