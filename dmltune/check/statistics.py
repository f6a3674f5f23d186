"""The statistics of a check, by name: intervals, comparisons, the luck of a winner."""

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
