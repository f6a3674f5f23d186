"""A small language for `require`: `references.pool_size >= references.proxies`, `loss.p <= log2(1 + loss.b)`.

It is Python's syntax with `and or not`, chained comparisons, `+ - * / **`, numbers, quoted text, true, false,
dotted names and FUNCTIONS. Every name and literal becomes an identifier (a dotted name may contain a keyword
of Python, as in `references.lambda`), then `ast` parses the text. The tree is never compiled or evaluated by
Python: a list of allowed nodes is walked here, so that nothing but arithmetic can happen.
"""

from __future__ import annotations

import ast
import bisect
import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dmltune.experiment.problems import near_or_list

Values = Mapping[str, Any]
MAX_LENGTH = 500
MAX_DEPTH = 40
_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)(?![\w.])"
    r"|(?P<name>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)"
    r"|(?P<text>'[^']*'|\"[^\"]*\")"
    r"|(?P<sign>\*\*|<=|>=|==|!=|[-+*/()<>,]))"
)
FUNCTIONS: dict[str, tuple[Callable[..., Any], int, int]] = {
    "abs": (abs, 1, 1),
    "sqrt": (math.sqrt, 1, 1),
    "log": (math.log, 1, 1),
    "log2": (math.log2, 1, 1),
    "log10": (math.log10, 1, 1),
    "exp": (math.exp, 1, 1),
    "min": (min, 2, 8),
    "max": (max, 2, 8),
}
_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: math.pow,  # in floats: 9**9**9 overflows instead of computing 370 million digits
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


class ExpressionError(Exception):
    """The text is no expression, or the values do not fit it."""


@dataclass(frozen=True)
class Expression:
    """A parsed requirement: `names` are the dotted keys it reads."""

    text: str
    names: tuple[str, ...]
    _tree: ast.expr = field(repr=False, compare=False)
    _literals: Mapping[str, Any] = field(repr=False, compare=False)

    def __str__(self) -> str:
        return self.text

    def holds(self, values: Values) -> bool:
        """Whether the values satisfy it; arithmetic without a result (1/0, log of 0) does not."""
        named = {f"n{index}": values[name] for index, name in enumerate(self.names) if name in values}
        try:
            result = _evaluate(self._tree, {**self._literals, **named})
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
    """Parse `text`; an ExpressionError says what is wrong and near which token."""
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"an expression has at most {MAX_LENGTH} characters; this one has {len(text)}")
    tokens = _tokens(text)
    names = list(dict.fromkeys(word for kind, word in tokens if kind == "key"))
    literals: dict[str, Any] = {}
    starts: list[int] = []
    source = ""
    for kind, word in tokens:
        starts.append(len(source))
        if kind == "key":
            source += f"n{names.index(word)} "
        elif kind in ("number", "text", "literal"):
            identifier = f"c{len(literals)}"
            literals[identifier] = _literal(kind, word)
            source += f"{identifier} "
        else:
            source += f"{word} "
    try:
        tree = ast.parse(source, mode="eval").body
    except SyntaxError as error:
        if not error.offset:
            raise ExpressionError(f"'{text}' ends too early") from None
        word = tokens[bisect.bisect(starts, error.offset - 1) - 1][1]
        raise ExpressionError(f"'{word}' is not expected there in '{text}'") from None
    _validate(tree, text)
    if not any(isinstance(node, ast.Compare) for node in ast.walk(tree)):
        raise ExpressionError(f"'{text}' is not a comparison. Write one such as 'a.b >= 2'.")
    if not names:
        raise ExpressionError(
            f"'{text}' names no key of the experiment, so it is always true or always false"
        )
    return Expression(text, tuple(names), tree, literals)


