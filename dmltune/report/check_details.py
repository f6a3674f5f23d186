"""The lower half of a check's page: classes, confusions, the shape of the embedding."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dmltune.report import check_figures as figures
from dmltune.report import check_sentences as say
from dmltune.report import formatting
from dmltune.report.markup import Markup, element, joined, picture, table

EXTREMES = 8  # classes with the largest gains and losses that are listed
GEOMETRY = {
    "inter_class_distance": "mean distance of two class means",
    "intra_class_distance": "mean distance of an image to the mean of its class",
    "subspace_overlap": "share of the variation within classes in the directions that tell classes apart",
    "class_divergence": "mean squared distance to the class mean",
    "divergence_spread": "how much that differs between classes (standard deviation)",
    "eigenvalue_similarity": "how alike the classes' covariances are in their eigenvalues",
    "variance_similarity": "how alike they are in each dimension",
    "rotation_shift": "how far the variation of one class turns when it is moved to another",
    "covering_radius": "how far images lie from the best representatives of their class",
}


def classes(document: Mapping[str, Any]) -> Markup | None:
    mine = say.main_of(document)
    baseline = document.get("baseline")
    gaps = figures.class_gaps(document, mine["key"]) if mine and mine["key"] != baseline else []
    if not gaps or mine is None:
        return None
    found = document["per_class"]
    name, metric = say.name_of(mine).split(" = ")[0], formatting.metric_name(document["metric"])
    better, worse = sum(gap > 0 for _, gap in gaps), sum(gap < 0 for _, gap in gaps)
    ranked = sorted(gaps, key=lambda pair: pair[1])
    size = min(EXTREMES, len(ranked) // 2)

    def listed(chosen: Iterable[tuple[int, float]]) -> Markup:
        rows = [
            [
                str(found["classes"][at]),
                f"{int(found['images'][at]):,}",
                formatting.percent(found[baseline][at]),
                formatting.percent(found[mine["key"]][at]),
                say.typeset(say.points(gap)),
            ]
            for at, gap in chosen
        ]
        return table(
            ["class", "images", "baseline %", f"{name} %", "points"],
            rows,
            numbers=range(1, 5),
            class_="narrow",
        )

    return joined(
        element("h2", "Class by class"),
        element("p", f"The {name} is higher on {better:,} of {len(gaps):,} classes, lower on {worse:,}."),
        picture(
            figures.class_differences(document, mine["key"]), f"{metric} of each class, {name} − baseline."
        ),
        element(
            "div",
            element("div", element("h3", "Largest gains"), listed(reversed(ranked[len(ranked) - size :]))),
            element("div", element("h3", "Largest losses"), listed(ranked[:size])),
            class_="figures-grid",
        )
        if size
        else None,
    )


def confusions(document: Mapping[str, Any]) -> Markup | None:
    mine = say.main_of(document)
    found = (document.get("confusions") or {}).get(mine["key"]) if mine else None
    if not found or mine is None:
        return None
    baseline = document.get("baseline")
    theirs = {(row["of"], row["as"]): row for row in (document["confusions"].get(baseline) or ())}
    compared = mine["key"] != baseline
    rows = [
        [
            str(row["of"]),
            str(row["as"]),
            f"{int(row['count']):,}",
            f"{100 * row['share']:.0f} %",
            *([_also(theirs.get((row["of"], row["as"])))] if compared else []),
        ]
        for row in found
    ]
    headings = ["images of", "found as", "times", "of the class", *(["baseline"] if compared else [])]
    return joined(
        element("h2", "Hardest confusions"),
        element(
            "p",
            "The nearest neighbour of an image is of another class: the most frequent mistakes of the "
            f"{say.name_of(mine)}, over all its models.",
        ),
        table(headings, rows, numbers=range(2, len(headings)), class_="narrow"),
        element("p", "– : not among the baseline's most frequent ones.", class_="soft") if compared else None,
    )


def _also(row: Mapping[str, Any] | None) -> str:
    return "–" if row is None else f"{100 * row['share']:.0f} %"


def shape(document: Mapping[str, Any]) -> Markup | None:
    shown = [row for row in document["configurations"] if row.get("geometry")]
    mine = say.main_of(document)
    keys = dict.fromkeys(key for key in (mine["key"] if mine else None, document.get("baseline")) if key)
    histograms = figures.distances(document, list(keys))
    if not shown and not histograms:
        return None
    names = dict.fromkeys(name for row in shown for name in row["geometry"])
    rows = []
    for name in names:
        values = (say.known(row["geometry"].get(name)) for row in shown)
        label = name.replace("_", " ")
        explained = joined(label, element("br"), element("span", GEOMETRY[name], class_="soft"))
        rows.append(
            [explained if name in GEOMETRY else label, *("–" if v is None else f"{v:.3f}" for v in values)]
        )
    headings = ["mean over models", *(say.name_of(row) for row in shown)]
    return joined(
        element("h2", "Shape of the embedding"),
        picture(
            histograms,
            "Distances of two images of one class and of two classes, each as shares of their pairs; "
            "the less they overlap, the better the distance tells classes apart.",
        ),
        table(headings, rows, numbers=range(1, len(headings))) if rows else None,
    )
