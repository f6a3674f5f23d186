"""BLAS has one thread, whatever was imported when."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import scipy.linalg
from threadpoolctl import threadpool_info, threadpool_limits
from dmltune.search.linear_algebra import one_thread

with one_thread():
    pass
before = {each["filepath"] for each in threadpool_info() if each["user_api"] == "blas"}
import faiss, sklearn.cluster, torch
with threadpool_limits(2, "blas"), one_thread():
    loaded = [each for each in threadpool_info() if each["user_api"] == "blas"]
print({each["filepath"] for each in loaded} - before != set(), {each["num_threads"] for each in loaded})
"""


def test_a_blas_that_is_loaded_after_the_first_proposal_is_limited_too() -> None:
    shown = subprocess.run([sys.executable, "-c", CODE], check=True, capture_output=True, text=True).stdout
    assert shown.split() == ["True", "{1}"]
