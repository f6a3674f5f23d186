"""The public statistics of a check: intervals, comparisons, the bias of a chosen score."""

from dmltune.check.comparison import Comparison, compare, compare_scores, holm
from dmltune.check.intervals import Interval, mean_interval
from dmltune.check.selection import Corrected, best_of_n

__all__ = [
    "Comparison",
    "Corrected",
    "Interval",
    "best_of_n",
    "compare",
    "compare_scores",
    "holm",
    "mean_interval",
]
