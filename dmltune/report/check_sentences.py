"""What a check found, in plain words: for the terminal and for the page.

A document is what `CheckResult.to_dict()` gives (check.json). Its figures may be null: one model tells
nothing about chance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from dmltune.report import formatting

Document = Mapping[str, Any]
Kind = Literal["better", "worse", "none", "unknown", "itself"]
MINE = "winner"


@dataclass(frozen=True)
class Judgement:
    """`sentence` is for behind a name; `figures` has no claim in it."""

    kind: Kind
    sentence: str
    figures: str = ""

    @property
    def whole(self) -> str:
        return f"{self.sentence}: {self.figures}" if self.figures else self.sentence


def known(number: Any) -> float | None:
    """NaN is null in JSON: both mean that nobody knows."""
    return None if number is None or not math.isfinite(number) else float(number)


def name_of(configuration: Document) -> str:
    """`winner = reference point` where both have the same values."""
    labels: Sequence[str] = configuration.get("labels") or [configuration["key"]]
    return " = ".join(labels)


def find(document: Document, key: str) -> Document | None:
    return next((found for found in document["configurations"] if found["key"] == key), None)


def main_of(document: Document) -> Document | None:
    """The configuration that the check is about: the winner, or else the first that is not the baseline."""
    rows: Sequence[Document] = document["configurations"]
    named = [row for row in rows if MINE in row.get("labels", ())]
    others = [row for row in rows if row["key"] != document.get("baseline")]
    return next(iter([*named, *others, *rows]), None)


def judge(document: Document, configuration: Document) -> Judgement:
    """Better or worse only when the p-value, after Holm's correction, and the interval both say so."""
    if configuration["key"] == document.get("baseline"):
        return Judgement("itself", "the baseline")
    versus = configuration.get("versus_baseline")
    difference = known(versus["difference"]) if versus else None
    if versus is None or difference is None:
        return Judgement("unknown", "not compared with the baseline")
    p = p_value(versus)
    low, high = known(versus.get("low")), known(versus.get("high"))
    digits = digits_for(low, high)
    gap = f"{points(difference, digits)} points"
    if p is None or low is None or high is None:
        return Judgement("unknown", "how much of the difference is chance is not known", gap)
    figures = (
        f"{gap}, {level(document)} CI {points(low, digits)} to {points(high, digits)}, {p_words(versus)}"
    )
    if versus.get("models", 2) < 2:  # the interval is about other classes alone
        return Judgement("unknown", "one model each, which another seed would change", figures)
    if p <= 1 - document.get("level", 0.95) and (low > 0 or high < 0):
        kind: Kind = "better" if difference > 0 else "worse"
        return Judgement(kind, f"{kind} than the baseline", figures)
    return Judgement("none", "no difference found", figures)


def headline(document: Document) -> str:
    """The verdict of the whole check as one sentence."""
    mine = main_of(document)
    if mine is None or not any(row.get("models") for row in document["configurations"]):
        return "No model has finished: there is nothing to compare yet."
    first, *more = name_of(mine).split(" = ")
    name = f"{first}, which is the {' and the '.join(more)}," if more else first
    return {
        "better": f"The {name} is better than the baseline.",
        "worse": f"The {name} is worse than the baseline.",
        "none": f"No difference found between the {name} and the baseline.",
        "unknown": f"Whether the {name} differs from the baseline is not known.",
        "itself": "The search found nothing better than the baseline: its winner is the baseline.",
    }[judge(document, mine).kind]


def p_value(versus: Document) -> float | None:
    """The corrected one, when there is one."""
    corrected = known(versus.get("p_holm"))
    return known(versus.get("p")) if corrected is None else corrected


def p_words(versus: Document) -> str:
    """`p = 0.003`; `p = 0.062 (Holm)` where it was corrected because several configurations were compared."""
    p, plain = p_value(versus), known(versus.get("p"))
    if p is None:
        return "p unknown"
    return f"p {p_text(p)}" if plain is None or plain == p else f"p {p_text(p)} (Holm)"


def p_text(p: float) -> str:
    """`= 0.003`, `< 0.001`."""
    if p < 0.001:
        return "< 0.001"
    return "= 1" if p > 0.995 else f"= {p:.3f}" if p < 0.1 else f"= {p:.2f}"


