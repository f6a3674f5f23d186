"""A small language for `require`: `references.pool_size >= references.proxies`, `loss.p <= log2(1 + loss.b)`.

    or      = and ("or" and)*
    and     = not ("and" not)*
    not     = "not" not | compare
    compare = sum (("<" | "<=" | ">" | ">=" | "==" | "!=") sum)*      chained as in mathematics: a < b < c
    sum     = term (("+" | "-") term)*
    term    = factor (("*" | "/") factor)*
    factor  = ("-" | "+") factor | atom ("**" factor)?
    atom    = number | 'text' | true | false | name | function "(" or ("," or)* ")" | "(" or ")"

Parsed here and never handed to Python's eval: nothing but arithmetic can happen.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dmltune.experiment.problems import near_or_list

Values = Mapping[str, Any]
Node = Callable[[Values], Any]
MAX_LENGTH = 500
MAX_DEPTH = 40
_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)(?![\w.])"
    r"|(?P<name>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)"
    r"|(?P<text>'[^']*'|\"[^\"]*\")"
    r"|(?P<sign>\*\*|<=|>=|==|!=|[-+*/()<>,]))"
)
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_FUNCTIONS: dict[str, tuple[Callable[..., Any], int, int]] = {
    "abs": (abs, 1, 1),
    "sqrt": (math.sqrt, 1, 1),
    "log": (math.log, 1, 1),
    "log2": (math.log2, 1, 1),
    "log10": (math.log10, 1, 1),
    "exp": (math.exp, 1, 1),
    "min": (min, 2, 8),
    "max": (max, 2, 8),
}
_WORDS = ("and", "or", "not", "true", "false")


class ExpressionError(Exception):
    """The text is no expression, or the values do not fit it."""


@dataclass(frozen=True)
class Expression:
    """A compiled requirement: `names` are the dotted keys it reads."""

    text: str
    names: tuple[str, ...]
    _node: Node = field(repr=False, compare=False)

    def __str__(self) -> str:
        return self.text

    def __reduce__(self) -> tuple[Callable[[str], Expression], tuple[str]]:
        """Pickled as its text: the compiled functions cannot be."""
        return compile_expression, (self.text,)

    def holds(self, values: Values) -> bool:
        """Whether the values satisfy it; arithmetic that has no answer (1/0, log of 0) does not."""
        try:
            result = self._node(values)
        except (ZeroDivisionError, OverflowError, ValueError):
            return False
        except TypeError:
            raise ExpressionError(
                f"'{self.text}' compares or computes with values that are no numbers"
            ) from None
        if not isinstance(result, bool):
            raise ExpressionError(f"'{self.text}' is not a comparison. Write one such as 'a.b >= 2'.")
        return result


def compile_expression(text: str) -> Expression:
    """Parse `text`; ExpressionError says what is wrong and near which word."""
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"an expression has at most {MAX_LENGTH} characters; this one has {len(text)}")
    parser = _Parser(text)
    node = parser.level_or()
    if parser.word:
        raise ExpressionError(f"'{parser.word}' is not expected there in '{text}'")
    if not parser.compared:
        raise ExpressionError(f"'{text}' is not a comparison. Write one such as 'a.b >= 2'.")
    if not parser.names:
        raise ExpressionError(
            f"'{text}' names no key of the experiment, so it is always true or always false"
        )
    return Expression(text, tuple(dict.fromkeys(parser.names)), node)


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            rest = text[at:].strip()
            hint = " Write == to compare." if rest.startswith("=") else ""
            raise ExpressionError(f"cannot read '{rest[:20]}' in '{text}'.{hint}")
        yield str(match.lastgroup), match.group(str(match.lastgroup))
        at = match.end()


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.names: list[str] = []
        self.compared = False
        self._depth = 0
        self._tokens = _tokens(text)
        self.kind, self.word = next(self._tokens, ("", ""))

    def _advance(self) -> str:
        word = self.word
        self.kind, self.word = next(self._tokens, ("", ""))
        return word

    def _expect(self, sign: str) -> None:
        if self.word != sign:
            found = f"'{self.word}'" if self.word else "the end"
            raise ExpressionError(f"'{sign}' expected, found {found} in '{self.text}'")
        self._advance()

    def level_or(self) -> Node:
        parts = [self._and()]
        while self.word == "or":
            self._advance()
            parts.append(self._and())
        return parts[0] if len(parts) == 1 else lambda values: any(_truth(part(values)) for part in parts)

    def _and(self) -> Node:
        parts = [self._not()]
        while self.word == "and":
            self._advance()
            parts.append(self._not())
        return parts[0] if len(parts) == 1 else lambda values: all(_truth(part(values)) for part in parts)

    def _not(self) -> Node:
        if self.word != "not":
            return self._compare()
        self._advance()
        inner = self._nest(self._not)
        return lambda values: not _truth(inner(values))

    def _compare(self) -> Node:
        operands = [self._sum()]
        signs: list[Callable[[Any, Any], bool]] = []
        while self.kind == "sign" and self.word in _COMPARE:
            signs.append(_COMPARE[self._advance()])
            operands.append(self._sum())
        if not signs:
            return operands[0]
        self.compared = True

        def chain(values: Values) -> bool:
            results = [operand(values) for operand in operands]
            pairs = zip(signs, results, results[1:], strict=False)
            return all(bool(sign(left, right)) for sign, left, right in pairs)

        return chain

    def _sum(self) -> Node:
        return self._left({"+": operator.add, "-": operator.sub}, self._term)

    def _term(self) -> Node:
        return self._left({"*": operator.mul, "/": operator.truediv}, self._factor)

    def _left(self, signs: Mapping[str, Callable[[Any, Any], Any]], below: Callable[[], Node]) -> Node:
        node = below()
        while self.kind == "sign" and self.word in signs:
            node = _binary(signs[self._advance()], node, below())
        return node

    def _factor(self) -> Node:
        if self.kind == "sign" and self.word in ("-", "+"):
            negative = self._advance() == "-"
            inner = self._nest(self._factor)
            return (lambda values: -_number(inner(values))) if negative else inner
        base = self._atom()
        if self.word != "**":
            return base
        self._advance()
        return _binary(_power, base, self._nest(self._factor))

    def _atom(self) -> Node:
        kind, word = self.kind, self.word
        if not word:
            raise ExpressionError(
                f"'{self.text}' ends too early" if self.text.strip() else "the expression is empty"
            )
        self._advance()
        if kind == "number":
            return _constant(float(word) if re.search(r"[.eE]", word) else int(word))
        if kind == "text":
            return _constant(word[1:-1])
        if word == "(":
            inner = self._nest(self.level_or)
            self._expect(")")
            return inner
        if kind == "name" and word in ("true", "false"):
            return _constant(word == "true")
        if kind == "name" and self.word == "(":
            return self._call(word)
        if kind == "name" and word not in _WORDS:
            self.names.append(word)
            return lambda values: values[word]
        raise ExpressionError(f"'{word}' is not expected there in '{self.text}'")

    def _call(self, name: str) -> Node:
        if name not in _FUNCTIONS:
            raise ExpressionError(f"no function '{name}'{near_or_list(name, _FUNCTIONS, 'there are')}")
        self._expect("(")
        arguments = [self._nest(self.level_or)]
        while self.word == ",":
            self._advance()
            arguments.append(self._nest(self.level_or))
        self._expect(")")
        function, least, most = _FUNCTIONS[name]
        if not least <= len(arguments) <= most:
            raise ExpressionError(f"{name} takes {least if least == most else f'{least} or more'} arguments")
        return lambda values: function(*(_number(argument(values)) for argument in arguments))

    def _nest(self, level: Callable[[], Node]) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ExpressionError(f"an expression nests at most {MAX_DEPTH} levels deep")
        node = level()
        self._depth -= 1
        return node


def _constant(value: Any) -> Node:
    return lambda values: value


def _binary(compute: Callable[[Any, Any], Any], left: Node, right: Node) -> Node:
    return lambda values: compute(_number(left(values)), _number(right(values)))


def _number(value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError
    return value


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _power(base: int | float, exponent: int | float) -> float:
    # in floats, so that 9**9**9 overflows at once instead of computing a number of 370 million digits
    return math.pow(base, exponent)
