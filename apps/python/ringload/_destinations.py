# SPDX-License-Identifier: Apache-2.0
"""Memory of other libraries that a fill writes to.

The library writes to dense or strided memory of native elements. Any other destination gets a
temporary tensor, which is filled in its place and then copied into it.
"""

import math
import sys

from . import _core
from ._convert import (
    _from_numpy,
    _from_torch,
    can_describe,
    current_streams,
    is_torch,
    items_of,
    numpy_dtype_or_none,
    wait_for_pytorch,
)
from ._errors import CancelledError, Error, make
from ._names import dtype_name


class _Destination:
    """One name, and the memory for its tensor."""

    def __init__(self, name, value, description, dtype=None, memory=None, temporary=None):
        self.name = name
        self.value = value
        self.description = description
        self.dtype = dtype
        self.memory = memory  # Equal for two destinations that have the same memory, or None.
        self.temporary = temporary  # The tensor that is filled in place of `value`, or None.

    def fields(self):
        """Returns the form that the library takes."""
        return self.name, self.description, self.dtype

    def replaced(self):
        """Returns the same destination with a temporary tensor, or None if none can be made."""
        if is_torch(self.value):
            return _torch_with_temporary(self.name, self.value.detach())
        if self.memory is not None and not isinstance(self.value, _core.Tensor):
            return _numpy_with_temporary(self.name, self.value)
        return None

    def copy_back(self):
        """Copies the result of a fill from the temporary tensor to the destination."""
        if is_torch(self.value):
            self.value.copy_(self.temporary)
        else:
            self.value[...] = self.temporary


def _is_module(value):
    return hasattr(value, "state_dict") and hasattr(value, "named_parameters")


def tensors_of(module):
    """Returns the tensors of a module by name, and the names of other entries of its state.

    Other entries are results of get_extra_state() that are not tensors.
    """
    state = module.state_dict(keep_vars=True)
    tensors = {name: value for name, value in state.items() if is_torch(value)}
    return tensors, [name for name in state if name not in tensors]


def require_none_left_out(names):
    """Raises an error if the state of a module has entries that are not tensors."""
    if names:
        text = f"destination '{names[0]}': it is not a tensor, and only tensors can be filled"
        raise make("no_such_tensor", 0, text, f"destination '{names[0]}'")


def _increase_version(tensor):
    """Tells PyTorch's autograd that the content of a tensor has changed."""
    torch = sys.modules.get("torch")
    if torch is None or tensor.is_inference():  # The interpreter ends, or there is no version.
        return
    increase = getattr(torch.autograd.graph, "increment_version", None)
    if increase is not None:
        increase(tensor)
        return
    with torch.no_grad():  # PyTorch 1 only has operations in place. This one writes no element.
        tensor.detach().unsqueeze(0)[:0].zero_()


def _torch_with_temporary(name, tensor):
    import torch

    temporary = torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)
    return _Destination(name, tensor, *_from_torch(temporary), temporary=temporary)


def _torch_destination(name, tensor):
    import torch

    tensor = tensor.detach()
    if tensor.layout != torch.strided:
        raise TypeError(f"tensor '{name}': a tensor of layout {tensor.layout} is not dense")
    if tensor.device.type == "meta":
        raise TypeError(f"tensor '{name}' is on PyTorch's device 'meta' and has no memory")
    if tensor.is_conj() or tensor.is_neg():
        return _torch_with_temporary(name, tensor)
    if not can_describe(tensor):
        raise TypeError(f"tensor '{name}': tensors of {tensor.dtype} cannot be filled")
    memory = None
    if tensor.numel() != 0:
        memory = (tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride())
    return _Destination(name, tensor, *_from_torch(tensor), memory=memory)


def _numpy_with_temporary(name, array):
    import numpy

    if not array.flags.writeable:
        raise TypeError(f"tensor '{name}' is read-only")
    temporary = numpy.empty(array.shape, array.dtype.newbyteorder("="))
    return _Destination(name, array, *_from_numpy(temporary), temporary=temporary)


def _numpy_destination(name, value):
    import numpy

    if isinstance(value, numpy.generic):
        raise TypeError(
            f"tensor '{name}' is a NumPy scalar, which is immutable: pass an array of shape ()"
        )
    array = numpy.asarray(value)  # A subclass may ignore assignments, as a hard mask does.
    width = array.itemsize
    if numpy_dtype_or_none(dtype_name(array.dtype.name)) is None:
        raise TypeError(f"tensor '{name}': arrays of {array.dtype} cannot be filled")
    dense = array.dtype.isnative and array.flags.aligned
    if not dense or any(stride % width for stride in array.strides):
        return _numpy_with_temporary(name, array)
    memory = None
    if array.size:
        address = array.__array_interface__["data"][0]
        memory = (address, array.dtype.name, array.shape, array.strides)
    return _Destination(name, array, *_from_numpy(array), memory=memory)


def _is_jax(value):
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.Array)