def level(document: Document) -> str:
    return f"{100 * document.get('level', 0.95):g} %"


def digits_for(low: float | None, high: float | None) -> int:
    """An interval narrower than a point needs a second digit."""
    return 2 if low is not None and high is not None and high - low < 0.01 else 1


def points(share: float | None, digits: int = 1) -> str:
    """0.031 → +3.1, never -0.0."""
    return "–" if share is None else f"{round(100 * share, digits) + 0.0:+.{digits}f}"


def between(interval: Document | None) -> str:
    """`24.3 – 25.9`, in percent; a dash when one model cannot tell."""
    low, high = (known(interval.get(end)) for end in ("low", "high")) if interval else (None, None)
    return "–" if low is None or high is None else f"{formatting.percent(low)} – {formatting.percent(high)}"


def with_interval(interval: Document | None) -> str:
    """`25.1 ± 0.8`, or `25.1 (24.0 – 25.9)` where the mean is not in the middle."""
    mean = known(interval.get("mean")) if interval else None
    low, high = (known(interval.get(end)) for end in ("low", "high")) if interval else (None, None)
    if mean is None or low is None or high is None:
        return formatting.percent(mean)
    if abs((high - mean) - (mean - low)) < 5e-4:
        return f"{formatting.percent(mean)} ± {formatting.percent((high - low) / 2)}"
    return f"{formatting.percent(mean)} ({between(interval)})"


def planned(document: Document) -> int:
    return int(document["folds"]) * int(document["repeats"])


def dim_of(document: Document) -> int | None:
    """Of the folds' models together."""
    found = [
        row["ensemble"][document["metric"]].get("dim")
        for row in document["configurations"]
        if document["metric"] in (row.get("ensemble") or {})
    ]
    return next((int(dim) for dim in found if dim), None)


def covered(document: Document) -> str:
    """What the intervals of differences allow for: `other folds, seeds and classes`."""
    if document["folds"] > 1:
        return "other folds, seeds and classes"
    return "other seeds and classes, not other folds" if document["repeats"] > 1 else "other classes only"


def selection(document: Document) -> str:
    """What the winner's score of the search is worth, or nothing."""
    score = document.get("search_score")
    observed = known(score.get("observed")) if score else None
    if not score or observed is None:
        return ""
    metric, n = formatting.metric_name(score["metric"]), int(score["n"])
    said = f"In the search the winner had {formatting.percent(observed)} % {metric} on the validation classes"
    corrected = known(score.get("corrected"))
    if n < 2 or corrected is None:
        return f"{said}, of {n} finished {'trial' if n == 1 else 'trials'}."
    luck = f"without the luck of being the best, about {formatting.percent(corrected)} %"
    return f"{said}, the best of {n} finished trials; {luck}."


def cautions(document: Document) -> list[str]:
    """What has to be known before any figure is read."""
    found = []
    if warning := document.get("warning"):
        found.append(str(warning))
    made = count_models(document)
    wanted = document.get("models") or planned(document) * len(document["configurations"])
    failed: Mapping[str, str] = document.get("failed") or {}
    if document.get("stopped"):
        found.append(f"stopped before its end: {made} of {wanted} models; the figures may still change")
    if failed:
        verb = "is" if len(failed) == 1 else "are"
        found.append(f"{len(failed)} of {wanted} models failed and {verb} missing below")
    if document.get("again"):
        found.append(seen_before(document))
    return found


def seen_before(document: Document) -> str:
    """A second look at the same test classes is not a first one."""
    entries: Sequence[Document] = document.get("openings") or ()
    first = next(iter(entries), {})
    when, who = first.get("time"), first.get("who")
    since = f" (first on {clock_time(when)}{f' by {who}' if who else ''})" if when else ""
    return f"the test classes had been opened for this study before{since}: these figures are no first look"


def count_models(document: Document) -> int:
    return sum(len(row.get("models") or ()) for row in document["configurations"])


def clock_time(when: Any) -> str:
    """`2026-11-18T17:03:21+00:00` → `2026-11-18 17:03`."""
    return str(when)[:16].replace("T", " ")


def typeset(text: str) -> str:
    """A minus sign in place of the hyphen that terminals get."""
    return " ".join(
        f"−{word[1:]}" if word[:1] == "-" and word[1:2].isdigit() else word for word in text.split(" ")
    )