def _tokens(text: str) -> list[tuple[str, str]]:
    """Split into (kind, word): key, function, operator, literal, number, text or sign."""
    if not text.strip():
        raise ExpressionError("the expression is empty")
    tokens: list[tuple[str, str]] = []
    at = depth = 0
    while rest := text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            hint = " Write == to compare." if rest.startswith("=") else ""
            raise ExpressionError(f"cannot read '{rest[:20]}' in '{text}'.{hint}")
        at, kind = match.end(), str(match.lastgroup)
        word = match.group(kind)
        if kind == "name":
            if word in ("and", "or", "not"):
                kind = "operator"
            elif word in ("true", "false"):
                kind = "literal"
            elif text[at:].lstrip().startswith("("):
                kind = "function"
                if word not in FUNCTIONS:
                    near = near_or_list(word, FUNCTIONS, "there are")
                    raise ExpressionError(f"no function '{word}'{near}")
            else:
                kind = "key"
        depth += (word == "(") - (word == ")")
        if depth < 0:
            raise ExpressionError(f"')' is not expected there in '{text}'")
        if depth > MAX_DEPTH:
            raise ExpressionError(f"an expression nests at most {MAX_DEPTH} levels deep")
        tokens.append((kind, word))
    if depth:
        raise ExpressionError(f"')' expected, found the end in '{text}'")
    return tokens


def _literal(kind: str, word: str) -> Any:
    if kind == "number":
        return float(word) if re.search(r"[.eE]", word) else int(word)
    return word[1:-1] if kind == "text" else word == "true"


def _validate(node: ast.AST, text: str, depth: int = 0) -> None:
    """Refuse every node that `_evaluate` does not handle."""
    if depth > MAX_DEPTH:
        raise ExpressionError(f"an expression nests at most {MAX_DEPTH} levels deep")
    match node:
        case ast.Call(func=ast.Name(id=name), keywords=[]) if name in FUNCTIONS:
            _, least, most = FUNCTIONS[name]
            if not least <= len(node.args) <= most:
                count = least if least == most else f"{least} or more"
                raise ExpressionError(f"{name} takes {count} arguments")
            inner, deeper = node.args, 1
        case ast.BoolOp():
            inner, deeper = node.values, 0
        case ast.Compare():
            inner, deeper = [node.left, *node.comparators], 0
        case ast.BinOp():
            inner, deeper = [node.left, node.right], isinstance(node.op, ast.Pow)
        case ast.UnaryOp():
            inner, deeper = [node.operand], 1
        case ast.Name():
            return
        case _:
            sign = {ast.Call: "(", ast.Tuple: ",", ast.Starred: "*"}.get(type(node), "**")
            raise ExpressionError(f"'{sign}' is not expected there in '{text}'")
    for part in inner:
        _validate(part, text, depth + deeper)


def _evaluate(node: ast.AST, values: Values) -> Any:
    match node:
        case ast.Name(id=name):
            return values[name]
        case ast.BoolOp(op=ast.And()):
            return all(_truth(_evaluate(part, values)) for part in node.values)
        case ast.BoolOp():
            return any(_truth(_evaluate(part, values)) for part in node.values)
        case ast.UnaryOp(op=ast.Not()):
            return not _truth(_evaluate(node.operand, values))
        case ast.UnaryOp():
            return _OPERATORS[type(node.op)](_number(_evaluate(node.operand, values)))
        case ast.BinOp():
            left, right = (_number(_evaluate(part, values)) for part in (node.left, node.right))
            return _OPERATORS[type(node.op)](left, right)
        case ast.Compare():
            operands = [_evaluate(part, values) for part in (node.left, *node.comparators)]
            pairs = zip(node.ops, operands, operands[1:], strict=False)
            return all(bool(_OPERATORS[type(sign)](left, right)) for sign, left, right in pairs)
        case ast.Call(func=ast.Name(id=name)):
            return FUNCTIONS[name][0](*(_number(_evaluate(part, values)) for part in node.args))
    raise AssertionError(f"{ast.dump(node)} was not refused")


def _number(value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError
    return value


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value
