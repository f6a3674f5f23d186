"""A small language for `require`: `references.pool_size >= references.proxies`, `loss.p <= log2(1 + loss.b)`.

It is Python's syntax with `and or not`, chained comparisons, `+ - * / **`, numbers, quoted text, true, false,
dotted names and FUNCTIONS. Dotted names, which may contain Python's keywords (`references.lambda`), become
identifiers; then `ast` parses the text. Python never compiles or evaluates the tree: a list of allowed nodes
is walked here, so that nothing but arithmetic can happen.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dmltune.experiment.problems import near_or_list

Values = Mapping[str, Any]
MAX_LENGTH = 500
MAX_DEPTH = 40
_PART = re.compile(
    r"(?P<text>'[^'\\]*'|\"[^\"\\]*\")|(?P<name>(?<![\w.])[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)"
    r"|(?P<refused>[^\w\s.<>=!+*/(),-])"
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

    def __str__(self) -> str:
        return self.text

    def holds(self, values: Values) -> bool:
        """Whether the values satisfy it; arithmetic without a result (1/0, log of 0) does not."""
        try:
            result = _evaluate(self._tree, [values[name] for name in self.names])
        except (ZeroDivisionError, OverflowError, ValueError):
            return False
        except TypeError:
            reason = "compares or computes with values that are no numbers"
            raise ExpressionError(f"'{self.text}' {reason}") from None
        if not isinstance(result, bool):
            raise ExpressionError(f"'{self.text}' is not a comparison. Write one such as 'a.b >= 2'.")
        return result


def compile_expression(text: str) -> Expression:
    """Parse `text`; an ExpressionError says what is wrong and near which token."""
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"an expression has at most {MAX_LENGTH} characters; this one has {len(text)}")
    if not text.strip():
        raise ExpressionError("the expression is empty")
    if text.count("(") > MAX_DEPTH:
        raise ExpressionError(f"an expression nests at most {MAX_DEPTH} levels deep")
    names: dict[str, int] = {}
    source = _PART.sub(lambda part: _python(part, names), text).strip()
    try:
        tree = ast.parse(source, mode="eval").body
    except SyntaxError as error:
        raise _misplaced(error, source, text, list(names)) from None
    _validate(tree, text)
    if not any(isinstance(node, ast.Compare) for node in ast.walk(tree)):
        raise ExpressionError(f"'{text}' is not a comparison. Write one such as 'a.b >= 2'.")
    if not names:
        reason = "names no key of the experiment, so it is always true or always false"
        raise ExpressionError(f"'{text}' {reason}")
    return Expression(text, tuple(names), tree)


def _python(part: re.Match[str], names: dict[str, int]) -> str:
    """Python for a text or name: the key with index 0 in `names` becomes `_0`."""
    word, text = part.group(), part.string
    if part["refused"]:
        raise ExpressionError(f"cannot read '{text[part.start() :][:20]}' in '{text}'")
    if part["text"] or word in ("and", "or", "not"):
        return word
    if word in ("true", "false"):
        return word.capitalize()
    if text[part.end() :].lstrip().startswith("("):
        if word not in FUNCTIONS:
            raise ExpressionError(f"no function '{word}'{near_or_list(word, FUNCTIONS, 'there are')}")
        return word
    return f"_{names.setdefault(word, len(names))}"


def _misplaced(error: SyntaxError, source: str, text: str, names: list[str]) -> ExpressionError:
    if "never closed" in error.msg:
        return ExpressionError(f"')' expected, found the end in '{text}'")
    if not error.offset:
        return ExpressionError(f"'{text}' ends too early")
    token = re.match(r"\w+|\W", source[error.offset - 1 :])
    word = token.group() if token else ""
    word = names[int(word[1:])] if word.startswith("_") else word
    hint = ". Write == to compare." if word == "=" else ""
    return ExpressionError(f"'{word}' is not expected there in '{text}'{hint}")


def _validate(node: ast.AST, text: str, depth: int = 0) -> None:
    """Refuse every node that `_evaluate` does not handle."""
    if depth > MAX_DEPTH:
        raise ExpressionError(f"an expression nests at most {MAX_DEPTH} levels deep")
    deeper = isinstance(node, ast.Call | ast.UnaryOp) or isinstance(getattr(node, "op", None), ast.Pow)
    match node:
        case ast.Call(func=ast.Name(id=name), keywords=[]) if name in FUNCTIONS:
            _, least, most = FUNCTIONS[name]
            if not least <= len(node.args) <= most:
                count = least if least == most else f"{least} or more"
                raise ExpressionError(f"{name} takes {count} arguments")
            parts = node.args
        case ast.BoolOp():
            parts = node.values
        case ast.Compare() if all(type(sign) in _OPERATORS for sign in node.ops):
            parts = [node.left, *node.comparators]
        case ast.BinOp() if type(node.op) in _OPERATORS:
            parts = [node.left, node.right]
        case ast.UnaryOp():
            parts = [node.operand]
        case ast.Name() | ast.Constant(value=bool() | int() | float() | str()):
            return
        case _:
            raise ExpressionError(f"'{text}' is not made of comparisons such as 'a.b >= 2' and 'c + 1 < d'")
    for part in parts:
        _validate(part, text, depth + deeper)


def _evaluate(node: ast.AST, values: Sequence[Any]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return values[int(name[1:])]
        case ast.BoolOp():
            results = (_truth(_evaluate(part, values)) for part in node.values)
            return all(results) if isinstance(node.op, ast.And) else any(results)
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
