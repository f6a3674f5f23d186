"""HTML from function calls: what is not markup already is escaped, so no name can break a page."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

Children = str | None | Iterable[str | None]
EMPTY = {"br", "meta", "hr"}


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def element(name: str, /, *children: Children, **attributes: str | None) -> Markup:
    """`element("p", "a < b", class_="note")` → `<p class="note">a &lt; b</p>`; None is left out."""
    said = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in EMPTY:
        return Markup(f"<{name}{said}>")
    return Markup(f"<{name}{said}>{joined(*children)}</{name}>")


def joined(*children: Children) -> Markup:
    """Strings, and iterables of them, one after the other; nothing for None."""
    parts: list[str] = []
    for child in children:
        if child is None:
            continue
        if isinstance(child, str):
            parts.append(child if isinstance(child, Markup) else escape(child))
        else:
            parts.append(joined(*child))
    return Markup("".join(parts))


def table(
    headings: Iterable[str], rows: Iterable[Iterable[str]], numbers: Iterable[int] = (), class_: str = "cards"
) -> Markup:
    """The columns in `numbers` stand to the right, the first one names its row.

    On a phone a table of `cards` becomes a list of them, and a `narrow` one stays a table.
    """
    titles, right = list(headings), set(numbers)

    def cells(row: Iterable[str]) -> list[Markup]:
        return [
            element(
                "td" if at else "th",
                cell,
                class_="number" if at in right else None,
                scope=None if at else "row",
                data_label=titles[at] if at else None,
            )
            for at, cell in enumerate(row)
        ]

    head = [
        element("th", title, scope="col", class_="number" if at in right else None)
        for at, title in enumerate(titles)
    ]
    body = [element("tr", *cells(row)) for row in rows]
    return element("table", element("thead", element("tr", *head)), element("tbody", *body), class_=class_)


def picture(svg: Markup, caption: str) -> Markup | None:
    return element("figure", svg, element("figcaption", caption)) if svg else None
