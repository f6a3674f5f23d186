"""A backbone cut in two at the input of one of its modules: a frozen prefix and the rest.

An image passes the prefix only once. The rest is traced (torch.fx): only modules that hold the target are
traced inside, all others are leaves. Both parts use the backbone's current modules, so they follow it to
another device or to joint batch norms.
"""

from __future__ import annotations

import copy
import hashlib
import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, fx, nn

from dmltune.core.backbones._tracing import computed, traced
from dmltune.errors import UserError, nearest

ALL = "all"
SIDE = 96


class Cut:
    """`rest(prefix(images))` is `backbone(images)` for square images of the side of the cut.

    Without a `target` the prefix is the whole backbone.
    """

    def __init__(self, backbone: nn.Module, target: str, nodes: list[fx.Node], ends: tuple[fx.Node, fx.Node]):
        self._backbone, self._target, self._nodes = backbone, target, nodes
        self._enter, self._leave = ends
        self._learning = {str(node.target) for node in nodes if node.op in ("call_module", "get_attr")}
        self._frozen = tuple(self._frozen_paths("", backbone))

    def prefix(self, images_B3HW: Tensor) -> Tensor:
        """Return the one value that goes from the frozen part to the rest."""

        def reached(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            raise _Reached(inputs[0])

        if not self._target:
            whole: Tensor = self._backbone(images_B3HW)
            return whole
        hook = self._backbone.get_submodule(self._target).register_forward_pre_hook(reached)
        try:
            self._backbone(images_B3HW)
        except _Reached as target:
            return target.value
        finally:
            hook.remove()
        raise AssertionError("the module was called when the backbone was traced")

    def rest(self, value: Tensor) -> Tensor:
        known: dict[fx.Node, Any] = {self._enter: value}
        for node in self._nodes:
            known[node] = computed(node, self._backbone, known)
        result: Tensor = known[self._leave]
        return result

    def freeze(self) -> None:
        """Freeze everything before the cut."""
        tensors = self._backbone.state_dict(keep_vars=True)
        learning = {id(weight) for name, weight in tensors.items() if self._learns(name)}
        for weight in self._backbone.parameters():
            if id(weight) not in learning:
                weight.requires_grad_(False)

    def set_inference(self) -> None:
        """Put everything before the cut into inference mode: frozen statistics, no dropout."""
        for path in self._frozen:
            self._backbone.get_submodule(path).eval()

    def __deepcopy__(self, memo: dict[int, Any]) -> Cut:
        """Share the trace, which names modules and holds none."""
        twin = copy.copy(self)
        twin._backbone = copy.deepcopy(self._backbone, memo)
        return twin

    def digest(self) -> str:
        """Return a name of the function of images in [0, 1] that the prefix computes, with its weights."""
        standard = [getattr(self._backbone, name, ()) for name in ("mean", "std")]
        content = hashlib.sha256(f"{self._target} {standard} {self._backbone!r}".encode())
        for name, value in self._backbone.state_dict().items():
            if not self._learns(name):
                plain = value.detach().cpu().contiguous().flatten()
                content.update(f"{name} {plain.dtype} {tuple(value.shape)}".encode())
                content.update(plain.view(torch.uint8).numpy().data)
        return content.hexdigest()

    def _learns(self, tensor: str) -> bool:
        return any(tensor == path or tensor.startswith(f"{path}.") for path in self._learning)

    def _frozen_paths(self, path: str, module: nn.Module) -> Iterator[str]:
        """Yield the outermost modules with nothing behind the cut."""
        below = f"{path}." if path else ""
        if path in self._learning:
            return
        if not any(learning.startswith(below) for learning in self._learning):
            yield path
            return
        for name, child in module.named_children():
            yield from self._frozen_paths(f"{below}{name}", child)


@torch.no_grad()
def split(backbone: nn.Module, until: str, side: int = SIDE) -> Cut:
    """Cut at the input of the module `until`; a UserError if there is none or no single cut.

    `until` is a dotted path in the backbone or the end of one (`blocks.5` for `net.blocks.5`), or "all" for a
    prefix that is the whole backbone. Exactly one value may go from the prefix to the rest.
    """
    target = "" if until == ALL else _resolve(backbone, until)
    weight = next(backbone.parameters())
    images = torch.rand(3, 3, side, side, dtype=weight.dtype, generator=torch.Generator().manual_seed(0))
    images = images.to(weight.device)
    was_training = backbone.training
    try:
        cut = _cut(backbone, target, until, images[:1])
        backbone.eval()
        # with another number of images than it was traced with
        same = torch.equal(cut.rest(cut.prefix(images[1:])), backbone(images[1:]))
    except UserError:
        raise
    except Exception as problem:  # a backbone's code raises anything for a traced value
        raise _refused(until, f"its computation cannot be followed ({type(problem).__name__})") from None
    finally:
        backbone.train(was_training)
    if not same:
        raise _refused(until, "its parts compute something else than the whole")
    return cut


def _cut(backbone: nn.Module, target: str, until: str, image: Tensor) -> Cut:
    graphs = [traced(backbone, target, image, training) for training in (True, False)]
    if str(graphs[0]) != str(graphs[1]):
        raise _refused(until, "it computes otherwise in training")
    nodes = list(graphs[0].nodes)
    enter, leave = nodes[0], nodes[-1].args[0]
    assert isinstance(leave, fx.Node)
    cut = leave
    if target:
        calls = [node for node in nodes if node.op == "call_module" and node.target == target]
        if len(calls) != 1:
            raise _refused(until, f"it is called {len(calls)} times")
        inputs = calls[0].all_input_nodes
        if len(inputs) != 1 or calls[0].args[:1] != (inputs[0],):
            raise _refused(until, f"it takes {len(inputs)} values")
        cut = inputs[0]
    if cut is enter:
        raise _refused(until, "nothing stands before it; leave frozen_until out")
    before, whole = _ancestors(cut), _ancestors(leave)
    after = [node for node in nodes if node in whole and node not in before]
    if not target:
        return Cut(backbone, target, after, (cut, leave))
    called = {str(node.target) for node in before if node.op in ("call_module", "get_attr")}
    for node in after:
        for value in node.all_input_nodes:
            if value in before and value is not cut:
                remedy = "choose a module on the main path, such as a stage"
                raise _refused(until, f"besides its input '{value.name}' goes on; {remedy}")
        if str(node.target) in called and node.op in ("call_module", "get_attr"):
            inside = operator.attrgetter(str(node.target))(backbone)
            if isinstance(inside, Tensor) or inside.state_dict():
                raise _refused(until, f"'{node.target}' is used on both sides")
    return Cut(backbone, target, after, (cut, leave))


def _resolve(backbone: nn.Module, until: str) -> str:
    """Return the full path: the shallowest that ends in `until`, else the first that begins so.

    `inception_4a` is many modules, and each path through it begins at the same input.
    """
    paths = [path for path, _ in backbone.named_modules() if path]
    ends = [path for path in paths if path == until or path.endswith(f".{until}")]
    depth = min((path.count(".") for path in ends), default=0)
    ends = [path for path in ends if path.count(".") == depth]
    if len(ends) > 1:
        raise UserError(
            f"backbone.frozen_until '{until}' may be {ends[0]} or {ends[1]}; give the longer name"
        )
    starts = [path for path in paths if path.startswith(f"{until}_")]
    matches: list[str] = [*ends, *starts]
    if matches:
        return matches[0]
    short = [path.removeprefix("net.") for path in paths]
    shown = [path for path in short if path.count(".") <= 1][:12]
    hint = nearest(until, short) or f"; there are {', '.join(shown)} …"
    raise UserError(f"the backbone has no module '{until}' for frozen_until{hint}")


def _ancestors(node: fx.Node) -> set[fx.Node]:
    """Return the node and all that it depends on."""
    reached, waiting = {node}, [node]
    while waiting:
        fresh = set(waiting.pop().all_input_nodes) - reached
        reached |= fresh
        waiting += fresh
    return reached


def _refused(until: str, reason: str) -> UserError:
    return UserError(f"the backbone cannot be cut at frozen_until '{until}': {reason}")


class _Reached(Exception):
    def __init__(self, value: Tensor) -> None:
        super().__init__()
        self.value = value
