"""Load experiments and list spaces: files and overrides in layers, and the origin of every value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path as File
from typing import Any

from dmltune.errors import UserError, printable
from dmltune.experiment import choosing
from dmltune.experiment import tree as trees
from dmltune.experiment.files import places
from dmltune.experiment.files.document import Document, read_value, unreadable
from dmltune.experiment.model import Experiment, build
from dmltune.experiment.problems import Path, Problem, kind_of, one_line
from dmltune.experiment.space.expression import ExpressionError, compile_expression
from dmltune.experiment.space.parameter import Parameter, parse_ranges
from dmltune.experiment.validation import lay_reference_point, validate_space

OVERRIDE_RANK = 1000  # above every file
LONGEST_OVERRIDE = 10_000


@dataclass(frozen=True)
class SpaceInfo:
    """One named space and what varies in it; `error` says what is wrong with its file."""

    name: str
    about: str
    path: File
    parameters: tuple[Parameter, ...] = ()
    error: str = ""

    @property
    def searchable(self) -> bool:
        return bool(self.parameters)


@dataclass
class Layers:
    """The merged tree; `origins` has the rank and place of every key, later layers have higher ranks."""

    tree: dict[str, Any] = field(default_factory=dict)
    origins: dict[Path, tuple[int, str]] = field(default_factory=dict)

    def lay(self, over: Mapping[str, Any], rank: int, place: Callable[[list[Path]], str]) -> None:
        """Lay one file or override over the tree; a renamed component loses its keys of `search`."""
        sections = {key: trees.normalised((key,), over[key]) for key in trees.SECTIONS if key in over}
        for section in trees.COMPONENTS:
            old, new = self.tree.get(section), sections.get(section)
            if isinstance(old, dict) and isinstance(new, dict) and trees.renamed((section,), old, new):
                self._forget(section)
        self._drop(trees.flatten(sections).__contains__)  # a key with a value no longer varies
        search = over.get("search")
        if isinstance(search, Mapping):
            self._narrow(search)
            self._drop({key for key, specification in search.items() if specification is None}.__contains__)

        def note(path: Path, whole: bool) -> None:
            emptied = whole and path != ("optimizer",)  # another optimizer keeps what all of them share
            for known in [known for known in self.origins if known[: len(path)] == path] if emptied else ():
                del self.origins[known]
            self.origins[path] = rank, place([path])

        trees.lay_over(self.tree, over, note=note)

    def where(self, paths: Iterable[Path]) -> str:
        """Return the place of the path that was written last, or nothing."""
        origins: list[tuple[int, str]] = []
        for path in paths:
            while path and path not in self.origins:
                path = path[:-1]
            origins += [self.origins[path]] if path else []
        return max(origins, key=lambda origin: origin[0])[1] if origins else ""

    def nearer(self, key: Path, preset: Path) -> bool:
        """Return whether a layer above that of the preset sets the key."""
        return key in self.origins and self.origins[key][0] > self.origins[preset][0]

    def _drop(self, dropped: Callable[[str], bool]) -> None:
        for flat in trees.FLAT:
            if isinstance(self.tree.get(flat), dict):
                self.tree[flat] = {key: value for key, value in self.tree[flat].items() if not dropped(key)}
        if isinstance(balanced := self.tree.get("balanced"), str) and dropped(balanced):
            del self.tree["balanced"]

    def _narrow(self, search: Mapping[str, Any]) -> None:
        """Drop the conditions, and ranges without one left, for choices that the layer takes away."""
        if not isinstance(self.tree.get("search"), dict):
            return
        for key, specification in search.items():
            known: dict[str, Any] = self.tree["search"]
            left = trees.choices(specification)
            removed = [choice for choice in trees.choices(known.get(key)) if left and choice not in left]
            for name in known.keys() - search.keys() if removed else ():
                known[name] = trees.without_choices(known[name], key, removed)
            self.tree["search"] = {name: each for name, each in known.items() if each is not None}

    def _forget(self, section: str) -> None:
        """Drop the keys of `search`, the reference point and the rules of a component that is replaced."""
        self._drop(lambda key: key.startswith(f"{section}."))
        require = self.tree.get("require")
        if isinstance(require, list):
            self.tree["require"] = [text for text in require if not _mentions(text, section)]


def layers_of(documents: Iterable[tuple[str, Document]]) -> Layers:
    """Lay the documents of a space over one another, the last base first."""
    layers = Layers()
    for rank, (shown, document) in enumerate(documents):
        layers.lay(document.tree, rank, partial(document.place, shown))
    return layers


def load_experiment(name_or_path: str | File, overrides: Iterable[str] = ()) -> Experiment:
    """Load a named space or YAML file with `key=value` overrides; every mistake is one UserError line."""
    file = places.find_file(name_or_path, places.SPACES, "search space")
    layers = layers_of(places.chain(file))
    if isinstance(overrides, str):
        overrides = [overrides]
    for rank, text in enumerate(overrides, start=OVERRIDE_RANK):
        _lay_override(layers, rank, text)
    try:
        choosing.lay_presets(layers.tree, layers.nearer)
        tree, values = lay_reference_point(layers.tree)
        for key in values:
            layers.origins[tuple(key.split("."))] = layers.origins[("reference_point", key)]
        experiment = build(tree)
        validate_space(experiment)
    except Problem as problem:
        raise UserError(f"{layers.where(problem.paths) or places.shown(file)}: {problem}") from None
    return experiment


def shown_override(text: str) -> str:
    """Return an override as messages show it."""
    return f"override '{one_line(text, 100)}'"


def parse_override(text: str) -> tuple[str, Any]:
    """Return the dotted key and the value; every mistake is one UserError line."""
    key, equals, raw = text.partition("=")
    key = key.strip()
    reason: str | None = None
    value: Any = None
    if len(text) > LONGEST_OVERRIDE:
        reason = f"an override has at most {LONGEST_OVERRIDE:,} characters; got {len(text):,}."
    elif not equals or not key:
        reason = "an override is key=value, such as max_steps=300."
    elif any(not part or part != part.strip() for part in trees.split(key)):
        reason = "a key is names with dots between them, such as loss.name."
    else:
        try:
            value, reason = read_value(raw), unreadable(key)
        except ValueError as error:
            reason = str(error)
    if reason:
        raise UserError(f"{shown_override(text)}: {reason}")
    return key, value


def parse_overrides(texts: Iterable[str]) -> dict[str, Any]:
    """Return dotted key → value, for an experiment that exists already."""
    return dict(map(parse_override, texts))


def _lay_override(layers: Layers, rank: int, text: str) -> None:
    key, value = parse_override(text)
    path, place = trees.split(key), shown_override(text)
    if path[0] == "extends":
        raise UserError(f"{place}: extends belongs in a file. Name another space instead.")
    if path[0] == "search" and len(path) == 3:  # one setting of a key of `search`: the others stay
        specification = trees.lookup(layers.tree, key.rpartition(".")[0])
        value = {**(specification if isinstance(specification, dict) else {}), path[2]: value}
        path = path[:2]
    layers.lay(trees.nested(path, value), rank, lambda paths: place)


def _mentions(text: Any, section: str) -> bool:
    try:
        return any(name.startswith(f"{section}.") for name in compile_expression(str(text)).names)
    except ExpressionError:
        return False


def spaces() -> list[SpaceInfo]:
    """List every named space from its YAML alone; a broken file is listed with its error."""
    return [_info(name, file) for name, file in sorted(places.named_files(places.SPACES).items())]


def _info(name: str, file: File) -> SpaceInfo:
    layers = Layers()
    try:
        documents = places.chain(file)
        layers = layers_of(documents)
        search = layers.tree.get("search") or {}
        if not isinstance(search, Mapping):
            rule = "search must be a mapping of 'key: value' lines"
            raise Problem(f"{rule}; got {kind_of(search)}.", ("search",))
        parameters = tuple(each for key, spec in search.items() for each in parse_ranges(key, spec))
    except UserError as error:
        return SpaceInfo(printable(name), "", file, error=str(error))
    except Problem as problem:
        return SpaceInfo(printable(name), "", file, error=f"{layers.where(problem.paths)}: {problem}")
    own_about = documents[-1][1].tree.get("about")
    return SpaceInfo(printable(name), one_line(str(own_about or "")), file, parameters)
