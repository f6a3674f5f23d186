"""A key of an experiment in the terminal: what it means, who sets it, what searches have found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.text import Text

from dmltune.report import formatting
from dmltune.report.terminal import grid, line, lines

if TYPE_CHECKING:
    from dmltune.experiment.explaining import Explanation, Usage
    from dmltune.search.known_values import KnownValue

MOST_SPACES, MOST_VALUES = 3, 6
MOST_SEARCHING = 8
LABEL = 10  # columns of the names on the left


def explanation_view(
    key: str,
    found: Sequence[Explanation],
    usages: Sequence[Usage],
    values: Sequence[KnownValue],
    store: str,
) -> list[RenderableType]:
    """Return the whole text of one key."""
    parts: list[RenderableType] = [line(key, "bold")]
    for each in found:
        parts += ["", *_meaning(each, several=len(found) > 1)]
    if usages:
        parts += ["", *_spaces(usages)]
    parts += ["", *_searches(values, store)] if any(usage.ranges for usage in usages) or values else []
    return parts


def _meaning(found: Explanation, several: bool) -> list[Text]:
    head = [line(f"of {found.key.partition('.')[0]}: {found.component}", "bold")] if found.component else []
    rows = [("equation", found.equation), ("range", found.range), ("default", found.default)]
    rows += [("papers", found.papers)]
    body = lines(found.meaning, "", "  ", "  ")
    return [*head, *body, *(part for name, text in rows if text for part in _row(name, text))]


def _row(name: str, text: str) -> list[Text]:
    parts = lines(text, "", f"  {name:<{LABEL}}", " " * (LABEL + 2))
    parts[0].stylize("dim", 0, LABEL + 2)
    return parts


def _spaces(usages: Sequence[Usage]) -> list[RenderableType]:
    """Return the spaces that search the key, and the values that the others set."""
    parts: list[RenderableType] = []
    searching = [usage for usage in usages if usage.ranges]
    if searching:
        table = grid()
        for name in ("searched by", "range", "reference point"):
            table.add_column(name, overflow="fold")
        for usage in searching[:MOST_SEARCHING]:
            ranges = "; ".join(range_text(each.to_dict()) for each in usage.ranges)
            table.add_row(
                line(usage.space), line(ranges), line("–" if usage.value is None else _shown(usage.value))
            )
        parts.append(table)
        if hidden := len(searching) - MOST_SEARCHING:
            parts += [line(f"… and {hidden} more", "dim")] if hidden > 0 else []
    if fixed := [usage for usage in usages if not usage.ranges]:
        parts += [*([""] if searching else []), *_row("set to", "; ".join(_by_value(fixed)))]
    return parts


def _by_value(usages: Iterable[Usage]) -> list[str]:
    """`0.3841 (cub, cub-ccp, …)`: the values with the spaces that have them, the most frequent first."""
    usages = list(usages)
    several = len({usage.component for usage in usages if usage.component}) > 1
    groups: dict[str, dict[str, None]] = {}
    for usage in usages:
        shown = _shown(usage.value) + (f" for {usage.component}" if usage.component and several else "")
        groups.setdefault(shown, {})[usage.space] = None
    texts = []
    for shown, names in sorted(groups.items(), key=lambda item: -len(item[1]))[:MOST_VALUES]:
        spaces = list(names)
        more = f", and {len(spaces) - MOST_SPACES} more" if len(spaces) > MOST_SPACES else ""
        texts.append(f"{shown} ({', '.join(spaces[:MOST_SPACES])}{more})")
    return [*texts, *([f"and {hidden} other values"] if (hidden := len(groups) - MOST_VALUES) > 0 else [])]


def range_text(specification: Mapping[str, Any]) -> str:
    """`{float: [1e-5, 0.1], log: true}` → `1e-5 … 0.1, logarithmic`."""
    kind = next(iter(specification))
    values = [_shown(value) for value in specification[kind]]
    text = " or ".join(values) if kind == "choice" else " … ".join(values)
    text += ", logarithmic" if specification.get("log") else ""
    when = specification.get("when", {})
    conditions = [f"{key} is {_shown(value)}" for key, value in when.items()]
    return text + (f", when {', '.join(conditions)}" if conditions else "")


def _searches(values: Sequence[KnownValue], store: str) -> list[RenderableType]:
    if not values:
        return [*lines(f"No search of this store ({store}) has varied it.", "dim")]
    table = grid()
    table.add_column("search here", overflow="fold")
    table.add_column("importance", no_wrap=True)
    table.add_column("winner's", overflow="fold")
    table.add_column("winner set's", overflow="fold")
    table.add_column("score %", justify="right", no_wrap=True)
    for found in values:
        table.add_row(
            line(found.search),
            _importance(found),
            line(_shown(found.good[0]) if found.good else "–"),
            line(_spread(found.good[1:])),
            formatting.percent(found.best),
        )
    remarks = [part for found in values if found.idle for part in lines(_idle(found), "yellow", rest="  ")]
    return [table, *remarks]


def _importance(found: KnownValue) -> Text:
    if (row := found.importance) is None:
        return Text(f"too few trials ({found.trials})", style="dim")
    return Text(f"{100 * row.share:.0f} % [{100 * row.low:.0f}, {100 * row.high:.0f}]")


def _spread(values: Sequence[Any]) -> str:
    """Return the range of numbers, or the different choices."""
    if not values:
        return "–"
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        low, high = min(values), max(values)
        return _shown(low) if low == high else f"{_shown(low)} … {_shown(high)}"
    return ", ".join(dict.fromkeys(map(_shown, values)))


def _idle(found: KnownValue) -> str:
    assert found.idle is not None
    without = found.idle.trials - found.idle.acted
    return f"{found.search}: no effect in {without} of {found.idle.trials} trials: {found.idle.why}"


def _shown(value: Any) -> str:
    if isinstance(value, list | tuple):
        return " or ".join(map(_shown, value))
    return "null" if value is None else formatting.value(value, 6)


def keys_view(sections: Mapping[str, Sequence[tuple[str, str]]]) -> list[RenderableType]:
    """Return all keys of each section with the first sentence of their meaning."""
    parts: list[RenderableType] = []
    for section, keys in sections.items():
        parts.append(Text(section, style="bold"))
        for key, meaning in keys:
            parts += lines(f"{key}: {meaning}", "", "  ", "    ")
    return parts
