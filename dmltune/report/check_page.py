"""A check as one page, report.html: the verdict first, then what it rests on, then how it was made.

Everything is inside the file: it can be mailed, printed, and kept with the runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dmltune.report import check_figures as figures
from dmltune.report import check_words as say
from dmltune.report import words
from dmltune.report.check_origins import made, openings
from dmltune.report.markup import Markup, element, joined, table
from dmltune.report.page_style import STYLE

FILE = "report.html"
METRICS = ("map_at_r", "precision_at_1", "r_precision")
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


def write_page(document: Mapping[str, Any], folder: Path) -> Path:
    """Writes `folder`/report.html; the same document gives the same bytes."""
    title = f"{document['name']} · check of {document['space_name']}"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        element("style", Markup(STYLE)),
    )
    sections = (_top, _scores, _differences, _classes, _confusions, _shape, openings, made)
    body = element("body", element("main", (section(document) for section in sections)))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE
    path.write_text(f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n", encoding="utf-8")
    return path


def _top(document: Mapping[str, Any]) -> Markup:
    mine = say.main_of(document)
    judgement = say.judge(document, mine) if mine else say.Judgement("unknown", "")
    design = f"{document['folds']} folds × {document['repeats']} repeats"
    path = f"{document['space_name']} · {document['protocol']} protocol · {design}"
    selection = say.selection(document)
    return joined(
        element("header", element("p", path, class_="path"), element("h1", document["name"])),
        element(
            "div",
            element("strong", say.headline(document)),
            element("span", typeset(judgement.figures), class_="figures") if judgement.figures else None,
            class_=f"verdict {judgement.kind}",
        ),
        cautions(say.cautions(document)),
        element("p", _subject(document)),
        element("p", typeset(selection), class_="soft") if selection else None,
    )


def _subject(document: Mapping[str, Any]) -> str:
    images, classes = int(document["test_images"]), int(document["test_classes"])
    models = say.count_models(document)
    alone = int(document.get("queries_without_match") or 0)
    text = (
        f"{models} models were trained on classes of {document['data']} and measured on {images:,} images of "
        f"{classes:,} test classes, which the search has not read."
    )
    if alone:
        text += f" {alone:,} images have no other of their class and are no queries."
    return text


def cautions(texts: list[str]) -> Markup | None:
    return element("ul", (element("li", text) for text in texts), class_="cautions") if texts else None


def _scores(document: Mapping[str, Any]) -> Markup:
    dim = say.dim_of(document)
    metric = document["metric"]
    others = [name for name in METRICS if name != metric and _has(document, name)]
    interval = f"{say.level(document)} CI"
    joined_name = f"{dim}-d %" if dim else "joined %"
    headings = ["configuration", "models", f"{words.metric_name(metric)} %", interval]
    for name in others:
        headings += [f"{words.metric_name(name)} %", interval]
    headings += [f"{words.metric_name(metric)} {joined_name}", "range"]
    rows = []
    for row in document["configurations"]:
        single: Mapping[str, Any] = row.get("single") or {}
        together = (row.get("ensemble") or {}).get(metric)
        cells = [_named(row), f"{len(row.get('models') or ())} of {say.planned(document)}"]
        for name in (metric, *others):
            cells += [_mean(single.get(name)), say.between(single.get(name))]
        rows.append([*cells, _mean(together), say.between(together)])
    dim_each = f" ({dim // int(document['folds'])}-d)" if dim else ""
    return joined(
        element("h2", "On the test classes"),
        table(headings, rows, numbers=range(1, len(headings))),
        element(
            "p",
            f"Figures are means of single models{dim_each} over folds and seeds. Joined: the embeddings of "
            f"one model of each of the {document['folds']} folds, side by side{_collections(document)}.",
            class_="soft",
        ),
        picture(
            figures.every_model(document),
            "Every model. A line joins models of the same fold and seed; beside them mean and interval.",
        ),
    )


def _collections(document: Mapping[str, Any]) -> str:
    found = [
        row["ensemble"].get(document["metric"]) for row in document["configurations"] if row.get("ensemble")
    ]
    count = max((int(one["collections"]) for one in found if one), default=0)
    return f"; mean and range over {count} collections" if count > 1 else ""


def _differences(document: Mapping[str, Any]) -> Markup | None:
    compared = [row for row in document["configurations"] if row.get("versus_baseline")]
    if not compared:
        return None
    rows = []
    for row in compared:
        versus, judgement = row["versus_baseline"], say.judge(document, row)
        wins, effect = say.known(versus.get("wins")), say.known(versus.get("effect_size"))
        low, high = say.known(versus.get("low")), say.known(versus.get("high"))
        digits = say.digits_for(low, high)
        bounds = (
            "–" if low is None or high is None else f"{say.points(low, digits)} to {say.points(high, digits)}"
        )
        rows.append(
            [
                _named(row),
                element("span", judgement.sentence, class_=f"kind {judgement.kind}"),
                typeset(say.points(say.known(versus.get("difference")), digits)),
                typeset(bounds),
                _p(versus.get("p")),
                _p(versus.get("p_holm")),
                "–" if effect is None else typeset(f"{effect:+.1f}"),
                "–" if wins is None else f"{100 * wins:.0f} %",
                *(_spread(versus.get(key)) for key in ("fold_sd", "seed_sd", "class_sd")),
            ]
        )
    headings = ["configuration", "finding", "points", f"{say.level(document)} CI", "p", "p (Holm)", "effect",
                "models better", "± fold", "± seed", "± class"]  # fmt: skip
    return joined(
        element("h2", "Against the baseline"),
        picture(
            figures.forest(document),
            "Differences to the baseline, with their intervals. Zero is the baseline.",
        ),
        table(headings, rows, numbers=range(2, len(headings))),
        element(
            "p",
            "Models are paired by fold and seed, queries by image; classes are drawn anew for the interval. "
            "The interval stands alone, the second p-value allows for several comparisons (Holm). "
            "Effect: the difference in standard deviations of one model's score. "
            "± : standard deviations of the difference over folds, seeds and classes, in points.",
            class_="soft",
        ),
    )


def _classes(document: Mapping[str, Any]) -> Markup | None:
    mine = say.main_of(document)
    gaps = figures.class_gaps(document, mine["key"]) if mine and mine["key"] != document["baseline"] else []
    if not gaps or mine is None:
        return None
    found = document["per_class"]
    name, metric = say.name_of(mine), words.metric_name(document["metric"])
    better, worse = sum(gap > 0 for _, gap in gaps), sum(gap < 0 for _, gap in gaps)
    ranked = sorted(gaps, key=lambda pair: pair[1])
    size = min(EXTREMES, len(ranked) // 2)

    def listed(chosen: Iterable[tuple[int, float]]) -> Markup:
        rows = [
            [
                str(found["classes"][at]),
                f"{int(found['images'][at]):,}",
                words.percent(found[document["baseline"]][at]),
                words.percent(found[mine["key"]][at]),
                typeset(say.points(gap)),
            ]
            for at, gap in chosen
        ]
        return table(["class", "images", "baseline %", f"{name} %", "points"], rows, numbers=range(1, 5))

    return joined(
        element("h2", "Class by class"),
        element("p", f"The {name} is better on {better:,} of {len(gaps):,} classes, worse on {worse:,}."),
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


def _confusions(document: Mapping[str, Any]) -> Markup | None:
    mine = say.main_of(document)
    found = (document.get("confusions") or {}).get(mine["key"]) if mine else None
    if not found or mine is None:
        return None
    baseline = document["baseline"]
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
    headings = ["images of", "found as", "times", "share of the class", *(["baseline"] if compared else [])]
    return joined(
        element("h2", "Hardest confusions"),
        element(
            "p",
            f"The nearest neighbour of an image is of another class: the {say.name_of(mine)}'s most frequent "
            "mistakes, over all its models.",
        ),
        table(headings, rows, numbers=range(2, len(headings))),
        element("p", "– : not among the baseline's most frequent ones.", class_="soft") if compared else None,
    )


def _also(row: Mapping[str, Any] | None) -> str:
    return "–" if row is None else f"{100 * row['share']:.0f} %"


def _shape(document: Mapping[str, Any]) -> Markup | None:
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


def picture(svg: Markup, caption: str) -> Markup | None:
    return element("figure", svg, element("figcaption", caption)) if svg else None


def typeset(text: str) -> str:
    """A minus sign in place of the hyphen that terminals get."""
    return " ".join(
        f"−{word[1:]}" if word[:1] == "-" and word[1:2].isdigit() else word for word in text.split(" ")
    )


def _named(row: Mapping[str, Any]) -> Markup:
    values = words.parameters(words.flat(row.get("values") or {}))
    below = [element("br"), element("span", values, class_="code soft")] if values else []
    return joined(say.name_of(row), *below)


def _has(document: Mapping[str, Any], metric: str) -> bool:
    return any(metric in (row.get("single") or {}) for row in document["configurations"])


def _mean(interval: Mapping[str, Any] | None) -> str:
    return words.percent(say.known(interval.get("mean")) if interval else None)


def _p(p: Any) -> str:
    value = say.known(p)
    return "–" if value is None else say.p_text(value).removeprefix("= ")


def _spread(share: Any) -> str:
    value = say.known(share)
    return "–" if value is None else f"{100 * value:.1f}"
