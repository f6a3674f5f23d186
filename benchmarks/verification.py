"""The rate of right acceptances at rates of wrong ones, over millions of scores.

    python benchmarks/verification.py [--others 15000000] [--own 300000]

float32 scores of pairs of different people, and far fewer of the same, in random order; the rates of wrong
acceptances are those of the papers, 1e-3 to 1e-5, and 1e-1 for the worst case. Seconds on the wall, median of
five calls on one thread. Memory is how far one call raises the peak of a fresh process above where it stood
with the scores in memory; also printed is the sum of both. The rates have to be those of a full sort.
"""

from __future__ import annotations

import argparse
import multiprocessing
import multiprocessing.connection
import statistics
import time

import numpy as np
from memory import begin_anew, peak
from numpy.typing import NDArray
from targets import Targets

from dmltune.core.verification import tar_at_far

FARS = (1e-1, 1e-3, 1e-4, 1e-5)


def pairs(others: int, own: int) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    generator = np.random.default_rng(0)
    same_N = np.zeros(others + own, dtype=np.bool_)
    same_N[generator.choice(len(same_N), own, replace=False)] = True
    score_N = generator.standard_normal(len(same_N), dtype=np.float32)
    score_N[same_N] += 3
    return score_N, same_N


def by_full_sort(score_N: NDArray[np.float32], same_N: NDArray[np.bool_]) -> list[float]:
    """Pairs in descending order; a threshold takes all of a score or none."""
    order = np.argsort(-score_N)
    wrong_N, right_N = np.cumsum(~same_N[order]), np.cumsum(same_N[order])
    last_N = np.append(np.diff(score_N[order]) != 0, True)
    allowed = [last_N & (wrong_N <= far * wrong_N[-1]) for far in FARS]
    return [float(right_N[ends].max(initial=0) / right_N[-1]) for ends in allowed]


def memory(others: int, own: int) -> tuple[float, float]:
    """Extra bytes of one call, without and with the scores, in a fresh process."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_measured, args=(others, own, sender))
    child.start()
    sender.close()
    found: tuple[float, float] = receiver.recv()
    child.join()
    return found


def _measured(others: int, own: int, sender: multiprocessing.connection.Connection) -> None:
    tar_at_far(*pairs(100, 10), FARS)
    given = pairs(others, own)
    before = begin_anew()
    tar_at_far(*given, FARS)
    grown = peak() - before
    sender.send((grown, grown + sum(part.nbytes for part in given)))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--others", type=int, default=15_000_000)
    parser.add_argument("--own", type=int, default=300_000)
    chosen = parser.parse_args()
    extra, whole = memory(chosen.others, chosen.own)
    score_N, same_N = pairs(chosen.others, chosen.own)
    taken = []
    for _ in range(5):
        start = time.perf_counter()
        rates = tar_at_far(score_N, same_N, FARS)
        taken.append(time.perf_counter() - start)
    print(", ".join(f"TAR {rate:.4f} at FAR {far:g}" for rate, far in zip(rates, FARS, strict=True)))
    print(f"{min(taken):.2f} to {max(taken):.2f} s; {whole / 1e6:.0f} MB with the scores")
    gap = max(abs(a - b) for a, b in zip(rates, by_full_sort(score_N, same_N), strict=True))
    targets = Targets()
    targets.check(f"TAR at FAR of {chosen.others:,} pairs", statistics.median(taken), "≤", 5, " s")
    targets.check("extra memory", extra / 1e6, "≤", 200, " MB")
    targets.check("difference to a full sort", gap, "≤", 0)
    targets.end()


if __name__ == "__main__":
    main()
