"""Ours against other searches on public tables, on a simulated clock.

    pip install 'dmltune[bench]'; export DMLTUNE_DATA=…    # tables of PyPI; the folder that holds `taskset`
    python benchmarks/search_public.py --results ours.jsonl rivals.jsonl [--seeds 30] [--workers 4 16]

A search has the worker time of 40 full trainings. After each fortieth of it the configuration is noted that
the search would choose, by its normalised regret (curve_table.py; the mean over the seeds of the table). As
long as nothing was seen, that is the mean regret of the table, which is that of a random configuration.

Searches that are not in any of the files yet are run and appended to the first one; so a run can be
interrupted, continued and divided among processes. `--report` only reads. Ours is `dmltune.simulate` with its
defaults; on tables with a single seed, where a repetition would read the same number, without repetitions.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import public_report
from curve_table import CurveTable
from public_tables import load_table, table_names
from rival_searches import RIVALS, SLOW, best_at, make_rival, run

OURS = "dmltune"
BUDGET = 40  # full trainings
POINTS = 40  # of a curve of regrets
Record = dict[str, Any]


def regrets_of_ours(table: CurveTable, workers: int, seed: int, **options: Any) -> list[float]:
    """Return the regrets of dmltune; `options` are those of `simulate`."""
    from dmltune.search.simulation import simulate

    wall = BUDGET * table.max_steps / workers
    if table.seeds == 1:
        options = {"repeat_share": 0.0, **options}
    simulated = simulate(
        table.search,
        table.curve,
        workers=workers,
        seconds=wall,
        max_steps=table.max_steps,
        seed=seed_on(table, seed),
        **options,
    )
    chosen = [simulated.best_at(wall * (k + 1) / POINTS) for k in range(POINTS)]
    return [regret(table, values) for values in chosen]


def regrets_of_rival(name: str, table: CurveTable, workers: int, seed: int) -> list[float]:
    wall = BUDGET * table.max_steps / workers
    rival = make_rival(name, table, seed_on(table, seed), BUDGET)
    events = run(rival, table, workers=workers, seconds=wall, seed=seed)
    return [regret(table, best_at(events, wall * (k + 1) / POINTS)) for k in range(POINTS)]


def seed_on(table: CurveTable, seed: int) -> int:
    """Return a sampler's seed: other points on each table, and the same recorded seed."""
    return table.seeds * (zlib.crc32(table.name.encode()) % 100_000) + seed


def regret(table: CurveTable, values: dict[str, Any] | None) -> float:
    if values is None:
        return float(table.regrets_K.mean())
    return float(table.regrets_K[table.row_of(values)])


def records_in(files: list[Path]) -> list[Record]:
    lines = [line for file in files if file.exists() for line in file.read_text().splitlines()]
    return [json.loads(line) for line in lines if line.endswith("}")]  # the last one may be cut off


def key(record: Record) -> tuple[str, str, int, int]:
    return record["table"], record["method"], record["workers"], record["seed"]


def jobs(arguments: argparse.Namespace) -> Iterator[Record]:
    """Yield all searches, those with the lowest seeds first."""
    for seed in range(arguments.seeds):
        for workers, table, method in itertools.product(
            arguments.workers, arguments.tables, arguments.methods
        ):
            if seed < arguments.slow_seeds or method not in SLOW:
                yield {"table": table, "method": method, "workers": workers, "seed": seed}


def run_missing(arguments: argparse.Namespace) -> None:
    done = {key(record) for record in records_in(arguments.results)}
    end = time.monotonic() + 60 * arguments.minutes
    for job in jobs(arguments):
        if key(job) in done:
            continue
        if time.monotonic() > end:
            print("the time is over; run it again to continue")
            return
        table = load_table(job["table"])
        begin = time.process_time()
        if job["method"] == OURS:
            regrets = regrets_of_ours(table, job["workers"], job["seed"])
        else:
            regrets = regrets_of_rival(job["method"], table, job["workers"], job["seed"])
        job |= {
            "regrets": [round(each, 5) for each in regrets],
            "cpu_seconds": round(time.process_time() - begin, 1),
        }
        with arguments.results[0].open("a") as file:
            file.write(json.dumps(job) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--results", type=Path, nargs="+", required=True, help="JSON lines, read and written")
    parser.add_argument("--tables", nargs="+", help="names or parts of names; default: all")
    parser.add_argument("--methods", nargs="+", default=[OURS, *RIVALS], choices=[OURS, *RIVALS])
    parser.add_argument("--workers", type=int, nargs="+", default=[4, 16])
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--slow-seeds", type=int, default=1000, help=f"fewer seeds of {', '.join(SLOW)}")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no search after them")
    parser.add_argument("--report", action="store_true", help="only read")
    parser.add_argument("--json", type=Path, help="write the summary there")
    parser.add_argument("--figure", type=Path, help="draw the regrets there")
    arguments = parser.parse_args()
    parts = arguments.tables or [""]
    arguments.tables = [name for name in table_names() if any(part in name for part in parts)]
    if not arguments.report:
        run_missing(arguments)
    wanted = {"table": arguments.tables, "method": arguments.methods, "workers": arguments.workers}
    records = [r for r in records_in(arguments.results) if all(r[k] in wanted[k] for k in wanted)]
    summary = public_report.summarize(records, OURS)
    print(public_report.as_text(summary))
    if arguments.json:
        arguments.json.write_text(json.dumps(summary, indent=1) + "\n")
    if arguments.figure:
        from public_figure import draw

        draw(records, OURS, arguments.figure)


if __name__ == "__main__":
    main()
