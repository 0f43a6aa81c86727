# SPDX-License-Identifier: Apache-2.0
"""Headers of files as Python objects, and facts about memory and devices."""

import dataclasses
import json
import math
import os
from collections.abc import Callable, Mapping
from typing import Any

from .. import _shared
from .dtypes import DType, element_bits

owner = "fastsafetensors"  # The memory of the loaders of this package is counted.
_header_bytes_max = 100_000_000
_alignment = 16


class SingleGroup:
    """A process group of one."""

    def size(self) -> int:
        return 1

    def rank(self) -> int:
        return 0


@dataclasses.dataclass(repr=False)
class TensorFrame:
    """One tensor of a header, or a slice of it, described by strides and offsets in elements."""

    dtype: DType
    shape: list[int]
    data_offsets: list[int]
    strides: list[int]
    offsets: list[int]
    sliced: bool

    @classmethod
    def from_buffer(cls, entry: Mapping[str, Any]) -> "TensorFrame":
        """Creates a frame from an entry of the header: dtype, shape, data_offsets."""
        shape = entry["shape"]
        if not isinstance(shape, list) or any(type(size) is not int or size < 0 for size in shape):
            raise ValueError(f"shape must contain nonnegative integers: {shape!r}")
        strides = [math.prod(shape[dim + 1 :]) for dim in range(len(shape))]
        offsets = [0] * len(shape)
        return cls(
            DType(entry["dtype"]), shape, list(entry["data_offsets"]), strides, offsets, False
        )

    def __getitem__(self, index: int | slice | tuple[int | slice, ...]) -> "TensorFrame":
        """Returns the frame of a slice. An integer means a slice of length 1 and removes no
        dimension.

        A slice without elements has no dimensions, as in the package.
        """
        parts = index if isinstance(index, tuple) else (index,)
        if len(parts) > len(self.shape):
            raise IndexError(f"{len(parts)} indices for a tensor of {len(self.shape)} dimensions")
        shape, strides, offsets = list(self.shape), list(self.strides), list(self.offsets)
        for dim, part in enumerate(parts):
            first, length, step = _range(part, self.shape[dim])
            if length == 0:
                return TensorFrame(self.dtype, [], self.data_offsets, [], [], False)
            shape[dim] = length
            strides[dim] *= step
            offsets[dim] += first
        return TensorFrame(self.dtype, shape, self.data_offsets, strides, offsets, True)

    def __repr__(self) -> str:
        return str({"dtype": self.dtype, "shape": self.shape, "data_offsets": self.data_offsets})


def _range(part, size):
    """Returns (first, length, step) of an index of one dimension."""
    if isinstance(part, slice):
        chosen = range(size)[part]
        return (chosen.start if len(chosen) else 0), len(chosen), chosen.step
    if not isinstance(part, int):
        raise TypeError(f"{part!r} is neither an integer nor a slice")
    if not -size <= part < size:
        raise IndexError(f"index {part} is out of range for a dimension of {size}")
    return part % size, 1, 1


class SafeTensorsMetadata:
    """The header of one file. `framework` is stored, but not used."""

    def __init__(
        self,
        string: str,
        header_length: int,
        size_bytes: int,
        framework: Any = None,
        src: str = "",
        keep_orig_dict: bool = False,
    ) -> None:
        header = json.loads(string)
        self.src = src
        self.framework = framework
        self.metadata = header.pop("__metadata__", "")
        self.header_length = header_length
        self.size_bytes = size_bytes
        self.aligned = header_length % _alignment == 0
        if keep_orig_dict:
            self.ser = header
        self.tensors: dict[str, TensorFrame] = {}
        end = 0
        for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"][0]):
            frame = self.tensors[name] = TensorFrame.from_buffer(entry)
            first, last = frame.data_offsets
            if first != end or last < first:
                raise ValueError(
                    f"{src}: tensor '{name}': InvalidOffset: data_offsets are [{first}, {last}], "
                    f"and the tensor before ends at {end}"
                )
            meant = math.prod(frame.shape) * element_bits[frame.dtype.value] // 8
            if last - first != meant:
                raise ValueError(
                    f"{src}: tensor '{name}': TensorInvalidInfo: {last - first} bytes for "
                    f"{frame.dtype.value} {frame.shape}, which is {meant} bytes"
                )
            end = last
        if header_length + end > size_bytes:
            raise ValueError(
                f"{src}: MetadataIncompleteBuffer: the tensors end at byte {header_length + end}, "
                f"and the file has {size_bytes}"
            )

    @classmethod
    def from_file(cls, filename: str, framework: Any = None) -> "SafeTensorsMetadata":
        """Reads the header of a file."""
        with open(filename, "rb") as file:
            return cls.from_fd(file.fileno(), filename, framework)

    @classmethod
    def from_fd(
        cls, fd: int, filename: str, framework: Any = None, keep_orig_dict: bool = False
    ) -> "SafeTensorsMetadata":
        """Reads the header of an open file whose position is at its start."""
        size = os.fstat(fd).st_size
        if size < 8:
            raise ValueError(f"{filename}: HeaderTooSmall: the file has {size} bytes")
        count = int.from_bytes(os.pread(fd, 8, 0), "little")
        if count > _header_bytes_max:
            raise ValueError(f"{filename}: HeaderTooLarge: {count} bytes")
        text = os.pread(fd, count, 8) if count <= size - 8 else b""
        if len(text) != count:
            raise ValueError(
                f"{filename}: InvalidHeaderLength: {count} bytes in a file of {size} bytes"
            )
        return cls(text.decode(), count + 8, size, framework, filename, keep_orig_dict)

    def select_byte_ranges(
        self, keep_tensor: Callable[[str], bool], merge_gap: int = 4096
    ) -> list[tuple[int, int]]:
        """Returns [(first, last)] ranges that contain the kept tensors, with small gaps."""
        merged = []
        for name, frame in self.tensors.items():
            first, last = (self.header_length + offset for offset in frame.data_offsets)
            if first == last or not keep_tensor(name):
                continue
            if merged and first - merged[-1][1] <= merge_gap:
                merged[-1] = (merged[-1][0], last)
            else:
                merged.append((first, last))
        return merged

    def __repr__(self) -> str:
        return str({"__metadata__": self.metadata, "tensors": self.tensors})


def get_device_numa_node(device: int | None) -> int | None:
    """Returns the NUMA node of a GPU, or None if it is unknown."""
    if device is None:
        return None
    address = _pci_address(device)
    try:
        with open(f"/sys/bus/pci/devices/{address}/numa_node") as file:
            return int(file.read())
    except OSError:
        return None


def _pci_address(device):
    """Returns a GPU's address as /sys writes it, or "" if PyTorch does not provide it."""
    import torch

    if not torch.cuda.is_available():
        return ""
    found = torch.cuda.get_device_properties(device)
    numbers = [getattr(found, f"pci_{part}_id", None) for part in ("domain", "bus", "device")]
    return "" if None in numbers else "{:04x}:{:02x}:{:02x}.0".format(*numbers)


def live_allocation_count() -> int:
    """Returns the number of allocations of the tensors that this package has loaded."""
    return sum(loader.memory["tensor_allocations"] for loader in _shared.loaders_of(owner))


def live_allocation_bytes() -> int:
    """Returns the bytes of these allocations."""
    return sum(loader.memory["tensor_bytes"] for loader in _shared.loaders_of(owner))
