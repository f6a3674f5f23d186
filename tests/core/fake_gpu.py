"""Training steps on a device that this machine does not have, run by test_gpu_without_gpu.py as a program.

Under FakeTensorMode tensors have shapes, types and devices, and no values: what would read a value on the
host raises. PyTorch's slot for devices of others is taken by one without kernels, "pretend": unlike "cuda" it
has a device context on any machine, so that `backward()` runs through the engine. `HostReads` raises for what
FakeTensors let pass: copies between host and device, and operations that wait for the device inside.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import cycle
from typing import Any

import torch
import toy
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode

from dmltune.core import backbones, components, losses, poolings, references, transforms
from dmltune.core.embedder import Embedder
from dmltune.core.losses._pairs import PairLoss
from dmltune.core.objective import Objective
from dmltune.core.optimizers import build, parameter_groups
from dmltune.core.precision import LOWERED
from dmltune.core.run import Options, Run, Schedule
from dmltune.core.step import training_step
from dmltune.core.zero_shot import ZeroShot

DEVICE = "pretend"
STEPS = 2
WAITING = {  # they look at the device's values inside
    *("_linalg_check_errors", "linalg_eigh", "_linalg_eigh", "_linalg_svd", "linalg_eig", "lift_fresh"),
}
SMALL: dict[str, dict[str, Any]] = {
    "ccp": {"proxies": 2, "pool_size": 3},
    "xbm": {"size": 20, "start_step": 0},  # full, and wrapped around, in the second step
    "gsp": {"prototypes": 4},
    "netvlad": {"clusters": 2},
    "otp": {"clusters": 2},
    "soft_triple": {"centers": 2},
}
SFT = [
    {"form": form, "scheme": scheme, "centres": centres, "tail_below": 10}
    for form in ("rotate", "degenerate", "ftl")
    for scheme in ("balanced", "unbalanced")
    for centres in ("running", "random", "pick")
]
OPTIONS = [
    Options(),
    Options(clip_norm=1.0, ema=0.9, precision="bfloat16"),
    Options(clip_norm=1.0, ema=0.9, precision="float16", warmup_new_layers=1),
    Options(warmup_new_layers=1, precision="float16"),
]
OPTIMIZERS = ["adam", "adamw", "sgd"]


class Pretend:
    """What torch asks the module of a device for."""

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]

    def is_available(self) -> bool:
        return True

    def is_initialized(self) -> bool:
        return True

    def device_count(self) -> int:
        return 1

    def current_device(self) -> int:
        return 0

    def manual_seed_all(self, seed: int) -> None: ...

    def _is_in_bad_fork(self) -> bool:
        return False


def set_up_device() -> list[Any]:
    """Register the device and autocasting of convolutions and products; the libraries must be held."""
    backend_registration._setup_privateuseone_for_python_backend(DEVICE, backend_module=Pretend())
    every = torch.library.Library("_", "IMPL", "AutocastPrivateUse1")
    every.fallback(torch.library.fallthrough_kernel)
    lowered = torch.library.Library("aten", "IMPL", "AutocastPrivateUse1")
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)

    def lower(operation: Any) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            with torch._C._ExcludeDispatchKeyGuard(keys):
                dtype = torch.get_autocast_dtype(DEVICE)
                return operation(*[x.to(dtype) if isinstance(x, Tensor) else x for x in given])

        return call

    for name in ("conv2d", "linear", "mm", "addmm", "prelu"):
        lowered.impl(name, lower(getattr(torch.ops.aten, name).default if name != "conv2d" else torch.conv2d))
    missing = torch.library.Library("aten", "IMPL", "Meta")
    missing.impl("_fused_sgd_", lambda *given, **options: None)  # torch has none; it works in place
    return [every, lowered, missing]


class HostRead(Exception):
    """A step waits for the device, or a value travels between it and the host."""


class HostReads(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = func.overloadpacket.__name__
        self.seen.add(name)
        devices = {x.device.type for x in args if isinstance(x, Tensor)}
        if name in WAITING and DEVICE in devices:
            raise HostRead(f"{name} waits for the device")
        out = func(*args, **(kwargs or {}))
        if name in ("_to_copy", "copy_") and isinstance(out, Tensor):
            devices.add(out.device.type)
            if len(devices) > 1:
                raise HostRead(f"{name} between the host and the device")
        return out


def on_device(module: nn.Module) -> nn.Module:
    """Replace all weights and buffers by fake ones on the device, with their strides."""
    for part in module.modules():
        for name, weight in part._parameters.items():
            if weight is not None:
                part._parameters[name] = nn.Parameter(like(weight), weight.requires_grad)
        for name, buffer in part._buffers.items():
            if buffer is not None:
                part._buffers[name] = like(buffer)
    return module


def like(x: Tensor) -> Tensor:
    return torch.empty_strided(tuple(x.shape), x.stride(), dtype=x.dtype, device=DEVICE)


def objective(
    loss: str,
    refs: str = "batch",
    pooling: str = "gap",
    transform: dict[str, Any] | None = None,
    zero_shot: bool = False,
    backbone: Callable[[], Any] = toy.ToyBackbone,
) -> Objective:
    """Build on the host, with real values, what starts a training: prototypes, θ*, a first score."""
    dim = 8
    chosen = references.load(refs, toy.CLASSES, dim, **SMALL.get(refs, {}))
    pooled = poolings.load(pooling, dim, **SMALL.get(pooling, {}))
    pooled.start(torch.randn(max(1, pooled.start_points), pooled.in_channels or dim))
    embedder = Embedder(backbone(), pooled, dim, chosen.normalise)
    counts_C = torch.tensor([3, 30, 5, 20, 40])
    moved = None if transform is None else transforms.load("sft", toy.CLASSES, dim, counts_C, **transform)
    predicted = ZeroShot(toy.CLASSES, pooled.attributes, dim=dim) if zero_shot else None
    goal = Objective(
        embedder, losses.load(loss, toy.CLASSES, dim, **SMALL.get(loss, {})), chosen, moved, predicted
    )
    variation = getattr(moved, "variation", None)
    if variation is not None:
        variation.updates = 2  # after the first decomposition, which waits
    if refs == "ccp":
        chosen.anchor_W = goal.weights_W().detach().clone()  # a later projection: with the proximal term
    return goal


def train(
    goal: Objective,
    options: Options | None = None,
    optimizer: str = "adam",
    side: int = toy.SIDE,
    first: int = 1,
) -> set[str]:
    """Run whole training steps; return the names of the operations. Step `first` 1 is not looked at."""
    with FakeTensorMode(), HostReads() as reads:
        on_device(goal)
        groups = parameter_groups(goal, 1e-3, 1e-4, new_layer_factor=2, proxy_factor=3)
        extras = {"momentum": 0.9} if optimizer == "sgd" else {}
        schedule = Schedule(max_steps=100, validate_every=50, milestones=(1,))
        run = Run(goal, build(optimizer, groups, **extras), toy.ToyFeed(), schedule, options)
        goal.embedder.lowered = LOWERED.get(run.options.precision)
        goal.train()
        for step in range(first, first + STEPS):
            run.step = step
            images = torch.empty(12, 3, side, side, dtype=torch.uint8, device=DEVICE)
            images = images.to(memory_format=torch.channels_last)
            training_step(run, goal, images, torch.empty(12, dtype=torch.long, device=DEVICE))
        assert all(weight.grad is not None for group in groups for weight in group["params"])
        return reads.seen


def cases() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Every loss × references × (a transform), poolings, options and optimisers in turn; every pooling with
    and without the zero-shot loss; every backbone.
    """
    names = {kind: components.names(kind) for kind in ("losses", "references", "poolings", "transforms")}
    assert set(names["transforms"]) == {"identity", "sft"}, "add the transform to the cases"
    pooling, options, optimizer, moved = (
        cycle(values) for values in (names["poolings"], OPTIONS, OPTIMIZERS, SFT)
    )
    for loss in names["losses"]:
        takes = getattr(components.find("losses", loss), "takes_references", True)
        for refs in names["references"] if takes else ("batch",):
            for transform in (None, next(moved)):
                parts = (loss, refs, next(pooling), transform)
                chosen = (next(options), next(optimizer))
                title = " ".join(map(str, (*parts, *chosen)))
                yield title, lambda p=parts, c=chosen: train(objective(*p), *c)
    for each in names["poolings"]:
        if components.build_module("poolings", each, {"channels": 8}, SMALL.get(each, {})).attributes:
            chosen = (next(options), next(optimizer))
            goal = lambda p=each: objective("margin", "ccp", p, next(moved), zero_shot=True)  # noqa: E731
            yield f"{each} zero_shot", lambda g=goal, c=chosen: train(g(), *c)
    for each in components.names("backbones"):
        side = 32 if each.startswith("resnet") else 112
        goal = lambda b=each: objective("contrastive", backbone=lambda: backbones.load(b))  # noqa: E731
        yield f"backbone {each}", lambda g=goal, s=side: train(g(), Options(precision="bfloat16"), side=s)


