"""The figures of the papers, one file each, found by name: `fig3_5.py` is `dmltune reproduce fig3.5`.

A file has `STUDY = FigureStudy(…)` (reproduce/study.py). A file that begins with `_` is shared by several.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from typing import cast

from dmltune.reproduce.study import FigureStudy


def names() -> dict[str, str]:
    """Return name → module without importing any: `fig3.5` → `fig3_5`, `sft-fig2` → `sft_fig2`."""
    modules = (module.name for module in pkgutil.iter_modules(__path__))
    return {name_of(module): module for module in modules if not module.startswith("_")}


def name_of(module: str) -> str:
    """Return the name of a figure: `_` is a dot between digits, and a dash elsewhere."""
    return re.sub(r"(?<=\d)_(?=\d)", ".", module).replace("_", "-")


def load(name: str) -> FigureStudy:
    """Return the figure of a name that `names` has."""
    return cast(FigureStudy, importlib.import_module(f"{__name__}.{names()[name]}").STUDY)
