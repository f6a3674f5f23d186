"""Generated documents, overrides, expressions and files: a result or one line, soon and in little memory."""

from __future__ import annotations

import contextlib
import json
import math
import resource
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from malformed.case import time_limit

from dmltune.core import checkpoint
from dmltune.errors import UserError
from dmltune.experiment import load_experiment, load_job
from dmltune.experiment.space.expression import ExpressionError, compile_expression

SECONDS, MEMORY_KB = 5.0, 500_000
SPACES = Path(__file__).parents[2] / "search_spaces"
TEXTS = [file.read_text(encoding="utf-8") for file in sorted(SPACES.glob("glyphs*.yaml"))[:4]]
SOME = settings(max_examples=25, deadline=None, derandomize=True)
KEYS = [
    *("seed", "max_steps", "loss", "loss.name", "loss.neg_margin", "references", "references.lambda"),
    *("data", "data.size", "data.path", "batch.size", "optimizer.lr", "optimizer.milestones", "search"),
    *("require", "search.references.lambda", "reference_point", "baseline", "objective.metric"),
    *("extends", "presets", "pooling.name", "backbone", "backbone.weights", "sampler", "scheduler"),
    *("fold", "", ".", "a.b.c", "loss."),
]
ODD = ["triplet", "ccp", "../../x", "~x/y", "s3://a", "1e999", "0x10", "\x1b[31m", "*a", "<<"]
ATOMS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=12),
    st.sampled_from(
        ["triplet", "ccp", "gap", "../../x", "~x/y", "s3://a", "1e999", "0x10", "\x1b[31m", "*a", "<<"]
    ),
)
NAMES = st.sampled_from(KEYS) | st.text(max_size=6)
TREES = st.recursive(
    ATOMS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner), max_leaves=12
)


@pytest.fixture(autouse=True, scope="module")
def _little_memory() -> Iterator[None]:
    load_experiment("glyphs-ccp")  # imports
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MEMORY_KB


@contextlib.contextmanager
def one_line(*kinds: type[Exception]) -> Iterator[None]:
    """The block ends in time, well or with an error of these kinds and one line."""
    try:
        with time_limit(SECONDS):
            yield
    except kinds as error:
        text = str(error)
        assert "\n" not in text
        assert len(text) < 3000


def loaded(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "x.yaml"
        file.write_text(text, encoding="utf-8", errors="surrogatepass", newline="")
        with one_line(UserError):
            load_experiment(file)
        with one_line(UserError):
            load_job(file)


def damaged(text: str, place: int, length: int, inserted: str) -> str:
    place %= len(text) + 1
    return text[:place] + inserted + text[place + length :]


@SOME
@given(st.sampled_from(TEXTS), st.integers(0, 10_000), st.integers(0, 40), st.text(max_size=8))
def test_a_damaged_space_is_loaded_or_one_line(text: str, place: int, length: int, inserted: str) -> None:
    loaded(damaged(text, place, length, inserted))


@SOME
@given(st.dictionaries(NAMES, TREES, max_size=6))
def test_any_tree_is_an_experiment_or_one_line(tree: dict[str, Any]) -> None:
    loaded(json.dumps({"extends": "glyphs-ccp", **tree}, ensure_ascii=False))  # JSON is YAML in flow style


@SOME
@given(NAMES, ATOMS | TREES)
def test_any_override_is_an_experiment_or_one_line(key: str, value: Any) -> None:
    with one_line(UserError):
        load_experiment("glyphs-ccp", [f"{key}={json.dumps(value, ensure_ascii=False)}"])
    with one_line(UserError):
        load_experiment("glyphs-ccp", [f"{key}={value}"])


PARTS = [
    *("a", "a.b", "references.lambda", "1", "9" * 60, "1e308", "'x'", "true", "1j", "0x7f", "1_0"),
    *("+", "-", "*", "/", "**", "<", "<=", "==", "!=", "and", "or", "not", "(", ")", ",", "max(", "exp("),
    *("lambda", "if", "else", "[", "]", "{", ":=", ".", "f''", "\\", "\0", "é", "#", ";", "@", "~", "%"),
    *("in", "log(", "__import__"),
]


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(PARTS), max_size=60), st.lists(ATOMS, min_size=3, max_size=3))
def test_any_expression_holds_or_not_or_is_one_line(parts: list[str], values: list[Any]) -> None:
    text = " ".join(parts)
    known = dict(zip(("a", "a.b", "references.lambda"), values, strict=True))
    with one_line(ExpressionError, KeyError):
        assert compile_expression(text).holds(known) in (True, False)


@pytest.mark.parametrize(
    "text",
    [
        "-" * 400 + "a > 1",
        "not " * 120 + "a > 1",
        "(" * 39 + "a" + ")" * 39 + " > 1",
        "a" + " ** 9" * 90 + " > 1",
        "a" + " * a" * 120 + " > 1",
        "a" + " < a" * 120,
        "max(" * 40 + "a, 1" + ", 1)" * 40 + " > 1",
        "exp(exp(exp(a))) > 1",
    ],
)
def test_a_long_expression_takes_no_time(text: str) -> None:
    for value in (2, 2**63 - 1, -1.5, math.inf, math.nan, True, "x", None, [1]):
        with one_line(ExpressionError):
            compile_expression(text).holds({"a": value})


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("whole")
    checkpoint.save(folder, {"a": torch.arange(40.0), "b": torch.zeros(0), "c": torch.tensor(3)}, {"step": 3})
    return (folder / checkpoint.CHECKPOINT).read_bytes()


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.data())
def test_a_damaged_checkpoint_is_the_old_one_or_one_line(whole: bytes, data: st.DataObject) -> None:
    content = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(content) - 1) if content else st.just(0))
        match data.draw(st.sampled_from(["flip", "cut", "insert", "zeros", "header"])):
            case "flip" if content:
                content[place] ^= 1 << data.draw(st.integers(0, 7))
            case "cut":
                del content[place:]
            case "insert":
                content[place:place] = data.draw(st.binary(min_size=1, max_size=20))
            case "zeros":
                content[place : place + 8] = bytes(len(content[place : place + 8]))
            case "header":
                content[:8] = data.draw(st.integers(0, 2**64 - 1)).to_bytes(8, "little")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / checkpoint.CHECKPOINT).write_bytes(content)
        with one_line(UserError):
            tensors, meta = checkpoint.load(Path(folder))
            assert meta == {"step": 3}
            assert torch.equal(tensors["a"], torch.arange(40.0))
