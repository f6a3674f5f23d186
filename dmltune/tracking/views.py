"""Views of MLflow's runs page that are ready when they open: columns, order, charts.

MLflow's page reads the experiment tag `mlflow.sharedViewState.<key>` when its address has
`viewStateShareKey=<key>`. The JSON below is the state of that page in MLflow 3.17, which MLflow does not
document; without it, or when it changes, the same address shows the plain page. A browser opens it in
tests/tracking/test_pages.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, urlencode

from dmltune import tags

TAG = "mlflow.sharedViewState."
KIND, CUSTOM_MODELS = "mlflow.experimentKind", "custom_model_development"  # no pages for language models
MOST_RUNS = 500  # in a chart of bars or coordinates
GALLERY = "neighbours"
LAMBDA, PROXIES = "references.lambda", "references.proxies"
_FIRST, _METRICS = "dmltune", "dmltune-metrics"
COMPARE = "CHART"
ABREAST = 2  # charts; of three, those of a laptop's screen are too narrow for the names of parameters

Json = dict[str, Any]


def search_view(
    name: str,
    metric: str,
    mode: str,
    keys: Sequence[str],
    numbers: Sequence[str],
    methods: Sequence[str] = (),
    gallery_step: int = 0,
) -> Json:
    """Return the view of a search's trials, best first.

    `methods` are the keys that the baseline changes. `numbers` are the searched keys with numbers, the most
    important first: two of them span the contour.
    """
    best = f"best_{metric}"
    columns = [f"metrics.`{best}`", f"tags.`{tags.ROLE}`", f"tags.`{tags.STATE}`"]
    columns += [f"params.`{key}`" for key in (*(key for key in methods if key not in keys), *keys)]
    columns += ["attributes.`Duration`", "attributes.`Models`", "attributes.`Dataset`"]
    where = f"tags.`{tags.NAME}` = '{name}' and tags.`{tags.NUMBER}` != '{tags.PARENT}'"
    charts = [_bars(best), _coordinates(best, keys), _curves(metric), _contour(best, numbers)]
    charts.append(_gallery(gallery_step))
    return {
        "searchFilter": where,
        "orderByKey": f"metrics.`{best}`",
        "orderByAsc": mode == "min",
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "datasetsFilter": [],
        "modelVersionFilter": "All Runs",
        "selectedColumns": columns,
        "columnOrder": columns,
        "columnWidths": {column: _width(column) for column in columns},
        "runsHiddenMode": "SHOW_ALL",  # the charts would show ten runs otherwise
        "compareRunCharts": [chart for chart in charts if chart],
        "compareRunSections": [_section(_FIRST, f"Search {name}"), _section(_METRICS, "Model metrics")],
        "isAccordionReordered": True,  # keep the order of the sections
        "hideEmptyCharts": True,
        "groupBy": None,
        "autoRefreshEnabled": True,
    }


def plain_view(name: str, metric: str) -> Json:
    """Return the view of the members of a check, a study or a training."""
    view = search_view(name, metric, "max", (), ())
    view["searchFilter"] = f"tags.`{tags.NAME}` = '{name}'"
    return view


def view_link(address: str, experiment_id: str, key: str, charts: bool = False) -> str:
    """Return the address of a view on the server at `address`."""
    query = {"viewStateShareKey": key, "workflowType": "machine_learning"}
    query |= {"compareRunsMode": COMPARE} if charts else {}
    return f"{address.rstrip('/')}/#/experiments/{experiment_id}/runs?{urlencode(query)}"


def run_link(address: str, experiment_id: str, run_id: str) -> str:
    return f"{address.rstrip('/')}/#/experiments/{experiment_id}/runs/{run_id}?workflowType=machine_learning"


def model_link(address: str, name: str) -> str:
    return f"{address.rstrip('/')}/#/models/{quote(name)}?workflowType=machine_learning"


def contour_axes(numbers: Sequence[str]) -> tuple[str, str] | None:
    """Return λ and proxies where both are searched, else the two most important numbers."""
    if LAMBDA in numbers and PROXIES in numbers:
        return LAMBDA, PROXIES
    return (numbers[0], numbers[1]) if len(numbers) > 1 else None


def _width(column: str) -> int:
    """Return pixels that the title of a column, or a number in full, fits into."""
    name = column.partition(".")[2].strip("`")
    return min(220, max(90, 9 * len(name) + 24))


def _section(uuid: str, title: str) -> Json:
    state = {"uuid": uuid, "name": title, "display": True, "isReordered": True, "isGenerated": False}
    return {**state, "columns": ABREAST}


def _chart(kind: str, title: str, runs: int = MOST_RUNS, **own: Any) -> Json:
    return {
        "type": kind,
        "uuid": f"dmltune-{kind.lower()}",
        "runsCountToCompare": runs,
        "metricSectionId": _FIRST,
        "deleted": False,
        "isGenerated": False,
        "displayName": title,
        **own,
    }


def _bars(best: str) -> Json:
    return _chart("BAR", "Best score of each trial", metricKey=best, selectedMetricKeys=[best])


def _coordinates(best: str, keys: Sequence[str]) -> Json:
    if not keys:
        return {}
    title = "Searched parameters and the best score"
    return _chart("PARALLEL", title, selectedParams=list(keys), selectedMetrics=[best], showAllRuns=False)


def _curves(metric: str) -> Json:
    return _chart(
        "LINE",
        "Learning curves on the validation classes",
        metricKey=metric,
        selectedMetricKeys=[metric],
        lineSmoothness=0,
        xAxisScaleType="linear",
        scaleType="linear",
        range={},
        xAxisKey="step",
        selectedXAxisMetricKey="",
        yAxisKey="metric",
        yAxisExpressions=[],
        ignoreOutliers=False,
        useGlobalXaxisKey=True,
        useGlobalLineSmoothing=True,
    )


def _contour(best: str, numbers: Sequence[str]) -> Json:
    axes = contour_axes(numbers)
    if axes is None:
        return {}
    x, y = ({"key": key, "type": "PARAM"} for key in axes)
    title = f"Best score over {axes[0]} and {axes[1]}"
    return _chart("CONTOUR", title, xaxis=x, yaxis=y, zaxis={"key": best, "type": "METRIC"})


def _gallery(step: int) -> Json:
    title = "Validation queries and their neighbours"
    return _chart("IMAGE", title, runs=10, imageKeys=[GALLERY], step=step, showRunParams=False)
