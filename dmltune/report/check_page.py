"""A check as one page, report.html: the verdict first, then what it rests on, then how it was made.

Everything is inside the file: it can be mailed, printed, and kept with the runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dmltune.report import check_figures as figures
from dmltune.report import check_sentences as say
from dmltune.report import formatting
from dmltune.report.check_details import classes, confusions, shape
from dmltune.report.check_origins import made, openings
from dmltune.report.markup import Markup, element, joined, picture, table
from dmltune.report.page_style import STYLE

FILE = "report.html"
METRICS = ("map_at_r", "precision_at_1", "r_precision")


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
    sections = (_top, _scores, _differences, classes, confusions, shape, openings, made)
    body = element("body", element("main", (section(document) for section in sections)))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE
    path.write_text(f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n", encoding="utf-8")
    return path


def _top(document: Mapping[str, Any]) -> Markup:
    mine = say.main_of(document)
    judgement = say.judge(document, mine) if mine else say.Judgement("unknown", "")
    design = f"{document['folds']} folds × {document['repeats']} repeats"
    metric = formatting.metric_name(document["metric"])
    path = f"{document['space_name']} · {document['protocol']} protocol · {design}"
    selection = say.selection(document)
    return joined(
        element("header", element("p", path, class_="path"), element("h1", document["name"])),
        element(
            "div",
            element("strong", say.headline(document)),
            element("span", f"{metric}: {say.typeset(judgement.figures)}", class_="figures")
            if judgement.figures
            else None,
            class_=f"verdict {judgement.kind}",
        ),
        cautions(say.cautions(document)),
        element("p", _subject(document)),
        element("p", say.typeset(selection), class_="soft") if selection else None,
        _compared(document),
    )


def _compared(document: Mapping[str, Any]) -> Markup:
    """The values behind the names."""
    rows = document["configurations"]
    values = (
        formatting.parameters(formatting.flat(row.get("values") or {})) or "as in the space" for row in rows
    )
    pairs = zip(rows, values, strict=True)
    return element(
        "dl",
        (joined(element("dt", say.name_of(row)), element("dd", text, class_="code")) for row, text in pairs),
    )


def _subject(document: Mapping[str, Any]) -> str:
    if "test_images" not in document:  # stopped before anything was measured
        return ""
    images, classes = int(document["test_images"]), int(document["test_classes"])
    models = say.count_models(document)
    alone = int(document.get("queries_without_match") or 0)
    unread = "" if document.get("warning") else ", which the search has not read"
    text = (
        f"{models} models were trained on classes of {document['data']} and measured on {images:,} images of "
        f"{classes:,} test classes{unread}."
    )
    if alone:
        text += f" {alone:,} images have no other of their class and are no queries."
    return text


def cautions(texts: list[str]) -> Markup | None:
    return element("ul", (element("li", text) for text in texts), class_="cautions") if texts else None


def _scores(document: Mapping[str, Any]) -> Markup | None:
    if not document["configurations"]:
        return None
    dim, metric = say.dim_of(document), document["metric"]
    metrics = [metric, *(name for name in METRICS if name != metric and _has(document, name))]
    both = formatting.metric_name(metric)
    headings = ["configuration", "models", *(f"{formatting.metric_name(name)} %" for name in metrics)]
    headings.append(f"{both} {dim}-d %" if dim else f"{both} joined %")
    rows = []
    for row in document["configurations"]:
        single: Mapping[str, Any] = row.get("single") or {}
        together = (row.get("ensemble") or {}).get(metric)
        count = f"{len(row.get('models') or ())} of {say.planned(document)}"
        figures_of = [say.with_interval(single.get(name)) for name in metrics]
        rows.append([say.name_of(row), count, *figures_of, say.with_interval(together)])
    dim_each = f" ({dim // int(document['folds'])}-d)" if dim else ""
    return joined(
        element("h2", "On the test classes"),
        table(headings, rows, numbers=range(1, len(headings))),
        element(
            "p",
            f"Means of single models{dim_each} over folds and seeds, ± half of their {say.level(document)} "
            f"confidence interval. {_together(document)}",
            class_="soft",
        ),
        element(
            "div",
            picture(
                figures.forest(document),
                "Differences to the baseline, with their intervals. Zero is the baseline.",
            ),
            picture(
                figures.every_model(document),
                "Every model. A line joins models of the same fold and seed; beside them mean and interval.",
            ),
            class_="figures-grid",
        ),
    )


def _together(document: Mapping[str, Any]) -> str:
    """What the figures of several models at once are means of."""
    metric = document["metric"]
    found = [(row.get("ensemble") or {}).get(metric) for row in document["configurations"]]
    dim, count = say.dim_of(document), max((int(one["collections"]) for one in found if one), default=0)
    if not dim or not count:
        return ""
    text = f"{dim}-d: the embeddings of one model of each of the {document['folds']} folds, side by side"
    return f"{text}; over {count} such collections." if count > 1 else f"{text}."


def _differences(document: Mapping[str, Any]) -> Markup | None:
    compared = [row for row in document["configurations"] if row.get("versus_baseline")]
    if not compared:
        return None
    corrected = any(
        row["versus_baseline"].get("p_holm") != row["versus_baseline"].get("p") for row in compared
    )
    headings = [
        "configuration", "points", f"{say.level(document)} CI", "p", *(["p (Holm)"] if corrected else []),
        "effect size", "models better", "± fold", "± seed", "± class",
    ]  # fmt: skip
    rows = []
    for row in compared:
        versus, judgement = row["versus_baseline"], say.judge(document, row)
        wins, effect = say.known(versus.get("wins")), say.known(versus.get("effect_size"))
        low, high = say.known(versus.get("low")), say.known(versus.get("high"))
        digits = say.digits_for(low, high)
        unknown = low is None or high is None
        finding = element("span", judgement.sentence, class_=f"kind {judgement.kind}")
        rows.append(
            [
                joined(say.name_of(row), element("br"), finding),
                say.typeset(say.points(say.known(versus.get("difference")), digits)),
                "–" if unknown else say.typeset(f"{say.points(low, digits)} to {say.points(high, digits)}"),
                _p(versus.get("p")),
                *([_p(versus.get("p_holm"))] if corrected else []),
                "–" if effect is None else say.typeset(f"{effect:+.1f}"),
                "–" if wins is None else f"{100 * wins:.0f} %",
                *(_spread(versus.get(key)) for key in ("fold_sd", "seed_sd", "class_sd")),
            ]
        )
    holm = "p (Holm) allows for the number of comparisons and decides. " if corrected else ""
    return joined(
        element("h2", "Against the baseline"),
        table(headings, rows, numbers=range(1, len(headings))),
        element(
            "p",
            f"Models are paired by fold and seed, queries by image; intervals cover {say.covered(document)}. "
            f"{holm}Effect size: the difference in standard deviations of one model's score. ±: standard "
            "deviation of the difference over folds, seeds and classes, in points.",
            class_="soft",
        ),
    )


def _has(document: Mapping[str, Any], metric: str) -> bool:
    return any(metric in (row.get("single") or {}) for row in document["configurations"])


def _p(p: Any) -> str:
    value = say.known(p)
    return "–" if value is None else say.p_text(value).removeprefix("= ")


def _spread(share: Any) -> str:
    value = say.known(share)
    return "–" if value is None else f"{100 * value:.1f}"
