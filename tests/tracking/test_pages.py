"""What `dmltune ui` opens, seen by Chromium, and MLflow's server as a remote one.

The views are MLflow's internal matter; these tests say when a new version of MLflow changes it. With
DMLTUNE_SCREENSHOTS the pictures of the pages are kept in that folder.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from support.browser import chromium, needs_browser
from support.driving import Place
from support.finished_search import NAME, TRIALS
from support.served import ui
from support.tracking_runs import runs_of

from dmltune import tags
from dmltune.runs import TrackedRun
from dmltune.store import Store
from dmltune.tracking import DataInput, Tracker

HARMLESS = ("users/current", "status of 404")  # MLflow asks its own server for what only others have


@pytest.fixture(scope="module")
def links(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    with ui(store, NAME, tmp_path_factory.mktemp("ui")) as links:
        yield links


@pytest.fixture(scope="module")
def page(links: dict[str, Any]) -> Iterator[Any]:
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1900, "height": 1250})
        page.errors = []
        page.on("console", lambda text: page.errors.append(text.text) if text.type == "error" else None)
        page.on("pageerror", lambda error: page.errors.append(str(error)))
        page.goto(links["address"])
        page.get_by_label("Close").first.click()  # MLflow's assistant opens once
        yield page
    assert [error for error in page.errors if not any(known in error for known in HARMLESS)] == []


def shot(page: Any, name: str) -> None:
    if folder := os.environ.get("DMLTUNE_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"{name}.png")


def cells(page: Any, column: str) -> list[str]:
    """The texts of a column, from the first row to the last."""
    found = page.locator(f'.ag-row .ag-cell[col-id="{column}"]')
    rows = [
        (int(cell.locator("xpath=..").get_attribute("row-index")), cell.inner_text()) for cell in found.all()
    ]
    return [text.strip() for _, text in sorted(rows)]


@needs_browser
def test_the_table_has_scores_parameters_role_and_state_best_first(
    links: dict[str, Any], page: Any, store: Path
) -> None:
    page.goto(links["table"])
    page.get_by_text(f"{NAME}-0001-baseline").first.wait_for()
    page.locator('.ag-cell[col-id="tags.`dmltune.state`"]').first.wait_for()
    shot(page, "table")
    trials = runs_of(Tracker(Store.at(store)), NAME)[1]
    scores = sorted((run.data.metrics["best_map_at_r"] for run in trials), reverse=True)
    shown = [float(text) for text in cells(page, "metrics.`best_map_at_r`")]
    assert shown == pytest.approx(scores)
    assert sorted(cells(page, "tags.`dmltune.role`")) == ["baseline", "reference", *["search"] * (TRIALS - 2)]
    assert cells(page, "tags.`dmltune.state`") == ["complete"] * TRIALS
    values = {run.data.params.get("references.lambda", "-") for run in trials}
    assert set(cells(page, "params.`references.lambda`")) == values
    names = page.locator(".ag-row").filter(has_text="★")
    assert names.count() >= 1


@needs_browser
def test_two_trials_are_compared(links: dict[str, Any], page: Any) -> None:
    page.goto(links["table"])
    for name in (f"{NAME}-0000-reference", f"{NAME}-0001-baseline"):
        row = page.locator(".ag-row").filter(has_text=name)
        row.locator("input[type=checkbox]").first.click()
    page.get_by_test_id("runs-compare-button").click()
    page.get_by_text("Comparing 2 Runs").wait_for()
    page.get_by_text("references.batch_weight").first.wait_for()
    shot(page, "compare")


@needs_browser
def test_every_chart_of_the_view_has_something_in_it(links: dict[str, Any], page: Any) -> None:
    page.goto(links["charts"])
    page.get_by_text(f"Search {NAME}").first.wait_for()
    for kind, drawn in (
        ("bar", ".barlayer .point path"),
        ("line", ".scatterlayer .trace"),
        ("contour", ".contourlayer path"),
    ):
        page.locator(drawn).first.wait_for(state="attached", timeout=20_000)
        assert page.locator(drawn).count() >= 2, kind
    page.get_by_text("Parallel Coordinates").first.wait_for()
    assert page.locator(".js-plotly-plot").first.bounding_box()["width"] > 500  # two abreast, not three
    # plotly draws parallel coordinates on a canvas, and their axes as text; the gallery is <img>
    page.locator('img[src^="blob:"], img[src*="get-artifact"], img[src*="compressed"]').first.wait_for(
        state="attached", timeout=20_000
    )
    shot(page, "charts")


@needs_browser
def test_the_pages_of_the_search_and_of_its_model(links: dict[str, Any], page: Any) -> None:
    page.goto(links["run"])
    page.get_by_text("is best: MAP@R").wait_for()
    page.get_by_text("glyphs/fold0/train").first.wait_for()
    shot(page, "run")
    page.get_by_role("tab", name="Artifacts").click()
    page.get_by_text("search.png").first.wait_for()
    page.get_by_text("report.html").first.click()
    report = page.frame_locator("iframe").first
    report.get_by_role("heading", name="Winner, reference point and baseline").wait_for()
    report.locator("#curves").first.scroll_into_view_if_needed()
    report.locator("figure[data-chart] .chart :is(svg, canvas)").first.wait_for()
    shot(page, "report-in-artifacts")
    page.goto(links["model"])
    page.get_by_text("champion").first.wait_for()
    assert page.get_by_text("challenger").count() >= 1
    shot(page, "model")


def test_mlflow_answers_this_machine_and_no_page_of_another_name(links: dict[str, Any]) -> None:
    port = int(links["address"].rpartition(":")[2])
    search = ("POST", "/ajax-api/2.0/mlflow/experiments/search", b'{"max_results": 5}')

    def ask(host: str, origin: str = "") -> tuple[int, bytes]:
        headers = {"Host": host, "Content-Type": "application/json"} | ({"Origin": origin} if origin else {})
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
            connection.request(*search, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()

    for host in (f"127.0.0.1:{port}", f"localhost:{port}", "localhost:5000"):
        assert ask(host)[0] == 200
    for host in ("attacker.example", f"10.attacker.example:{port}", "192.168.attacker.example", "192.0.2.7"):
        status, text = ask(host)
        assert status == 403
        assert b"experiment_id" not in text
    assert ask(f"127.0.0.1:{port}", "https://attacker.example")[0] == 403
    listening = [each for each in psutil.net_connections("tcp") if each.laddr and each.laddr.port == port]
    assert {each.laddr.ip for each in listening if each.status == psutil.CONN_LISTEN} == {"127.0.0.1"}


def test_a_tracking_server_is_opened_and_not_taken_for_a_database(
    links: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", links["address"])
    place = Place(tmp_path)
    code, out, errors = place.run("ui", NAME, "-f", "json")
    assert code == 0, errors
    opened = json.loads(out)
    assert {key: opened[key] for key in links if key != "store"} == {
        key: links[key] for key in links if key != "store"
    }
    code, _, errors = place.run("ui", NAME, "--port", "5000")
    assert code == 2
    assert "--port is for a server of this machine" in errors


def test_a_run_with_its_model_on_a_tracking_server(
    links: dict[str, Any], store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Artifacts go through the server, which has its own place for them."""
    local = Tracker(Store.at(store))
    with local.model_folder(runs_of(local, NAME)[0].data.tags[tags.WINNER_MODEL]) as folder:
        assert folder is not None
        monkeypatch.setenv("MLFLOW_TRACKING_URI", links["address"])
        tracker = Tracker(Store.at(tmp_path))
        data = DataInput("birds/fold0/validation", "f" * 16, "validation")
        experiment = tracker.experiment("on a server")
        run = TrackedRun.open(
            tracker, experiment, "remote", role="training", metric="map_at_r", params={"a": 1}, about={},
            inputs=(data,),
        )  # fmt: skip
        model = shutil.copytree(folder, tmp_path / "best")
        run.store_model(model)
    run.end("complete", step=8, best=0.5)
    tracker.register("remote", run.run_id, None, "a model")
    assert tracker.client.get_model_version_by_alias("remote", "champion").run_id == run.run_id
    with tracker.model_folder(run.run_id) as stored:
        assert stored is not None
        assert (stored / "model.safetensors").read_bytes() == (model / "model.safetensors").read_bytes()
    assert tracker.active_run(run.run_id).info.artifact_uri.startswith("mlflow-artifacts:")
    assert tracker.replace_params(run.run_id, {"a": 2}) is False
    tracker.drop_model(run.run_id)
    assert not tracker.has_model(run.run_id)
