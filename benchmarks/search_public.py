"""Ours against other searches on public tables, on a simulated clock.

    pip install 'dmltune[bench]'; export DMLTUNE_DATA=…    # tables of PyPI; the folder that holds `taskset`
    python benchmarks/search_public.py --results mlruns/public/*.jsonl --minutes 60 [--workers 4] [--seeds 30]

A search has the worker time of 40 full trainings. After each fortieth of it the configuration is noted that
the search would choose, by its normalised regret (curve_table.py; the mean over the seeds of the table). As
long as nothing was seen, that is the mean regret of the table, which is that of a random configuration.

Every finished search is a line that is appended to the first file, with a digest of the code that made it:
of the engine for ours, of `rival_searches.py` for the others, and of the tables for all. Searches that are in
none of the files with the present digest are run, seed by seed: all methods on seed 0 of all tables first.
So a run can be interrupted and continued, and after a change of the engine only ours are run again. Several
processes share the work with `--part 0/2` and `--part 1/2`, each with a first file of its own. `--report`
only reads. Tuning uses seeds from 1000 on (`--first-seed 1000`); only the seeds below that are reported.

Ours is `dmltune.simulate` with its defaults (`dmltune`: sampler auto, scheduler asha) and with the scheduler
promote (`dmltune-promote`); on tables with a single seed, where a repetition would read the same number,
without repetitions.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib
import itertools
import json
import os
import sys
import time
import zlib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import public_report
from curve_table import CurveTable
from public_tables import load_table, table_names
from rival_searches import RIVALS, SLOW, best_at, make_rival, run

OURS: dict[str, dict[str, Any]] = {"dmltune": {}, "dmltune-promote": {"scheduler": "promote"}}
METHODS = ("dmltune", "random", "tpe", "stock-ray", "topk", "gp", "dmltune-promote", "gp-line")
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
    return float(table.regrets_K.mean()) if values is None else table.regret(values)


@cache
def digest_of(method: str) -> str:
    """Return a digest of the code that decides this method's results: without comments and docstrings."""
    here = Path(__file__).parent
    files = [here / "curve_table.py", here / "public_tables.py"]
    if method in OURS:
        from dmltune.search import samplers, schedulers

        samplers.load("auto").build(10, 0)
        schedulers.load("promote"), schedulers.load("asha")
        for module in ("simulation", "choice"):
            importlib.import_module(f"dmltune.search.{module}")
        names = [name for name in sys.modules if name.startswith("dmltune.search.")]
        files += [Path(str(sys.modules[name].__file__)) for name in sorted(names)]
    else:
        files.append(here / "rival_searches.py")
    return hashlib.sha256("".join(map(_code, files)).encode()).hexdigest()[:12]


def _code(path: Path) -> str:
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [each for each in body if not _is_text(each)]  # type: ignore[attr-defined]
    return ast.dump(tree)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def records_in(files: list[Path]) -> list[Record]:
    """Return the searches of the present code."""
    lines = [line for file in files if file.exists() for line in file.read_text().splitlines()]
    found = [json.loads(line) for line in lines if line.endswith("}")]  # the last one may be cut off
    return [record for record in found if record["code"] == digest_of(record["method"])]


def key(record: Record) -> tuple[str, str, int, int]:
    return record["table"], record["method"], record["workers"], record["seed"]


def jobs(arguments: argparse.Namespace) -> Iterator[Record]:
    """Yield this part of all searches, those with the lowest seeds first, and method after method."""
    part, parts = map(int, arguments.part.split("/"))
    every = (
        {"table": table, "method": method, "workers": workers, "seed": seed}
        for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds)
        for workers, method, table in itertools.product(
            arguments.workers, arguments.methods, arguments.tables
        )
        if seed - arguments.first_seed < arguments.slow_seeds or method not in SLOW
    )
    return itertools.islice(every, part, None, parts)


def run_missing(arguments: argparse.Namespace) -> None:
    done = {key(record) for record in records_in(arguments.results)}
    missing = [job for job in jobs(arguments) if key(job) not in done]
    end = time.monotonic() + 60 * arguments.minutes
    arguments.results[0].parent.mkdir(parents=True, exist_ok=True)
    for place, job in enumerate(missing):
        if time.monotonic() > end:
            print(f"the time is over with {len(missing) - place} searches to do; run it again to continue")
            return
        table = load_table(job["table"])
        begin = time.process_time()
        if job["method"] in OURS:
            regrets = regrets_of_ours(table, job["workers"], job["seed"], **OURS[job["method"]])
        else:
            regrets = regrets_of_rival(job["method"], table, job["workers"], job["seed"])
        job |= {
            "regrets": [round(each, 5) for each in regrets],
            "cpu_seconds": round(time.process_time() - begin, 1),
            "code": digest_of(job["method"]),
        }
        with arguments.results[0].open("a") as file:
            file.write(json.dumps(job) + "\n")


def wanted(records: Iterable[Record], arguments: argparse.Namespace) -> list[Record]:
    """Return the records that are to be reported; each search once."""
    allowed = {"table": arguments.tables, "method": arguments.methods, "workers": arguments.workers}
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    by_key = {key(record): record for record in records}
    return [
        record
        for record in by_key.values()
        if all(record[k] in allowed[k] for k in allowed) and record["seed"] in seeds
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--results", type=Path, nargs="+", required=True, help="JSON lines, read and written")
    parser.add_argument("--tables", nargs="+", help="names or parts of names; default: all")
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=[*OURS, *RIVALS])
    parser.add_argument("--workers", type=int, nargs="+", default=[4, 16])
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--slow-seeds", type=int, default=1000, help=f"fewer seeds of {', '.join(SLOW)}")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no search after them")
    parser.add_argument("--part", default="0/1", help="which part of the searches, as in 0/2")
    parser.add_argument("--nice", type=int, default=19)
    parser.add_argument("--report", action="store_true", help="only read")
    parser.add_argument("--json", type=Path, help="write the summary there")
    parser.add_argument("--figure", type=Path, help="draw the regrets there")
    arguments = parser.parse_args()
    parts = arguments.tables or [""]
    for method in arguments.methods:
        digest_of(method)  # a search loads more modules, and would change its own digest
    arguments.tables = [name for name in table_names() if any(part in name for part in parts)]
    if not arguments.report:
        os.nice(arguments.nice)
        run_missing(arguments)
    records = wanted(records_in(arguments.results), arguments)
    summary = public_report.summarize(records, "dmltune")
    print(public_report.as_text(summary))
    if arguments.json:
        arguments.json.write_text(json.dumps(summary, indent=1) + "\n")
    if arguments.figure:
        from public_figure import draw

        draw(records, "dmltune", arguments.figure)


if __name__ == "__main__":
    main()
