"""The findings of a check as sentences, for the terminal and for the page.

Figures may be None or NaN: with one model the part of chance is not known.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from dmltune.report import formatting
from dmltune.report.summary import count

if TYPE_CHECKING:
    from dmltune.check.document import (
        BaselineComparison,
        CheckDocument,
        ConfigurationResult,
        EnsembleResult,
        MeanResult,
    )

    Interval = MeanResult | EnsembleResult | BaselineComparison

Kind = Literal["better", "worse", "none", "unknown", "itself", "untrained"]


@dataclass(frozen=True)
class Judgement:
    """The finding about one configuration: a phrase without figures, and its figures."""

    kind: Kind
    sentence: str
    figures: str = ""

    @property
    def whole(self) -> str:
        return f"{self.sentence}: {self.figures}" if self.figures else self.sentence


def known(number: float | None) -> float | None:
    """Return None for NaN and infinity."""
    return None if number is None or not math.isfinite(number) else float(number)


def main_of(document: CheckDocument) -> ConfigurationResult | None:
    """Return the winner, or else the first configuration that is not the baseline."""
    rows = document.configurations
    winners = [row for row in rows if "winner" in row.labels]
    others = [row for row in rows if row.key != document.baseline]
    return next(iter([*winners, *others, *rows]), None)


def judge(document: CheckDocument, configuration: ConfigurationResult) -> Judgement:
    """Return better or worse only when the interval and the corrected p-value agree on it."""
    if configuration.key == document.baseline:
        return Judgement("itself", "the baseline")
    baseline = document.configuration(document.baseline)
    if baseline is not None and is_untrained(configuration) and is_untrained(baseline):
        return Judgement("untrained", "no verdict: both are untrained networks")
    versus = configuration.versus_baseline
    difference = known(versus.difference) if versus else None
    if versus is None or difference is None:
        return Judgement("unknown", "not compared with the baseline")
    p, holm, low, high = map(known, (versus.p, versus.p_holm, versus.low, versus.high))
    digits = digits_for(low, high)
    gap = f"{points(difference, digits)} points"
    decisive = p if holm is None else holm
    if decisive is None or low is None or high is None:
        return Judgement("unknown", "too few models to tell the difference from chance", gap)
    interval = f"{level(document)} CI {points(low, digits)} to {points(high, digits)}"
    corrected = "" if p in (None, decisive) else " (Holm)"
    figures = f"{gap}, {interval}, p {p_text(decisive)}{corrected}"
    if versus.models < 2:  # the interval covers other classes alone
        return Judgement("unknown", "one model each, and other seeds are not covered", figures)
    if decisive <= 1 - document.level and (low > 0 or high < 0):
        kind: Kind = "better" if difference > 0 else "worse"
        return Judgement(kind, f"{kind} than the baseline", figures)
    return Judgement("none", "no difference found", figures)


def untrained_models(row: ConfigurationResult) -> int:
    """Return how many models were best before their first step: such a model is the untrained network."""
    return sum(model.step == 0 for model in row.models)


def is_untrained(row: ConfigurationResult) -> bool:
    return bool(row.models) and untrained_models(row) == len(row.models)


def untrained_note(row: ConfigurationResult) -> str:
    """Return `untrained`, `2 of 12 models untrained`, or nothing."""
    count, models = untrained_models(row), len(row.models)
    return "" if not count else "untrained" if count == models else f"{count} of {models} models untrained"


def headline(document: CheckDocument) -> str:
    """Return the finding about the main configuration as one sentence."""
    main = main_of(document)
    if main is None or not any(row.models for row in document.configurations):
        return "No model has finished: there is nothing to compare yet."
    first, *more = main.labels or (main.key,)
    name = f"{first}, which is the {' and the '.join(more)}," if more else first
    return {
        "better": f"The {name} is better than the baseline.",
        "worse": f"The {name} is worse than the baseline.",
        "none": f"No difference found between the {name} and the baseline.",
        "untrained": f"No verdict: the {name} and the baseline are both untrained networks.",
        "unknown": f"Whether the {name} differs from the baseline is not known.",
        "itself": "The search found nothing better than the baseline: its winner is the baseline.",
    }[judge(document, main).kind]


def p_text(p: float) -> str:
    """`= 0.003`, `< 0.001`."""
    if p < 0.001:
        return "< 0.001"
    return "= 1" if p > 0.995 else f"= {p:.3f}" if p < 0.1 else f"= {p:.2f}"


def level(document: CheckDocument) -> str:
    return f"{100 * document.level:g} %"


def digits_for(low: float | None, high: float | None) -> int:
    """Return 2 for an interval narrower than a point, else 1."""
    return 2 if low is not None and high is not None and high - low < 0.01 else 1


def points(share: float | None, digits: int = 1) -> str:
    """0.031 → +3.1, never -0.0."""
    return "–" if share is None else f"{round(100 * share, digits) + 0.0:+.{digits}f}"


def bounds(result: Interval | None) -> tuple[float, float] | None:
    """Return the ends of an interval, or None when one is not known."""
    low, high = (known(result.low), known(result.high)) if result else (None, None)
    return None if low is None or high is None else (low, high)


def between(result: MeanResult | EnsembleResult | None) -> str:
    """`24.3 – 25.9`, in percent; a dash without an interval."""
    ends = bounds(result)
    return " – ".join(map(formatting.percent, ends)) if ends else "–"


def with_interval(result: MeanResult | EnsembleResult | None) -> str:
    """`25.1 ± 0.8`, or `25.1 (24.0 – 25.9)` where the mean is not in the middle."""
    mean, ends = known(result.mean) if result else None, bounds(result)
    if mean is None or ends is None:
        return formatting.percent(mean)
    low, high = ends
    if abs((high - mean) - (mean - low)) < 5e-4:
        return f"{formatting.percent(mean)} ± {formatting.percent((high - low) / 2)}"
    return f"{formatting.percent(mean)} ({between(result)})"


def planned(document: CheckDocument) -> int:
    """Return the number of models of each configuration."""
    return document.folds * document.repeats


def design(document: CheckDocument) -> str:
    """Return `2 folds × 1 repeat`."""
    return f"{count(document.folds, 'fold')} × {count(document.repeats, 'repeat')}"


def dim_of(document: CheckDocument) -> int | None:
    """Return the dimension of the embeddings of the folds' models together."""
    joined = [row.ensemble.get(document.metric) for row in document.configurations]
    return next((result.dim for result in joined if result and result.dim), None)


