"""The tables of a check's page. Each function returns None where the document has no rows for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dmltune.report import check_sentences as say
from dmltune.report import formatting

if TYPE_CHECKING:
    from dmltune.check.document import CheckDocument, ConfigurationResult

METRICS = (
    *("map_at_r", "precision_at_1", "r_precision", "nmi", "f1"),
    *("k_reciprocal_map_at_r", "aqe_map_at_r"),
)
LEAST_GAP = 5e-4  # smaller differences of a class are shown as 0.0 points
EXTREMES = 8  # classes with the largest gains, and as many with the largest losses
FEW_MODELS = 24  # more are folded away
GEOMETRY = {
    "inter_class_distance": "mean distance of two class means",
    "intra_class_distance": "mean distance of an image to the mean of its class",
    "subspace_overlap": "share of the variation within classes in the directions that separate classes",
    "class_divergence": "mean squared distance to the class mean",
    "divergence_spread": "standard deviation of that over classes",
    "eigenvalue_similarity": "similarity of the classes' covariances in their eigenvalues",
    "variance_similarity": "their similarity in each dimension",
    "rotation_shift": "mean change of the variation of a class when it is rotated to another class",
    "covering_radius": "distance of images to the best representatives of their class",
}


@dataclass(frozen=True)
class Cell:
    """The text of a cell with its CSS class, and a note below it."""

    text: str
    style: str = ""
    note: str = ""
    note_style: str = "soft"
    link: str = ""


@dataclass(frozen=True)
class PageTable:
    """The first cell of a row is its heading; columns in `numbers` are aligned to the right.

    On a phone a table of `cards` becomes a list, and a `narrow` one stays a table.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str | Cell]]
    numbers: range
    style: str = "cards"


def scores(document: CheckDocument) -> PageTable | None:
    """Single models by several metrics, and the models of all folds together by the main one."""
    rows, metric = document.configurations, document.metric
    if not rows:
        return None
    others = [name for name in METRICS if name != metric and any(name in row.single for row in rows)]
    dim, total = say.dim_of(document), say.planned(document)
    headings = ["configuration", "models"]
    headings += [f"{formatting.metric_name(name)} %" for name in (metric, *others)]
    headings.append(f"{formatting.metric_name(metric)} {f'{dim}-d' if dim else 'joined'} %")
    cells: list[list[str | Cell]] = [
        [
            Cell(row.name, note=say.untrained_note(row)),
            f"{len(row.models)} of {total}",
            *(say.with_interval(row.single.get(name)) for name in (metric, *others)),
            say.with_interval(row.ensemble.get(metric)),
        ]
        for row in rows
    ]
    return PageTable(headings, cells, range(1, len(headings)))


def collections(document: CheckDocument) -> int:
    """Return how many combinations of one model a fold the figures of joined models average."""
    joined = (row.ensemble.get(document.metric) for row in document.configurations)
    return max((result.collections for result in joined if result), default=0)


def differences(document: CheckDocument) -> PageTable | None:
    compared = [(row, row.versus_baseline) for row in document.configurations if row.versus_baseline]
    if not compared:
        return None
    corrected = any(say.known(versus.p_holm) != say.known(versus.p) for _, versus in compared)
    headings = [
        "configuration", "points", f"{say.level(document)} CI", "p", *(["p (Holm)"] if corrected else []),
        "effect size", "models better", "± fold", "± seed", "± class",
    ]  # fmt: skip
    rows: list[list[str | Cell]] = []
    for row, versus in compared:
        judgement, ends = say.judge(document, row), say.bounds(versus)
        digits = say.digits_for(*ends) if ends else 1
        effect, wins = say.known(versus.effect_size), say.known(versus.wins)
        difference = say.points(say.known(versus.difference), digits)
        rows.append(
            [
                Cell(row.name, "", judgement.sentence, f"kind {judgement.kind}"),
                say.typeset(difference),
                say.typeset(" to ".join(say.points(end, digits) for end in ends)) if ends else "–",
                _p(versus.p),
                *([_p(versus.p_holm)] if corrected else []),
                "–" if effect is None else say.typeset(f"{effect:+.1f}"),
                "–" if wins is None else _share(wins),
                *(formatting.percent(spread) for spread in (versus.fold_sd, versus.seed_sd, versus.class_sd)),
            ]
        )
    return PageTable(headings, rows, range(1, len(headings)))


