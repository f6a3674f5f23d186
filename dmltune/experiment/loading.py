"""load_experiment: files and overrides laid over one another, and for every value where it was written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path as File
from typing import Any

from dmltune.errors import UserError
from dmltune.experiment import tree as trees
from dmltune.experiment.files import places
from dmltune.experiment.files.document import read_value
from dmltune.experiment.problems import Path, Problem, one_line
from dmltune.experiment.schema.build import build
from dmltune.experiment.schema.model import Experiment
from dmltune.experiment.schema.sections import COMPONENTS
from dmltune.experiment.space.expression import ExpressionError, compile_expression
from dmltune.experiment.space.validation import lay_reference_point, validate_space


@dataclass(frozen=True, order=True)
class Origin:
    """Where a value was written; a later layer has the higher rank."""

    rank: int
    text: str


@dataclass
class Layers:
    """The merged tree, and the origin of every key in it."""

    tree: dict[str, Any] = field(default_factory=dict)
    origins: dict[Path, Origin] = field(default_factory=dict)

    def lay(self, over: Mapping[str, Any], origin: Callable[[Path], Origin]) -> None:
        """Lay one file or override over what is there; a renamed component takes its searched keys along."""
        for section in self._renamed(over):
            self._forget(section)
        self._fix(over)
        search = over.get("search")
        for key in (
            [key for key, spec in search.items() if spec is None] if isinstance(search, Mapping) else []
        ):
            self._drop(lambda known, key=key: known == key)  # type: ignore[misc]

        def note(path: Path, whole: bool) -> None:
            if whole:
                for known in [known for known in self.origins if known[: len(path)] == path]:
                    del self.origins[known]
            self.origins[path] = origin(path)

        trees.lay_over(self.tree, over, note=note)

    def where(self, paths: Iterable[Path]) -> str:
        """The place to blame: of the paths that take part, the one written last."""
        found: list[Origin] = []
        for path in paths:
            while path and path not in self.origins:
                path = path[:-1]
            if path:
                found.append(self.origins[path])
        return max(found, key=lambda origin: origin.rank).text if found else ""

    def _fix(self, over: Mapping[str, Any]) -> None:
        """A key that an earlier layer searches, and this one gives a value, is no longer searched."""
        sections = {key: trees.normalised((key,), over[key]) for key in trees.SECTIONS if key in over}
        for leaf in trees.flatten(sections):
            self._drop(lambda key, leaf=leaf: key == leaf)  # type: ignore[misc]

    def _drop(self, dropped: Callable[[str], bool]) -> None:
        for flat in trees.FLAT:
            if isinstance(self.tree.get(flat), dict):
                self.tree[flat] = {key: value for key, value in self.tree[flat].items() if not dropped(key)}

    def _renamed(self, over: Mapping[str, Any]) -> list[str]:
        renamed = []
        for section in COMPONENTS:
            old, new = self.tree.get(section), trees.normalised((section,), over.get(section))
            if isinstance(old, dict) and isinstance(new, dict):
                renamed += [section] if trees.renamed((section,), old, new) else []
        return renamed

    def _forget(self, section: str) -> None:
        """Drop what earlier layers search, refer to and require of a component that is replaced."""
        self._drop(lambda key: key.startswith(f"{section}."))
        require = self.tree.get("require")
        if isinstance(require, list):
            self.tree["require"] = [text for text in require if not _mentions(text, section)]


def load_experiment(name_or_path: str | File, overrides: Iterable[str] = ()) -> Experiment:
    """The experiment of a named space or YAML file with `key=value` overrides; mistakes are UserErrors."""
    file = places.find_file(name_or_path, places.SPACES, "search space")
    layers = Layers()
    top = places.shown(file)
    for rank, (name, document) in enumerate(places.chain(file)):
        layers.lay(document.tree, _lines(rank, name, document.lines))
    if isinstance(overrides, str):
        overrides = [overrides]
    for rank, text in enumerate(overrides, start=1000):
        _override(layers, text, Origin(rank, f"override '{one_line(text)}'"))
    try:
        tree, values = lay_reference_point(layers.tree)
        for key in values:
            layers.origins[tuple(key.split("."))] = layers.origins[("reference_point", key)]
        experiment = build(tree)
        validate_space(experiment)
    except Problem as problem:
        raise UserError(f"{layers.where(problem.paths) or top}: {problem}") from None
    return experiment


def _lines(rank: int, name: str, lines: Mapping[Path, int]) -> Callable[[Path], Origin]:
    def origin(path: Path) -> Origin:
        while path not in lines:
            path = path[:-1]
        return Origin(rank, f"{name}:{lines[path]}")

    return origin


def _override(layers: Layers, text: str, origin: Origin) -> None:
    key, equals, raw = text.partition("=")
    key = key.strip()
    if not equals or not key:
        raise UserError(f"{origin.text}: an override is key=value, such as max_steps=300.")
    path = trees.split(key)
    if any(not part or part != part.strip() for part in path):
        raise UserError(f"{origin.text}: a key is words with dots between them, such as loss.name.")
    if path[0] == "extends":
        raise UserError(f"{origin.text}: extends belongs in a file. Name another space instead.")
    try:
        value = read_value(raw)
    except ValueError as error:
        raise UserError(f"{origin.text}: {error}") from None
    if path[0] == "search" and len(path) == 3:  # one setting of a searched key: the others stay
        spec = trees.lookup(layers.tree, key.rpartition(".")[0])
        value, path = {**(spec if isinstance(spec, dict) else {}), path[2]: value}, path[:2]
    over: Any = value
    for part in reversed(path):
        over = {part: over}
    layers.lay(over, lambda path: origin)


def _mentions(text: Any, section: str) -> bool:
    try:
        return any(name.startswith(f"{section}.") for name in compile_expression(str(text)).names)
    except ExpressionError:
        return False