def _destination(name, value):
    if isinstance(value, _core.Tensor):
        memory = (value.data_ptr, value.dtype, value.shape) if value.nbytes else None
        return _Destination(name, value, value, memory=memory)
    if is_torch(value):
        return _torch_destination(name, value)
    if _is_jax(value):
        raise TypeError(
            f"tensor '{name}' is a JAX array, which is immutable: load the tensor and use .jax()"
        )
    if type(value).__module__.partition(".")[0] == "numpy" or hasattr(value, "__array_interface__"):
        return _numpy_destination(name, value)
    if hasattr(value, "__dlpack__"):
        try:
            capsule = value.__dlpack__(max_version=(1, 0))  # Raises an error for read-only memory.
        except TypeError:
            capsule = value.__dlpack__()
        return _Destination(name, value, capsule)
    raise TypeError(
        f"tensor '{name}': {type(value).__name__} is not a tensor: it has no __dlpack__"
    )


class Destinations:
    """The destinations of one fill.

    Names that share memory, such as tied weights, are filled like in load_state_dict() of PyTorch:
    the last of the names that the checkpoint has determines the content. The other names do not
    count as missing.
    """

    def __init__(self, tensors):
        """tensors: a mapping of names to tensors, or a PyTorch module."""
        self.left_out = []  # The names of entries of a module that are not tensors.
        if _is_module(tensors):
            tensors, self.left_out = tensors_of(tensors)
        self._all = [_destination(name, value) for name, value in items_of(tensors)]
        # The current streams of the caller. Another thread may start the fill.
        self._streams = current_streams([destination.value for destination in self._all])
        self._filled = []
        self._same = {}  # For each name that is filled, the other names of the same memory.

    def fields(self, names_in):
        """Returns the destinations for the library.

        `names_in()` returns the names of the checkpoint.
        """
        groups = {}
        for destination in self._all:
            key = id(destination) if destination.memory is None else destination.memory
            groups.setdefault(key, []).append(destination)
        if len(groups) < len(self._all):
            in_checkpoint = set(names_in())
        self._filled = []
        viewed = set()
        for group in groups.values():
            chosen = group
            if len(group) > 1:
                chosen = [one for one in group if one.name in in_checkpoint] or group[:1]
                others = [one.name for one in group if one not in chosen]
                self._same[chosen[0].name] = others
            first = chosen[0]
            if first.memory is not None:
                address, dtype, shape = first.memory[:3]
                view = (address, dtype, math.prod(shape))
                if view in viewed:  # A tied weight of other strides, such as a transposed one.
                    first = first.replaced() or first
                viewed.add(view)
            self._filled.append(first)
            self._filled.extend(one.replaced() or one for one in chosen[1:])
        return [destination.fields() for destination in self._filled]

    def wait_for_pytorch(self):
        """Waits for the work that PyTorch has queued on the destinations and temporary tensors.

        The memory of a temporary tensor may have belonged to another tensor, and queued kernels may
        still use this memory.
        """
        for stream in self._streams:
            stream.synchronize()
        wait_for_pytorch([destination.temporary for destination in self._filled])

    def require_in_place(self):
        """Raises an error if a tensor of the last fields() is filled through a temporary tensor."""
        for destination in self._filled:
            if destination.temporary is not None:
                raise TypeError(
                    f"tensor '{destination.name}' cannot be changed in place: it needs aligned "
                    "memory of the native byte order, which no other tensor shares"
                )

    def note_write(self, names=None):
        """Tells PyTorch that the destinations of these names, or all of them, were written."""
        if names is not None:
            names = {*names, *(one for name in names for one in self._same.get(name, ()))}
        for destination in self._all:
            is_written = names is None or destination.name in names
            if is_written and is_torch(destination.value):
                _increase_version(destination.value)

    def finish(self, missing):
        """Copies temporary tensors back after a fill. Returns all names without a tensor."""
        lost = set(missing)
        self.note_write({one.name for one in self._filled if one.name not in lost})
        # In the order of the names, because the last name determines the content of shared memory.
        order = {destination.name: at for at, destination in enumerate(self._all)}
        copied = []
        for destination in sorted(self._filled, key=lambda one: order[one.name]):
            if destination.name not in lost and destination.temporary is not None:
                destination.copy_back()
                copied.append(destination.value)
        wait_for_pytorch(copied)  # The copies are queued on the current stream of this thread.
        for name, others in self._same.items():
            if name in lost:
                lost.update(others)
        missing = [destination.name for destination in self._all if destination.name in lost]
        return missing + self.left_out

    def note_failure(self, failure):
        """Notes the writes of a fill that has failed or was dropped.

        Corrects the lists of an Error, because temporary tensors were not copied back.
        """
        if isinstance(failure, Error) and not isinstance(failure, CancelledError):
            self.note_write({*failure.whole, *failure.torn})
        else:
            self.note_write()
        if not isinstance(failure, Error) or not (failure.whole or failure.torn):
            return
        unfinished = {one.name for one in self._filled if one.temporary is not None}
        torn = [name for name in failure.whole if name in unfinished]
        failure.whole = [name for name in failure.whole if name not in unfinished]
        failure.torn = [*failure.torn, *torn]
