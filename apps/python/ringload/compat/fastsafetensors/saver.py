# SPDX-License-Identifier: Apache-2.0
"""Saves tensors to a set of shards, which are written at the same time."""

import dataclasses
import math
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ... import _core
from ..._convert import exported
from ..._names import dtype_name
from .. import _shared
from .dtypes import DType, element_bits

KEY_SHARD_INDEX = "fst.shard.index"
KEY_SHARD_COUNT = "fst.shard.count"
KEY_SHARD_SET = "fst.shard.set"


class ShardSetError(ValueError):
    """The files are not all shards of one set, in order."""


@dataclasses.dataclass
class WriteEntry:
    """One tensor to write. `source` is the input of `fill`, and is not used otherwise."""

    name: str
    dtype: DType
    shape: list[int]
    nbytes: int
    source: Any = None


def validate_shard_set(metas):
    """Raises ShardSetError unless `metas` are all shards of one write, in order.

    Each element has `metadata`, and `src` as its name.
    """
    if not metas:
        raise ShardSetError("no shards")
    sets = set()
    for i, meta in enumerate(metas):
        found = meta.metadata if isinstance(meta.metadata, dict) else {}
        try:
            index, count = int(found[KEY_SHARD_INDEX]), int(found[KEY_SHARD_COUNT])
        except (KeyError, TypeError, ValueError):
            raise ShardSetError(f"{meta.src}: not a shard of a written set") from None
        if (index, count) != (i, len(metas)):
            raise ShardSetError(
                f"{meta.src}: shard {index} of {count}, expected {i} of {len(metas)}"
            )
        sets.add(found.get(KEY_SHARD_SET))
    if len(sets) != 1 or None in sets:
        raise ShardSetError(f"shards were written separately: {sorted(map(str, sets))}")


def plain_entry(name, tensor, *, framework="pytorch"):
    """Returns an entry for a tensor, with the tensor's type and shape."""
    raw = getattr(tensor, "_raw", tensor)
    nbytes = raw.numel() * raw.element_size()
    return WriteEntry(name, DType[dtype_name(raw.dtype).upper()], list(raw.shape), nbytes, tensor)


def shard_paths(base, num_shards):
    if num_shards < 1:
        raise ValueError("num_shards must be positive")
    of = f"{num_shards:05d}.safetensors"
    return [f"{base}-{i + 1:05d}-of-{of}" for i in range(num_shards)]


def _checked(entry):
    if any(size < 0 for size in entry.shape):
        raise ValueError(f"{entry.name}: shape must be nonnegative: {entry.shape}")
    meant = math.prod(entry.shape) * element_bits[entry.dtype.value] // 8
    if meant != entry.nbytes:
        raise ValueError(
            f"{entry.name}: {entry.dtype.value}{entry.shape} is {meant} bytes, not {entry.nbytes}"
        )


def _texts(metadata):
    for key, value in (metadata or {}).items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise ValueError(f"__metadata__ entries must be strings: {key!r}")
    return dict(metadata or {})


def _spread(entries, count):
    """Assigns entries to shards: the largest first, each to the shard with the fewest bytes."""
    shards = [[] for _ in range(count)]
    bytes_of = [0] * count
    for entry in sorted(entries, key=lambda one: -one.nbytes):
        least = bytes_of.index(min(bytes_of))
        shards[least].append(entry)
        bytes_of[least] += entry.nbytes
    return shards


def _room(paths, nbytes, left):
    for folder in {os.path.dirname(os.path.abspath(path)) for path in paths}:
        os.makedirs(folder, exist_ok=True)
        free = shutil.disk_usage(folder).free
        if free < nbytes + left:
            raise OSError(f"not enough space in {folder}: {nbytes} bytes needed, {free} free")


def _filled(entries, fill):
    """Returns, by name, the memory that `fill` has written for each entry."""
    memory = {entry.name: bytearray(entry.nbytes) for entry in entries}
    largest_first = sorted(entries, key=lambda one: -one.nbytes)
    work = [(memoryview(memory[entry.name]), entry) for entry in largest_first]
    fill(work)
    for view, _ in work:
        view.release()
    return memory


def _view(entry, memory):
    """Describes an entry for the library: name, address, type."""
    if memory is None:
        return (entry.name, *exported(getattr(entry.source, "_raw", entry.source)))
    import numpy

    flat = numpy.frombuffer(memory[entry.name], numpy.uint8)
    address = flat.__array_interface__["data"][0]
    described = (address, dtype_name(entry.dtype.value), entry.shape, (), False, flat)
    return entry.name, described, None


