"""`require`: a mini language against Python's own evaluation, and everything that it refuses."""

from __future__ import annotations

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmltune.experiment.space.expression import ExpressionError, compile_expression

VALUES = {"a.b": 3, "c": 2.5, "loss.name": "triplet", "on": True}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.b >= 3", True),
        ("a.b > 3", False),
        ("1 < c <= a.b", True),
        ("1 < a.b <= c", False),
        ("a.b + c * 2 == 8", True),
        ("(a.b + c) * 2 == 11", True),
        ("-a.b ** 2 == -9", True),
        ("2 ** 3 ** 2 == 512 and a.b == 3", True),
        ("a.b - 1 - 1 == 1", True),
        ("a.b / 2 / 3 == 0.5", True),
        ("a.b == 4 or c == 2.5", True),
        ("not a.b == 4", True),
        ("a.b == 4 or a.b == 3 and c == 0", False),
        ("loss.name == 'triplet'", True),
        ('loss.name != "triplet"', False),
        ("on == true", True),
        ("min(a.b, c) == 2.5", True),
        ("a.b <= log2(1 + sqrt(c))", False),
        ("abs(-a.b) == 3 and exp(0) == 1", True),
    ],
)
def test_arithmetic_and_logic_mean_what_they_mean_in_mathematics(text: str, expected: bool) -> None:
    assert compile_expression(text).holds(VALUES) is expected


@pytest.mark.parametrize(
    "text", ["1 / (a.b - 3) > 0", "log(a.b - 3) < 0", "9 ** 9 ** 9 ** 9 > a.b", "sqrt(-c) > 0"]
)
def test_arithmetic_without_an_answer_does_not_hold_and_does_not_hang(text: str) -> None:
    assert compile_expression(text).holds(VALUES) is False


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the expression is empty"),
        ("a.b", "is not a comparison"),
        ("a.b + 1", "is not a comparison"),
        ("a.b = 3", "Write == to compare"),
        ("a.b >", "ends too early"),
        ("(a.b > 1", "')' expected, found the end"),
        ("a.b > 1)", "')' is not expected there"),
        ("a.b > 1 c", "'c' is not expected there"),
        ("2 > 1", "names no key"),
        ("foo(a.b) > 1", "no function 'foo'"),
        ("sqr(a.b) > 1", "did you mean 'sqrt'?"),
        ("sqrt(a.b, c) > 1", "sqrt takes 1 arguments"),
        ("min(a.b) > 1", "min takes 2 or more arguments"),
        ("__import__('os').system('ls') > a.b", "no function '__import__'"),
        ("a.b.__class__[0] > 1", "cannot read '[0]"),
        ("lambda: a.b > 1", "cannot read ': a.b"),
        ("3x > a.b", "'3x' is not expected there"),
        ("a.b > 1; c > 1", "cannot read ';"),
        ("(" * 100 + "a.b" + ")" * 100 + " > 1", "nests at most"),
        ("-" * 300 + "a.b > 1", "nests at most"),
        ("not " * 60 + "a.b > 1", "nests at most"),
        ("a.b > " + "1" * 600, "at most 500 characters"),
    ],
)
def test_a_wrong_expression_says_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_expression(text)
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["loss.name > 1", "a.b + on > 1", "(a.b > 1) + 1 > 2", "a.b > 1 and c"])
def test_values_that_are_no_numbers_are_not_computed_with(text: str) -> None:
    with pytest.raises(ExpressionError):
        compile_expression(text).holds(VALUES)


def test_the_names_are_reported_once_and_in_order() -> None:
    assert compile_expression("b.c > a and a < 2 * b.c").names == ("b.c", "a")


numbers = st.integers(0, 50).map(str) | st.sampled_from(["x", "y", "0.5", "2.25"])
terms = st.recursive(
    numbers,
    lambda inner: (
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/"]), inner).map(
            lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"
        )
        | inner.map(lambda term: f"-{term}")
    ),
    max_leaves=8,
)


@given(
    terms, terms, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), st.integers(-5, 5), st.floats(-3, 3)
)
def test_it_agrees_with_python_on_random_formulas(left: str, right: str, sign: str, x: int, y: float) -> None:
    text = f"{left} {sign} {right} or x != x"
    values = {"x": x, "y": y}
    try:
        expected = bool(eval(text, {"__builtins__": {}}, dict(values)))
    except (ZeroDivisionError, OverflowError):
        expected = False
    if len(text) <= 500:
        assert compile_expression(text).holds(values) is expected


@given(st.text(alphabet="ab.<>=!()+-*/ 12'andornot,", max_size=40))
def test_any_text_compiles_or_is_an_expression_error(text: str) -> None:
    with contextlib.suppress(ExpressionError, KeyError):
        compile_expression(text).holds({"a": 1, "b": 2.0, "a.b": math.pi})