def measured_on(document: CheckDocument) -> str:
    """`36 models were trained on classes of cub and measured on …`; nothing before a measurement."""
    if document.validation_only:
        count, data = count_models(document), document.data
        return f"{count} models of {data}, measured on validation classes; no test class was read."
    if not document.test_images:
        return ""
    images, classes = document.test_images, document.test_classes
    source = "your own images" if document.data == "own" else document.data
    unread = "" if document.warning else ", which the search has not read"
    text = (
        f"{count_models(document)} models were trained on classes of {source} and measured on "
        f"{images:,} images of {classes:,} test classes{unread}."
    )
    if alone := document.queries_without_match:
        text += f" {alone:,} images are the only ones of their class and are not queries."
    return text


def covered(document: CheckDocument) -> str:
    """Return what the intervals of differences allow for: `other folds, seeds and classes`."""
    if document.validation_only:
        return "other folds and seeds" if document.folds > 1 else "other seeds only"
    if document.folds > 1:
        return "other folds, seeds and classes"
    return "other seeds and classes, not other folds" if document.repeats > 1 else "other classes only"


def selection(document: CheckDocument) -> str:
    """Return a sentence about the winner's score in the search and its selection bias, or nothing."""
    score = document.search_score
    observed = known(score.observed) if score else None
    if score is None or observed is None:
        return ""
    metric, n = formatting.metric_name(score.metric), score.trials
    text = f"In the search the winner had {formatting.percent(observed)} % {metric} on the validation classes"
    corrected = known(score.corrected)
    if n < 2 or corrected is None:
        return f"{text}, of {n} finished {'trial' if n == 1 else 'trials'}."
    text += f", the best of {n} finished trials; corrected for that selection"
    return f"{text}, about {formatting.percent(corrected)} %."


def cautions(document: CheckDocument) -> list[str]:
    """Return what a reader must know before the figures."""
    texts = [document.warning] if document.warning else []
    total = document.planned_models or planned(document) * len(document.configurations)
    if document.stopped:
        models = count_models(document)
        texts.append(f"stopped before its end: {models} of {total} models; the figures may still change")
    if notes := [f"{row.name}: {note}" for row in document.configurations if (note := untrained_note(row))]:
        texts.append(f"{'; '.join(notes)} (best before the first step: training made nothing better)")
    if failures := len(document.failed):
        verb = "is" if failures == 1 else "are"
        texts.append(f"{failures} of {total} models failed and {verb} missing below")
    if document.seen_before:
        first = next(iter(document.openings), None)
        user = f" by {first.who}" if first and first.who else ""
        since = f" (first on {clock_time(first.time)}{user})" if first and first.time else ""
        text = f"the test classes had been opened for this study before{since}"
        texts.append(f"{text}: these figures are not the first look at them")
    return texts


def count_models(document: CheckDocument) -> int:
    return sum(len(row.models) for row in document.configurations)


def clock_time(time: str) -> str:
    """`2026-11-18T17:03:21+00:00` → `2026-11-18 17:03`."""
    return time[:16].replace("T", " ")


def typeset(text: str) -> str:
    """Return `text` with a minus sign in place of the hyphen before a number."""
    return re.sub(r"(^|[ (])-(?=\d)", r"\1−", text)
