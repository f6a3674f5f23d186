"""Compare searches by their regrets on several tables: means, ranks, paired tests, time to a quality."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

SHARES = (0.1, 0.25, 0.5, 0.75, 1.0)  # of the budget
MARGIN = 0.05  # of normalised regret: a smaller difference does not matter
REFERENCE = "stock-ray"
Floats = NDArray[np.float64]
Record = Mapping[str, Any]
Curves = dict[str, dict[str, dict[int, Floats]]]  # regrets over time by method, table and seed


def curves_of(records: Sequence[Record]) -> Curves:
    curves: Curves = {}
    for record in records:
        tables = curves.setdefault(record["method"], {})
        tables.setdefault(record["table"], {})[record["seed"]] = np.array(record["regrets"])
    return curves


def summarize(records: Sequence[Record], ours: str) -> dict[str, Any]:
    """Return the comparison for each number of workers."""
    workers = sorted({record["workers"] for record in records})
    return {
        str(number): compare(curves_of([r for r in records if r["workers"] == number]), ours)
        for number in workers
    }


def compare(curves: Curves, ours: str) -> dict[str, Any]:
    """Return everything about the searches (table and seed) that all methods have finished."""
    curves = in_common(curves)
    tables = sorted(set.intersection(*(set(each) for each in curves.values())))
    means = {
        method: {table: np.mean(list(by[table].values()), axis=0) for table in tables}
        for method, by in curves.items()
    }
    result: dict[str, Any] = {
        "tables": tables,
        "searches": {method: sum(len(by[table]) for table in tables) for method, by in curves.items()},
        "regret": {m: [_overall(by, share) for share in SHARES] for m, by in means.items()},
        "mean_rank": mean_ranks(means),
    }
    if ours in curves and tables:
        peers = [method for method in curves if method != ours]
        result["over_tables"] = tests_over_tables(means, ours, peers)
        result["worse_on"] = worse_on(curves, tables, ours, peers)
        if REFERENCE in peers:
            result["time_to_stock"] = times_to(means[ours], means[REFERENCE])
        result["targets"] = targets(result, ours)
    return result


def in_common(curves: Curves) -> Curves:
    """Return the searches whose table and seed every method has."""
    keys = [{(table, seed) for table, by in each.items() for seed in by} for each in curves.values()]
    common = set.intersection(*keys) if keys else set()
    found: Curves = {method: {} for method in curves}
    for method, tables in curves.items():
        for table, seed in sorted(common):
            found[method].setdefault(table, {})[seed] = tables[table][seed]
    return found


def targets(result: Mapping[str, Any], ours: str) -> list[dict[str, Any]]:
    """Return what issue 12 asks for, with figures, and whether it is met."""
    ranks, regret, rows = result["mean_rank"], result["regret"], []
    for share in (0.25, 0.5, 1.0):
        at_share = SHARES.index(share)
        best = min(ranks, key=lambda method: ranks[method][at_share])
        figures = f"{ranks[ours][at_share]} against {ranks[best][at_share]} of {best}"
        met = ranks[ours][at_share] <= ranks[best][at_share]
        rows.append({"target": f"best mean rank at {share:.0%}", "figures": figures, "met": met})
    if "time_to_stock" in result:
        ratio = result["time_to_stock"]["median_of_its_time"]
        met = ratio is not None and ratio <= 1 / 3
        rows.append({"target": f"quality of {REFERENCE} in 1/3 of its time", "figures": ratio, "met": met})
    worse = result["worse_on"]
    rows.append({"target": "nowhere significantly worse by 0.05", "figures": len(worse), "met": not worse})
    compared = [
        ("gp-line", 0.25, "better than"),
        ("gp-line", 0.5, "better than"),
        ("gp", 1.0, "no worse than"),
    ]
    for peer, share, words in compared:
        if peer in regret:
            own, other = regret[ours][SHARES.index(share)], regret[peer][SHARES.index(share)]
            met = own < other if words == "better than" else own <= other
            target = f"{words} {peer} at {share:.0%}"
            rows.append({"target": target, "figures": f"{own} against {other}", "met": met})
    return rows


def index_of(share: float, points: int) -> int:
    """Return the place in a curve of regrets after this share of the budget."""
    return round(share * points) - 1


def at(curve: Floats, share: float) -> float:
    return float(curve[index_of(share, len(curve))])


def _overall(by_table: Mapping[str, Floats], share: float) -> float:
    return round(
        statistics.fmean(at(curve, share) for curve in by_table.values()) if by_table else math.nan, 4
    )


def mean_ranks(means: Mapping[str, Mapping[str, Floats]]) -> dict[str, list[float]]:
    """Return each method's rank among all, 1 for the lowest regret, as a mean over tables."""
    methods = list(means)
    ranks = []
    for share in SHARES:
        regret_MN = [[round(at(curve, share), 6) for curve in means[m].values()] for m in methods]
        ranks.append(stats.rankdata(regret_MN, axis=0).mean(axis=1))
    return {m: [round(float(rank[k]), 2) for rank in ranks] for k, m in enumerate(methods)}


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values adjusted by Holm's step-down method."""
    adjusted = [1.0] * len(p_values)
    running = 0.0
    for place, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        running = max(running, min(1.0, (len(p_values) - place) * p_values[index]))
        adjusted[index] = running
    return adjusted