class Wrong(PairLoss):
    """A loss with a mistake that a CPU does not notice."""

    def __init__(self, mistake: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.mistake = mistake

    def of_pairs(self, dist_BR: Tensor, positive_BR: Tensor, negative_BR: Tensor) -> Tensor:
        value = torch.where(positive_BR, dist_BR, 0).sum()
        other = self.mistake(dist_BR)
        return value + other.sum() if isinstance(other, Tensor) else value * float(other)


MISTAKES: dict[str, Callable[[Tensor], Any]] = {
    "item": lambda x: x.max().item(),
    "bool": lambda x: 2.0 if x.max() > 0 else 1.0,
    "cpu": lambda x: x.cpu(),
    "cpu and back": lambda x: x.detach().cpu().to(x.device),
    "nonzero": lambda x: x[x > 0],
    "unique": lambda x: torch.unique(x),
    "host tensor": lambda x: x * torch.ones(x.shape[1]),
    "tensor": lambda x: x * torch.tensor([2.0], device=x.device),
    "solve": lambda x: torch.linalg.solve(x, x),
    "list": lambda x: sum(x[0].tolist()),
    "shape": lambda x: x.new_zeros(int((x > 0).sum())),
}


def error_of(case: Callable[[], Any]) -> str:
    """Return the class of the error that a case raises, or nothing."""
    try:
        case()
    except Exception as problem:
        return type(problem).__name__
    return ""


def main() -> None:
    held = set_up_device()
    problems, seen = {}, set()
    count = 0
    for title, case in cases():
        count += 1
        try:
            seen |= case()
        except Exception as problem:
            problems[title] = f"{type(problem).__name__}: {problem}"[:400]
    caught = {}
    for name, mistake in {"none": None, **MISTAKES}.items():
        goal = objective("contrastive")
        goal.loss = Wrong(mistake or (lambda x: 1.0))
        caught[name] = error_of(lambda g=goal: train(g))
    looking = objective("contrastive")
    decomposing = objective("contrastive", transform={"form": "ftl"})
    decomposing.transform.variation.updates = 1
    found = {
        "count": count,
        "problems": problems,
        "caught": caught,
        "seen": sorted(seen),
        "looked": error_of(lambda: train(looking, first=0)),
        "decomposed": error_of(lambda: train(decomposing)),
    }
    print(json.dumps(found))
    del held


if __name__ == "__main__":
    main()
