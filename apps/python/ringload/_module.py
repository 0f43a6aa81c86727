# SPDX-License-Identifier: Apache-2.0
"""PyTorch modules, some of whose tensors are on the device "meta" and have no memory yet."""

from ._convert import indexed
from ._destinations import tensors_of


class ModuleTensors:
    """The tensors of a module. Each tensor on "meta" has a replacement with memory.

    device: the device of the tensors and of the replacements. "cuda" means PyTorch's current GPU.
    """

    def __init__(self, module, device=None):
        if not hasattr(module, "state_dict") or not hasattr(module, "modules"):
            raise TypeError(f"expected a module of PyTorch, not {type(module).__name__}")
        self._module = module
        self._replacements = {}  # By identity, since tied names share the tensor.
        self._named, self.left_out = tensors_of(module)
        self.device = self._own_device() if device is None else indexed(device)

    def _own_device(self):
        for tensor in self._named.values():
            if hasattr(tensor, "is_meta") and not tensor.is_meta:
                return tensor.device
        return "cpu"

    def destinations(self):
        """Returns the tensors to fill by name, with replacements for tensors on "meta"."""
        return {name: self._with_memory(tensor) for name, tensor in self._named.items()}

    def _with_memory(self, tensor):
        if not hasattr(tensor, "is_meta") or not tensor.is_meta:
            return tensor
        found = self._replacements.get(id(tensor))
        if found is None:
            import torch

            memory = torch.empty_strided(
                tensor.shape, tensor.stride(), dtype=tensor.dtype, device=self.device
            )
            if isinstance(tensor, torch.nn.Parameter):
                memory = torch.nn.Parameter(memory, requires_grad=tensor.requires_grad)
            found = self._replacements[id(tensor)] = memory
        return found

    def assign(self, missing):
        """Puts the replacements into the module, except for names that were not filled."""
        if not self._replacements:
            return
        skipped = {id(tensor) for name, tensor in self._named.items() if name in missing}
        for submodule in self._module.modules():
            for tensors in (submodule._parameters, submodule._buffers):
                for name, tensor in tensors.items():
                    replacement = self._replacements.get(id(tensor))
                    if replacement is not None and id(tensor) not in skipped:
                        tensors[name] = replacement