def per_entry_fill(fn, num_threads=8):
    """Returns a `fill` that calls `fn(buffer, entry)` for each entry, on several threads."""
    if num_threads < 1:
        raise ValueError("num_threads must be positive")

    def fill(work):
        with ThreadPoolExecutor(num_threads) as pool:
            for one in [pool.submit(fn, *pair) for pair in work]:
                one.result()

    return fill


def save_sharded(
    entries, base, *, num_shards=16, fill=None, framework="pytorch", min_free_bytes=0,
    fsync=False, metadata=None, shard0_metadata=None, shard_metadata=None, header_align=8,
):  # fmt: skip
    """Writes the entries as `{base}-00001-of-0000N.safetensors` and so on. Returns the paths.

    Each file appears when it is complete. If a file fails, the complete files remain.
    """
    entries = list(entries)
    paths = shard_paths(base, num_shards)
    if header_align < 8 or header_align % 8:
        raise ValueError("header_align must be a positive multiple of 8")
    names = {"__metadata__"}
    for entry in entries:
        if entry.name in names:
            raise ValueError(f"duplicate or reserved tensor name: {entry.name}")
        names.add(entry.name)
        _checked(entry)
    common, first = _texts(metadata), _texts(shard0_metadata)

    written_as, all_metadata = uuid.uuid4().hex, []
    shards = _spread(entries, num_shards)
    for i, shard in enumerate(shards):
        own = {KEY_SHARD_INDEX: str(i), KEY_SHARD_COUNT: str(num_shards), KEY_SHARD_SET: written_as}
        added = _texts(shard_metadata(tuple(shard))) if shard_metadata is not None else {}
        for key in added.keys() & own.keys():
            raise ValueError(f"shard metadata key is reserved: {key}")
        all_metadata.append({**common, **(first if i == 0 else {}), **own, **added})

    _room(paths, sum(entry.nbytes for entry in entries), min_free_bytes)
    memory = None if fill is None else _filled(entries, fill)
    aligned = 1 << (header_align - 1).bit_length()
    options = {"format": "safetensors", "sync": fsync, "alignment": min(aligned, 2 << 20)}
    engine = _shared.loader()._engine
    saves = []
    for path, shard, described in zip(paths, shards, all_metadata):
        views = [_view(entry, memory) for entry in shard]
        saves.append(engine.save(path, views, {**options, "metadata": described}))
    for save in saves:
        save.wait()
        save.take()
    return paths


class ParallelSaver:
    """Settings of save_sharded() for several saves."""

    def __init__(
        self,
        *,
        num_shards: int = 16,
        framework: str = "pytorch",
        num_threads: int = 8,
        shard_metadata: Callable[..., dict[str, str]] | None = None,
        fill: Callable[..., Any] | None = None,
        min_free_bytes: int = 0,
        fsync: bool = False,
    ) -> None:
        if num_shards < 1:
            raise ValueError("num_shards must be positive")
        if num_threads < 1:
            raise ValueError("num_threads must be positive")
        self.num_shards = num_shards
        self.framework = framework
        self.num_threads = num_threads
        self.shard_metadata = shard_metadata
        self.fill = fill
        self.min_free_bytes = min_free_bytes
        self.fsync = fsync

    def save(
        self,
        tensors: Mapping[str, Any],
        base: str,
        *,
        metadata: dict[str, str] | None = None,
        shard0_metadata: dict[str, str] | None = None,
        header_align: int = 8,
    ) -> list[str]:
        """Saves tensors under their names. Returns the paths of the shards."""
        entries = [
            plain_entry(name, tensor, framework=self.framework) for name, tensor in tensors.items()
        ]
        return self.save_entries(
            entries,
            base,
            metadata=metadata,
            shard0_metadata=shard0_metadata,
            header_align=header_align,
        )

    def save_entries(
        self,
        entries: Iterable[WriteEntry],
        base: str,
        *,
        metadata: dict[str, str] | None = None,
        shard0_metadata: dict[str, str] | None = None,
        header_align: int = 8,
    ) -> list[str]:
        """Saves entries, which `fill` fills, or whose sources are copied."""
        return save_sharded(
            entries,
            base,
            num_shards=self.num_shards,
            fill=self.fill,
            framework=self.framework,
            min_free_bytes=self.min_free_bytes,
            fsync=self.fsync,
            metadata=metadata,
            shard0_metadata=shard0_metadata,
            shard_metadata=self.shard_metadata,
            header_align=header_align,
        )
