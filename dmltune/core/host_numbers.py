"""Counters and flags of a module that the program itself reads in every step."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class HostNumbers(nn.Module):
    """A module with plain numbers as attributes that are part of its state.

    A buffer moves to the device with its module, and to read it there waits for the device. These stay on the
    host. In a state they are what buffers would be: tensors without dimensions under their names.
    """

    host_numbers: tuple[str, ...] = ()

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for name in self.host_numbers:
            destination[prefix + name] = torch.tensor(getattr(self, name))

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        *rest: Any,
    ) -> None:
        for name in self.host_numbers:
            if prefix + name in state_dict:
                kind = type(getattr(self, name))
                setattr(self, name, kind(state_dict.pop(prefix + name).item()))
            elif strict:
                missing_keys.append(prefix + name)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys, *rest)