def count(gaps: Sequence[tuple[int, float]], sign: int) -> str:
    """Return on how many classes the difference to the baseline has this sign."""
    return f"{sum(sign * gap > LEAST_GAP for _, gap in gaps):,}"


def gains_and_losses(
    document: CheckDocument, main: ConfigurationResult, gaps: Sequence[tuple[int, float]]
) -> list[tuple[str, PageTable]]:
    """Return the classes with the largest gains and those with the largest losses, with their titles."""
    ranked, classes = sorted(gaps, key=lambda pair: pair[1]), document.per_class
    if classes is None:
        return []
    own, base = classes.scores[main.key], classes.scores[document.baseline or ""]
    headings = ["class", "images", "baseline %", f"{(*main.labels, main.key)[0]} %", "points"]

    def table(chosen: Sequence[tuple[int, float]]) -> PageTable:
        rows = []
        for at, gap in chosen:
            shares = (formatting.percent(scores[at]) for scores in (base, own))
            difference = say.typeset(say.points(gap))
            rows.append([classes.names[at], f"{classes.images[at]:,}", *shares, difference])
        return PageTable(headings, rows, range(1, 5), "narrow")

    gains = [pair for pair in reversed(ranked) if pair[1] > LEAST_GAP][:EXTREMES]
    losses = [pair for pair in ranked if pair[1] < -LEAST_GAP][:EXTREMES]
    sides = (("Largest gains", gains), ("Largest losses", losses))
    return [(name, table(chosen)) for name, chosen in sides if chosen]


def confusions(document: CheckDocument, main: ConfigurationResult | None) -> PageTable | None:
    pairs = document.confusions.get(main.key, ()) if main else ()
    if main is None or not pairs:
        return None
    compared = main.key != document.baseline
    others = document.confusions.get(document.baseline or "", ())
    base = {(pair.of, pair.taken_for): _share(pair.share) for pair in others}
    rows = []
    for pair in pairs:
        row = [pair.of, pair.taken_for, f"{pair.count:,}", _share(pair.share)]
        rows.append([*row, base.get((pair.of, pair.taken_for), "–")] if compared else row)
    headings = ["images of", "nearest to", "times", "of the class", *(["baseline"] if compared else [])]
    return PageTable(headings, rows, range(2, len(headings)), "narrow")


def geometry(document: CheckDocument) -> PageTable | None:
    shown = [row for row in document.configurations if row.geometry]
    names = dict.fromkeys(name for row in shown for name in row.geometry)
    rows: list[list[str | Cell]] = []
    for name in names:
        values = (say.known(row.geometry.get(name)) for row in shown)
        label = Cell(name.replace("_", " "), note=GEOMETRY.get(name, ""))
        rows.append([label, *("–" if value is None else f"{value:.3f}" for value in values)])
    headings = ["mean over models", *(row.name for row in shown)]
    return PageTable(headings, rows, range(1, len(headings))) if rows else None


def openings(document: CheckDocument) -> PageTable | None:
    """The ledger's entries of this study, oldest first."""
    rows: list[list[str | Cell]] = []
    for entry in document.openings:
        origin = (Cell(text, "code") for text in (entry.command, entry.commit[:12]))
        rows.append([say.clock_time(entry.time), Cell(entry.kind, note=entry.why), entry.who, *origin])
    return PageTable(["when (UTC)", "what for", "who", "command", "commit"], rows, range(0)) if rows else None


def models(document: CheckDocument, row: ConfigurationResult, runs: str = "") -> PageTable:
    """Every model; `runs` is the address of the pages of runs."""
    metric = document.metric
    rows: list[list[str | Cell]] = []
    for model in row.models:
        percents = (formatting.percent(score) for score in (model.validation, model.test.get(metric)))
        link = f"{runs}{model.run_id}" if runs else ""
        step = f"{model.step} (untrained)" if model.step == 0 else str(model.step)
        rows.append([model.member, step, *percents, Cell(model.run_id, "code", link=link)])
    name = formatting.metric_name(metric)
    headings = ["model", "best step", f"validation {name} %", f"test {name} %", "run"]
    return PageTable(headings, rows, range(1, 4), "cards small")


def failures(document: CheckDocument) -> PageTable | None:
    rows = [[member, formatting.first_line(reason)] for member, reason in document.failed.items()]
    return PageTable(["model", "reason"], rows, range(0)) if rows else None


def _p(p: float | None) -> str:
    number = say.known(p)
    return "–" if number is None else say.p_text(number).removeprefix("= ")


def _share(share: float) -> str:
    return f"{100 * share:.0f} %"
