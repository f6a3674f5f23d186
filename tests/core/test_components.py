"""Components are found by file name, and their signatures are their schema."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import pytest
from annotated_types import Ge, Interval, Lt

from dmltune.core import components, losses, references
from dmltune.errors import UserError


def test_every_file_of_a_room_is_a_component_of_that_name() -> None:
    for room in ("losses", "poolings", "references", "backbones"):
        folder = Path(components.__file__).parent / room
        files = {path.stem for path in folder.glob("*.py") if not path.stem.startswith(("_", "from_"))}
        assert set(components.names(room)) == files
        for name in files:
            assert components.find(room, name).__name__.lower() == name.replace("_", "")


def test_an_unknown_name_is_an_error_with_the_nearest_one() -> None:
    with pytest.raises(UserError, match="no 'contrastve' in losses; did you mean 'contrastive'"):
        components.find("losses", "contrastve")
    with pytest.raises(UserError, match="no 'nothing/x' in backbones; there are bn_inception, "):
        components.find("backbones", "nothing/x")
    for odd in ("_weights", "from_timm", "..components", "", "__init__"):
        with pytest.raises(UserError, match="no '"):
            components.find("backbones", odd)


def test_parameters_have_their_yaml_names_and_leave_out_what_the_caller_gives() -> None:
    found = components.parameters(components.find("references", "ccp"))
    assert list(found) == ["proxies", "pool_size", "lambda", "patience", "longest", "batch_weight"]
    assert found["lambda"].default == 2e-4
    assert components.range_of(found["lambda"]) == Interval(ge=0)
    assert components.parameters(components.find("backbones", "timm/resnet18")) == {}


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("neg_margin", -1, "must be above 0; got -1"),
        ("neg_margin", "1", "must be a number; got '1'"),
        ("neg_margin", True, "must be a number; got True"),
        ("neg_margin", float("nan"), "must be above 0; got nan"),
        ("pos_margin", 0, None),
    ],
)
def test_a_value_is_checked_against_type_and_range(name: str, value: Any, problem: str | None) -> None:
    parameter = components.parameters(components.find("losses", "contrastive"))[name]
    assert components.violation(parameter, value) == problem
    if problem:
        with pytest.raises(UserError, match="contrastive: neg_margin must be "):
            losses.load("contrastive", **{name: value})


def test_an_unknown_parameter_is_an_error_with_the_nearest_one() -> None:
    with pytest.raises(UserError, match="unknown parameter 'lamda' in ccp; did you mean 'lambda'"):
        references.load("ccp", num_classes=2, dim=2, lamda=1.0)
    with pytest.raises(UserError, match="unknown parameter 'dim' in contrastive"):
        components.build("losses", "contrastive", {}, {"dim": 3})


def test_a_file_of_a_family_may_make_a_class_for_each_model(monkeypatch: pytest.MonkeyPatch) -> None:
    from dmltune.core.losses import from_pml

    made: list[str] = []

    class Made:
        def __init__(self, *, dim: int, strength: float | int | None = 1.0) -> None:
            self.dim, self.strength = dim, strength

    def component(model: str) -> type:
        made.append(model)
        return Made

    monkeypatch.setattr(from_pml, "component", component)
    assert components.find("losses", "pml/Some") is Made
    assert made == ["Some"]
    built = components.build("losses", "pml/Some", {"dim": 3, "num_classes": 2}, {"strength": 2})
    assert (built.dim, built.strength) == (3, 2)
    with pytest.raises(UserError, match="pml/Some: strength must be a number or null; got 'x'"):
        components.build("losses", "pml/Some", {"dim": 3}, {"strength": "x"})


def test_a_range_says_what_it_wants() -> None:
    assert components.range_text(Interval(gt=0, le=1)) == "above 0 and at most 1"
    assert components.range_text(Interval(lt=2)) == "below 2"
    inside = [components.contains(Interval(gt=0, lt=1), x) for x in (0, 0.5, 1, float("nan"))]
    assert inside == [False, True, False, False]


def test_bounds_are_read_inside_a_union_too() -> None:
    def method(steps: Annotated[int, Ge(1), Lt(9)] | None = None) -> None: ...

    parameter = inspect.signature(method, eval_str=True).parameters["steps"]
    assert components.range_of(parameter) == Interval(ge=1, lt=9)
    assert components.violation(parameter, None) is None
    assert components.violation(parameter, 0) == "must be at least 1 and below 9; got 0"
    assert components.violation(parameter, 1.5) == "must be a whole number or null; got 1.5"


def test_the_core_loads_and_steps_in_a_fresh_process_without_ray_mlflow_optuna_yaml_or_a_compiler() -> None:
    program = """
import importlib, pkgutil, sys
import dmltune.core
for module in pkgutil.walk_packages(dmltune.core.__path__, "dmltune.core."):
    importlib.import_module(module.name)
unwanted = {"ray", "mlflow", "optuna", "yaml", "ruamel", "pydantic", "rich", "timm", "torchvision"}
unwanted |= {"pytorch_metric_learning", "scipy", "torch._dynamo"}
import torch
from dmltune.core import optimizers
weight = torch.nn.Parameter(torch.zeros(3))
for name in ("adam", "adamw", "sgd"):
    weight.grad = torch.ones(3)
    optimizer = optimizers.build(name, [{"params": [weight], "lr": 0.1}])
    optimizer.step()
    optimizer.zero_grad()
    optimizer.load_state_dict(optimizer.state_dict())
print(sorted(unwanted & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr


def test_names_are_known_without_importing_torch() -> None:
    program = "import sys, dmltune.core.components as c; print(c.names('losses'), 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == f"{components.names('losses')} False\n"
