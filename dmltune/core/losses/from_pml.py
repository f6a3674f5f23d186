"""`pml/<Class>`: every loss of pytorch-metric-learning that takes labelled embeddings, by its name.

The constructor is the schema: its numbers, truth values and texts, those of the parent losses included.
Arguments that are objects (distance, reducer, regulariser) keep their defaults. These losses normalise their
inputs by their own distance: embeddings shortened by lip become unit vectors.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from dmltune.core.geometry import at_least_float32
from dmltune.core.host_numbers import HostNumbers
from dmltune.errors import UserError, nearest

_GIVEN = {"num_classes": "num_classes", "embedding_size": "dim", "descriptors_dim": "dim"}
"""Arguments that the caller supplies, and our names for them."""
_OBJECTS = frozenset({"distance", "reducer", "weight_init_func", "collect_stats"})
_NO_LABELS = "takes no labels. Use a loss that does, such as pml/SupConLoss"
_REFUSED = {
    "CrossBatchMemory": "wraps another loss. Use that loss with references: xbm",
    "MultipleLosses": "wraps other losses. Use one of them",
    "SelfSupervisedLoss": _NO_LABELS,
    # 2.9: the target of a sample is the position in the batch that its class number names
    "InstanceLoss": "takes class numbers for positions in the batch. Use pml/NormalizedSoftmaxLoss",
    # 2.9: reshapes the batch with the two numbers exchanged
    "SmoothAPLoss": "is right for as many classes as samples a class in a batch only. Use fastap",
}
_PACKAGED = "EmbeddingsAlreadyPackagedAsTriplets"  # a miner that needs batches in an order of its own
_REFERENCES_MIXED_UP = frozenset({"ThresholdConsistentMarginLoss"})
"""Accepts references, and looks their indices up in the batch (2.9)."""


class FromPml(HostNumbers):
    """One loss of pytorch-metric-learning; proxies of its own are its parameters.

    `miner` names a miner of the library, at its defaults, that picks the pairs. `component` makes a subclass
    with the signature for each loss.
    """

    model: ClassVar[str]
    loss_class: ClassVar[Any]
    takes_references: ClassVar[bool]
    __signature__: ClassVar[inspect.Signature]

    def __init__(self, *, miner: str | None = None, **values: Any) -> None:
        super().__init__()
        needed = [p.name for p in self.__signature__.parameters.values() if p.default is p.empty]
        missing = [name for name in needed if name not in values]
        if missing:
            raise UserError(f"pml/{self.model} needs {' and '.join(missing)}")
        # numpy and torch warn about the library, and users cannot act on it
        library = "pytorch_metric_learning"
        warnings.filterwarnings("ignore", category=DeprecationWarning, module=library)
        warnings.filterwarnings("ignore", "Using a non-tuple sequence", UserWarning, library)
        given = {theirs: values.pop(ours) for theirs, ours in _given(self.loss_class).items()}
        with self._errors_in_one_line():
            self.loss = self.loss_class(**given, **values)
        self.miner = None if miner is None else _miner(miner)
        _register_plain_tensors(self.loss)
        self.random = miner is not None or values.get("triplets_per_anchor", "all") != "all"
        if self.random:
            self.draws, self.host_numbers = 0, ("draws",)

    def forward(
        self,
        emb_BD: Tensor,
        labels_B: Tensor,
        refs_RD: Tensor | None = None,
        ref_labels_R: Tensor | None = None,
    ) -> Tensor:
        if refs_RD is not None and not self.takes_references:
            raise UserError(f"pml/{self.model} takes no references. Use references: batch.")
        emb_BD = at_least_float32(emb_BD)
        others: dict[str, Any] = {}
        if refs_RD is not None:
            others = {"ref_emb": refs_RD.to(emb_BD.dtype), "ref_labels": ref_labels_R}
        with self._errors_in_one_line(), self._own_draws(emb_BD) if self.random else nullcontext():
            picked = None if self.miner is None else self.miner(emb_BD, labels_B, **others)
            value: Tensor = self.loss(emb_BD, labels_B, picked, **others)
        _forget_graphs(self.loss)
        return value.reshape(())

    @contextmanager
    def _own_draws(self, emb_BD: Tensor) -> Iterator[None]:
        """Draw from a seed in the state: alike on all ranks and after resuming; other draws stay."""
        with torch.random.fork_rng([emb_BD.device] if emb_BD.is_cuda else []):
            torch.manual_seed(self.draws)
            self.draws += 1
            yield

    @contextmanager
    def _errors_in_one_line(self) -> Iterator[None]:
        try:
            yield
        except (AssertionError, TypeError, ValueError) as problem:
            reason = str(problem).strip().splitlines()[:1] or [type(problem).__name__]
            raise UserError(f"pml/{self.model}: {reason[0]}") from problem


@cache
def component(model: str) -> type[FromPml]:
    """Return the class of `pml/<model>`: FromPml with the parameters of that loss as its signature."""
    module = _library(f"loss pml/{model}").losses
    known = _members(module, module.BaseMetricLossFunction, module.GenericPairLoss)
    if model in _REFUSED:
        raise UserError(f"pml/{model} {_REFUSED[model]}.")
    if model not in known:
        raise UserError(f"pytorch-metric-learning has no loss '{model}'{nearest(model, known)}")
    loss_class = known[model]
    if _calls(loss_class, "labels_not_supported"):
        raise UserError(f"pml/{model} {_NO_LABELS}.")
    given = dict.fromkeys(_given(loss_class).values(), inspect.Parameter.empty)
    parameters = [_keyword(name) for name in given]
    for name, parameter in _arguments(loss_class).items():
        annotation = None if name in _GIVEN else _type_of(parameter)
        if annotation is not None:
            parameters.append(_keyword(name, annotation, parameter.default))
    if not _calls(loss_class, "indices_tuple_not_supported"):
        parameters.append(_keyword("miner", str | None, None))
    members = {
        "__doc__": f"{model} of pytorch-metric-learning.",
        "__module__": __name__,
        "__signature__": inspect.Signature(parameters),
        "model": model,
        "loss_class": loss_class,
        "takes_references": not _calls(loss_class, "ref_not_supported") and model not in _REFERENCES_MIXED_UP,
    }
    return type(model, (FromPml,), members)


def _library(wanted: str) -> Any:
    try:
        import pytorch_metric_learning.losses
        import pytorch_metric_learning.miners
    except ImportError:
        raise UserError(f"{wanted} needs pytorch-metric-learning; pip install 'dmltune[pml]'") from None
    return pytorch_metric_learning


def _members(module: Any, *bases: Any) -> dict[str, Any]:
    """Return name → class of the classes derived from the first base, without the bases."""
    classes = {name: member for name, member in vars(module).items() if isinstance(member, type)}
    return {name: cls for name, cls in classes.items() if issubclass(cls, bases[0]) and cls not in bases}


def _miner(name: str) -> nn.Module:
    module = _library(f"miner {name}").miners
    miners = _members(module, module.BaseMiner)
    miners.pop(_PACKAGED, None)
    if name not in miners:
        hint = nearest(name, miners) or f"; there are {', '.join(sorted(miners))}"
        raise UserError(f"pytorch-metric-learning has no miner '{name}'{hint}")
    miner: nn.Module = miners[name]()
    return miner


def _arguments(loss_class: Any) -> dict[str, inspect.Parameter]:
    """Return the arguments of the constructor and those passed to parent losses by **kwargs."""
    base = _library("pml").losses.BaseMetricLossFunction
    arguments: dict[str, inspect.Parameter] = {}
    family = [c for c in loss_class.__mro__ if issubclass(c, base) and c is not base]
    owners = [c for c in family if "__init__" in vars(c)]
    for owner in owners:
        own = list(inspect.signature(owner.__init__).parameters.values())[1:]
        for parameter in own:
            loose = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
            # the child itself sets what only a parent requires
            theirs = owner is not owners[0] and parameter.default is parameter.empty
            if not loose and not (theirs and parameter.name not in _GIVEN):
                arguments.setdefault(parameter.name, parameter)
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in own):
            break
    return arguments


def _given(loss_class: Any) -> dict[str, str]:
    """Return their name → ours of the arguments that we supply; optional ones keep their defaults."""
    arguments = _arguments(loss_class)
    return {
        theirs: ours
        for theirs, ours in _GIVEN.items()
        if theirs in arguments and arguments[theirs].default is inspect.Parameter.empty
    }


def _type_of(parameter: inspect.Parameter) -> Any:
    """Return the type of a parameter, None if it must be an object.

    Without an annotation a whole default allows fractions too (margins of 0 or 1 are written so), a text also
    whole numbers (`triplets_per_anchor`).
    """
    default, written = parameter.default, parameter.annotation
    if parameter.name in _OBJECTS or parameter.name.endswith("_regularizer"):
        return None
    if default is parameter.empty or default is None:
        kind: Any = written if written in (bool, int, float, str) else bool | int | float | str
        return kind if default is parameter.empty else kind | None
    if isinstance(default, bool):
        return bool
    if isinstance(default, int):
        return written if written in (int, float) else int | float
    return {float: float, str: str | int}.get(type(default))


def _keyword(name: str, annotation: Any = Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _calls(loss_class: Any, helper: str) -> bool:
    """Return whether the loss refuses something by this helper of the library."""
    return helper in loss_class.compute_loss.__code__.co_names


def _register_plain_tensors(loss: nn.Module) -> None:
    """Register tensor attributes as buffers, which move with the module and are saved."""
    for module in loss.modules():
        for name, tensor in list(vars(module).items()):
            if isinstance(tensor, Tensor):
                delattr(module, name)
                module.register_buffer(name, tensor)


def _forget_graphs(loss: nn.Module) -> None:
    """Detach buffers from the last batch's graph."""
    for module in loss.modules():
        for name, buffer in list(module.named_buffers(recurse=False)):
            if buffer.requires_grad:
                setattr(module, name, buffer.detach())