def tests_over_tables(
    means: Mapping[str, Mapping[str, Floats]], ours: str, peers: Sequence[str]
) -> list[dict[str, Any]]:
    """Test each peer against ours: Wilcoxon's signed ranks of the tables, Holm over peers and budgets."""
    rows = []
    for peer in peers:
        for share in (0.25, 0.5, 1.0):
            gap = [at(means[ours][table], share) - at(means[peer][table], share) for table in means[ours]]
            p = float(stats.wilcoxon(gap).pvalue) if any(gap) and len(gap) > 1 else 1.0
            rows.append({"peer": peer, "share": share, "difference": round(statistics.fmean(gap), 4), "p": p})
    for row, p in zip(rows, holm([row["p"] for row in rows]), strict=True):
        row["p_holm"] = round(p, 5)
    return rows


def worse_on(curves: Curves, tables: Sequence[str], ours: str, peers: Sequence[str]) -> list[dict[str, Any]]:
    """Return the tables on which ours is significantly worse than the best peer by more than the margin.

    For each table and budget: a one-sided t test, paired by seeds, of the difference to the peer with the
    lowest mean regret there; Holm over all of them.
    """
    rows = []
    for table in tables:
        for share in (0.25, 0.5, 1.0):
            levels = {p: statistics.fmean(at(c, share) for c in curves[p][table].values()) for p in peers}
            peer = min(levels, key=levels.__getitem__)
            own, other = curves[ours][table], curves[peer][table]
            gap = np.array([at(own[s], share) - at(other[s], share) for s in own if s in other])
            rows.append({"table": table, "share": share, "peer": peer, "p": _p_above_margin(gap)})
            rows[-1]["difference"] = round(float(gap.mean()), 4) if len(gap) else None
    for row, p in zip(rows, holm([row["p"] for row in rows]), strict=True):
        row["p_holm"] = round(p, 5)
    return [row for row in rows if row["p_holm"] < 0.05]


def _p_above_margin(gap: Floats) -> float:
    """Return the p-value of "the mean difference is at most the margin"."""
    if len(gap) < 2:
        return 1.0
    if np.ptp(gap) == 0:
        return 0.0 if gap[0] > MARGIN else 1.0
    return float(stats.ttest_1samp(gap, MARGIN, alternative="greater").pvalue)


def times_to(ours: Mapping[str, Floats], stock: Mapping[str, Floats]) -> dict[str, Any]:
    """Return when our mean regret reaches the final one of the other, in shares of the time it needed.

    The other's time is that at which its own mean regret first had its final value. `median` is over tables;
    a table on which ours never reaches it counts as infinite.
    """
    shares: dict[str, float | None] = {}
    for table, curve in ours.items():
        final = stock[table][-1] + 1e-9
        reached, needed = np.flatnonzero(curve <= final), np.flatnonzero(stock[table] <= final)
        shares[table] = round(float((reached[0] + 1) / (needed[0] + 1)), 3) if len(reached) else None
    whole = {
        table: float((np.flatnonzero(curve <= stock[table][-1] + 1e-9)[0] + 1) / len(curve))
        if shares[table] is not None
        else math.inf
        for table, curve in ours.items()
    }
    ratios = [math.inf if share is None else share for share in shares.values()]
    return {
        "median_of_its_time": _finite(statistics.median(ratios)),
        "median_of_budget": _finite(statistics.median(whole.values())),
        "tables": shares,
    }


def _finite(value: float) -> float | None:
    return round(value, 3) if math.isfinite(value) else None


def as_text(summary: Mapping[str, Any]) -> str:
    """Return the summary as tables."""
    lines: list[str] = []
    for workers, each in summary.items():
        head = "".join(f"{share:>8.0%}" for share in SHARES)
        lines += ["", f"{workers} workers, {len(each['tables'])} tables"]
        lines += [f"  {'mean normalised regret':<24}{head}     mean rank{head}   searches"]
        for method in sorted(each["regret"], key=lambda m: each["regret"][m][2]):
            regret = "".join(f"{value:>8.3f}" for value in each["regret"][method])
            rank = "".join(f"{value:>8.2f}" for value in each["mean_rank"][method])
            lines.append(f"  {method:<24}{regret}{'':14}{rank}{each['searches'][method]:>11}")
        lines += [_test_line(row) for row in each.get("over_tables", ())]
        if "worse_on" in each:
            worse = each["worse_on"]
            names = [f"{r['table']} at {r['share']:.0%} ({r['peer']}, {r['difference']:+.3f})" for r in worse]
            lines.append(
                f"  worse than the best peer by more than {MARGIN}, significantly: {names or 'no table'}"
            )
        if times := each.get("time_to_stock"):
            lines.append(
                f"  final quality of {REFERENCE}: reached after {times['median_of_budget']} of the budget, "
                f"{times['median_of_its_time']} of its own time (medians over tables)"
            )
        for row in each.get("targets", ()):
            verdict = "met   " if row["met"] else "MISSED"
            lines.append(f"  {verdict} {row['target']}: {row['figures']}")
    return "\n".join(lines)


def _test_line(row: Mapping[str, Any]) -> str:
    sign = f"{row['difference']:+.3f}"
    return f"  against {row['peer']:<10} at {row['share']:>4.0%}: {sign}, Holm p {row['p_holm']:.4f}"
