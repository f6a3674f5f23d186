"""What `when` means for a set of searched keys, and how it is said that trial 0 lacks a value."""

from __future__ import annotations

from typing import Any

from dmltune.experiment.problems import Problem, show
from dmltune.experiment.space.parameter import Parameter


def own_value(parameter: Parameter, value: Any) -> Any:
    """The experiment's own value, which the reference point takes over when it gives none."""
    try:
        return parameter.accept(value, "")
    except Problem:
        raise Problem(
            f"search.{parameter.name}: trial 0 would take the experiment's own {show(value)}, "
            f"which the bounds leave out. Widen them, or add {parameter.name} to reference_point.",
            ("search", parameter.name),
            tuple(parameter.name.split(".")),
        ) from None


def lacking(parameter: Parameter) -> Problem:
    """Trial 0 has no value for a searched key."""
    example = parameter.choices[0] if parameter.kind == "choice" else parameter.low
    return Problem(
        f"reference_point lacks {parameter.name}: trial 0 needs a value for every searched key. "
        f"Add '{parameter.name}: {show(example)}'.",
        ("reference_point",),
        ("search", parameter.name),
    )


def conditions(parameter: Parameter) -> str:
    """`loss.name: triplet`, for messages."""
    return ", ".join(
        f"{key}: {' or '.join(str(value) for value in values)}" for key, values in parameter.when.items()
    )


def ordered(parameters: list[Parameter]) -> tuple[Parameter, ...]:
    """Parents before children, otherwise as written; a Problem for an impossible condition or a circle."""
    by_name = {parameter.name: parameter for parameter in parameters}
    for parameter in parameters:
        for key, wanted in parameter.when.items():
            path = ("search", parameter.name, "when", key)
            for value in wanted if key in by_name else ():
                by_name[key].accept(value, f"search.{parameter.name}.when:", path, path[:2])
    done: list[Parameter] = []
    names: set[str] = set()
    while len(done) < len(parameters):
        ready = [
            parameter
            for parameter in parameters
            if parameter.name not in names
            and all(key in names or key not in by_name for key in parameter.when)
        ]
        if not ready:
            rest = [parameter.name for parameter in parameters if parameter.name not in names]
            raise Problem(
                f"search: the conditions of {' and '.join(rest)} wait for each other. Delete one 'when'.",
                ("search", rest[0], "when"),
                ("search", rest[0]),
            )
        done.append(ready[0])
        names.add(ready[0].name)
    return tuple(done)
