"""What `dmltune.simulate` is given: its options, and what the user's function returns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

from dmltune.errors import UserError
from dmltune.search.budget import SHARE

_OPTIONS = {
    "require": (),
    "reference_point": None,
    "balanced": None,
    "noise_seeds": 1,
    "repeat_share": SHARE,
    "stop_at_noise": False,
    "against": None,
    "fidelity": None,
}


def validated(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return all options of a simulation with these arguments; a UserError for one that breaks its rule."""
    options: dict[str, Any] = arguments["options"]
    for name in options:
        if name not in _OPTIONS:
            raise UserError(f"simulate has no option '{name}'. Options are {', '.join(_OPTIONS)}.")
    given = {**_OPTIONS, **arguments, **options}
    for name in ("workers", "max_steps", "validate_every", "trials", "noise_seeds"):
        if given[name] is not None or name != "trials":
            _require(_is_whole(given[name]) and given[name] >= 1, name, "a whole number from 1 on", given)
    _require(_is_whole(given["seed"]) and given["seed"] >= 0, "seed", "a whole number from 0 on", given)
    _require(_is_number(given["repeat_share"]) and 0 <= given["repeat_share"] < 1,
             "repeat_share", "at least 0 and below 1", given)  # fmt: skip
    if given["seconds"] is not None:
        finite = _is_number(given["seconds"]) and 0 < given["seconds"] < math.inf
        _require(finite, "seconds", "a finite number above 0", given)
    if given["trials"] is None and given["seconds"] is None:
        raise UserError("simulate needs an end: give `trials` or `seconds`.")
    against = options.get("against")
    if against is not None and not isinstance(against, Mapping):
        first = repr(next(iter(against), None))
        raise UserError(f"simulate: against must name a function for each cost; got {first}")
    if arguments["mode"] not in ("max", "min"):
        raise UserError(f"simulate: mode must be max or min; got {arguments['mode']}")
    return {**_OPTIONS, **options}


def checked_curve(curve: Any) -> tuple[Sequence[float], float]:
    """Return what the user's function gave: the scores, and the seconds per step."""
    try:
        scores, seconds_per_step = curve
        count = len(scores)
    except (TypeError, ValueError):
        raise UserError(
            f"the curve must be a pair: the scores, and seconds per step; got {curve!r:.80}"
        ) from None
    if not _is_number(seconds_per_step) or not 0 < seconds_per_step < math.inf:
        raise UserError(f"the curve's seconds per step must be above 0; got {seconds_per_step}")
    if not count:
        raise UserError("the curve has no score: give one for every step.")
    return scores, float(seconds_per_step)


def _require(condition: bool, name: str, rule: str, given: Mapping[str, Any]) -> None:
    if not condition:
        raise UserError(f"simulate: {name} must be {rule}; got {given[name]!r}")


def _is_number(value: Any) -> bool:
    return _is_whole(value) or (isinstance(value, Real) and not math.isnan(value))


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and value is not True and value is not False
