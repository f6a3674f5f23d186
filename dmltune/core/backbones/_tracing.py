"""The computation of a module as a graph, traced with a real image.

Values that depend on sizes alone are numbers in the graph: branches and shapes in a backbone's code work.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.fx.proxy import Attribute

_PLAIN = (bool, int, float, str, torch.Size, torch.dtype, torch.device, type(None))


def traced(root: nn.Module, target: str, image: Tensor, training: bool) -> fx.Graph:
    """Trace down to the module `target`; modules that do not hold it are leaves in inference mode."""
    root.eval()
    for path, module in root.named_modules():
        if _holds(path, target):
            module.training = training
    return _Tracer(target, image).trace(root)


class _Tracer(fx.Tracer):
    def __init__(self, target: str, image: Tensor) -> None:
        super().__init__()
        self._target, self._image = target, image
        self.values: dict[fx.Node, Any] = {}
        self._running = False  # a box: what happens inside is not recorded

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return not _holds(module_qualified_name, self._target)

    def call_module(self, m: nn.Module, forward: Any, args: Any, kwargs: Any) -> Any:
        if self._running:
            return forward(*args, **kwargs)
        return super().call_module(m, forward, args, kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: Any) -> Any:
        return attr_val if self._running else super().getattr(attr, attr_val, parameter_proxy_cache)

    def proxy(self, node: fx.Node) -> fx.Proxy:
        return _Traced(node, self)

    def create_node(self, *args: Any, **kwargs: Any) -> fx.Node:
        node = super().create_node(*args, **kwargs)
        self._running = True
        try:
            self.values[node] = self._value(node)
        finally:
            self._running = False
        return node

    def create_proxy(self, *args: Any, **kwargs: Any) -> Any:
        proxy = super().create_proxy(*args, **kwargs)
        value = self.values[proxy.node]
        return value if isinstance(value, _PLAIN) else proxy

    def _value(self, node: fx.Node) -> Any:
        if node.op == "placeholder":
            return self._image
        if node.op == "output":
            return fx.map_arg(node.args, self.values.__getitem__)[0]
        return computed(node, self.root, self.values)


class _Traced(fx.Proxy):
    """A traced value with the shape and other plain attributes of the real one."""

    tracer: _Tracer

    def __getattr__(self, name: str) -> Any:
        if callable(getattr(self.tracer.values[self.node], name)):
            return Attribute(self, name)
        return self.tracer.create_proxy("call_function", getattr, (self, name), {})

    def __len__(self) -> int:
        return len(self.tracer.values[self.node])

    def __bool__(self) -> bool:
        return bool(self.tracer.values[self.node])


def computed(node: fx.Node, root: nn.Module, values: dict[fx.Node, Any]) -> Any:
    """Return the value of a node from those of its inputs."""
    args: Any = fx.map_arg(node.args, values.__getitem__)
    kwargs: Any = fx.map_arg(node.kwargs, values.__getitem__)
    if node.op == "call_method":
        return getattr(args[0], str(node.target))(*args[1:], **kwargs)
    if node.op == "call_function":
        assert callable(node.target)
        return node.target(*args, **kwargs)
    value = operator.attrgetter(str(node.target))(root)
    return value(*args, **kwargs) if node.op == "call_module" else value


def _holds(path: str, target: str) -> bool:
    return not path or target.startswith(f"{path}.")
