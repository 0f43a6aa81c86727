# SPDX-License-Identifier: Apache-2.0
"""Buckets: the tensors that are read and passed on together, and the rows that each rank reads.

    tensors    |  a  |    b     | c |   d    |     of a bucket, in the order of the files
    rank 0     |  a  | b[0:7]   |                  an equal part of the bytes, by whole rows
    rank 1           |     b[7:] | c | d[0:2]      and so on
"""

from typing import NamedTuple

import torch

from .. import _core
from .._convert import torch_dtype
from .._errors import usage
from .._names import dtype_name
from ._plan import ranges_of

page = 4096
_alignment = 64
# Boxes of at least this size are not small. A rank may read up to 64 KiB that it does not need
# between two ranges, which is 1.6 % of 4 MiB.
_box_bytes_min = 4 << 20
_decoded = frozenset("deflate zlib zstd varint".split())
_converted_to = frozenset("f64 f32 f16 bf16".split())
floats = _converted_to | frozenset("f8_e4m3 f8_e5m2".split())


class Rows(NamedTuple):
    """The rows [first, first + count) of a tensor along its first dimension with a size above 1."""

    item: "Item"
    first: int
    count: int


class Item:
    """One tensor of the load: its type, its shape, and the part for this rank."""

    def __init__(self, info, cut, dtype, rank, ranks):
        self.info = info
        self.name = info.name
        self.cut = cut
        self.shape = tuple(info.shape)
        self.dtype = _dtype_of(info, dtype)
        self.nbytes = _nbytes(self.shape, self.dtype)
        self.split_dim = next((d for d, size in enumerate(self.shape) if size > 1), 0)
        self.rows = self.shape[self.split_dim] if self.shape else 1
        # One rank reads a compressed tensor, or a tensor of quantised blocks, as a whole.
        words = set(info.encoding.split("+"))
        self.is_splittable = not info.type and not words & _decoded and self.rows > 1
        self.row_bytes = self.nbytes // max(self.rows, 1)
        self.position = 0  # The position in the bytes of the bucket.
        self._ranks = ranks
        self.ranges = None if cut is None else ranges_of(cut, self.shape, rank, ranks)

    @property
    def is_slice(self):
        """Returns True if the part is one range of a dimension, so a rank can read it alone."""
        cut = self.cut
        return (
            cut is not None
            and cut.parts == 1
            and not self.info.type
            and not set(self.info.encoding.split("+")) & _decoded
        )

    @property
    def is_own(self):
        """Returns True if the part is contiguous in the file. Each rank then reads its own part."""
        return self.is_slice and self.cut.dim == self.split_dim

    @property
    def is_mappable(self):
        """Returns True if every rank gets all bytes of the file, unchanged and aligned."""
        info = self.info
        return (
            self.cut is None
            and self.nbytes == info.nbytes > 0
            and not info.encoding
            and not info.type
            and self.dtype == torch_dtype(info.dtype)
            and info.offset % torch.empty((), dtype=self.dtype).element_size() == 0
        )

    def local_shape(self, rank=None):
        if self.cut is None:
            return self.shape
        ranges = self.ranges if rank is None else self.ranges_of(rank)
        shape = list(self.shape)
        shape[self.cut.dim] = sum(count for _, count in ranges)
        return tuple(shape)

    def local_nbytes(self):
        return _nbytes(self.local_shape(), self.dtype)

    @property
    def is_stored(self):
        """Returns True if this rank's part has as many bytes in memory as in the file.

        The memory of the part can then have the offset in a page that the part has in the file.
        """
        width = torch.empty((), dtype=self.dtype).element_size()
        is_unchanged = self.nbytes == self.info.nbytes and not self.info.encoding
        return self.is_own and is_unchanged and self.info.offset % width == 0

    @property
    def window_bytes(self):
        """Returns the most bytes that a rank holds while the bucket is read and passed on.

        The result is the same on all ranks, so all ranks have the same buckets.
        """
        if not self.is_own:
            return self.nbytes
        return -(-self.rows // self._ranks) * self.row_bytes

    def part_offset(self):
        """Returns the offset of this rank's part in the file. Only for is_stored."""
        return self.info.offset + self.ranges[0][0] * self.row_bytes

    def ranges_of(self, rank):
        return ranges_of(self.cut, self.shape, rank, self._ranks)

    def part(self, tensor, rank):
        """Returns the part of a rank in rows of the tensor: a view, or a copy of several parts."""
        views = [tensor.narrow(self.cut.dim, *one) for one in self.ranges_of(rank)]
        return views[0] if len(views) == 1 else torch.cat(views, self.cut.dim)


def _nbytes(shape, dtype):
    count = 1
    for size in shape:
        count *= size
    return count * torch.empty((), dtype=dtype).element_size()


def conversion_of(dtype):
    """Returns the name of the type to convert to, or None. Raises an error for another type."""
    name = dtype_name(dtype)
    if name is not None and name not in _converted_to:
        raise usage(f"dtype: tensors can be converted to f64, f32, f16 and bf16, not to {name}")
    return name


def _dtype_of(info, dtype):
    is_blocks = info.type and info.dtype == "u8"
    if dtype is not None and is_blocks:
        raise usage(
            f"tensor '{info.name}': ranks cannot convert tensors of {info.type} together: load "
            "without a dtype, or exclude this tensor"
        )
    name = dtype if dtype is not None and info.dtype in floats else info.dtype
    if name in ("f4", "f6_e2m3", "f6_e3m2"):
        raise usage(f"tensor '{info.name}': ranks cannot load tensors of {name} together")
    return torch_dtype(name)


class Bucket:
    """Tensors that are loaded together."""

    def __init__(self):
        self.items = []
        self.nbytes = 0  # Bytes of the tensors with a position, and of the gaps between them.
        self.laid_out = []  # The items that have a position.
        self.file = None  # Memory that rank 0 has created and not yet mapped.

    def lay_out(self, items):
        """Assigns a position to each item, with the same offset in a page as in its file if
        possible.

        So reads that bypass the page cache need no copy.
        """
        position = 0
        for item in items:
            wanted = item.info.offset % page
            width = torch.empty((), dtype=item.dtype).element_size()
            as_stored = item.nbytes == item.info.nbytes and wanted % width == 0
            if as_stored and not item.info.encoding:
                position += (wanted - position) % page
            else:
                position += -position % _alignment
            item.position = position
            position += item.nbytes
        self.laid_out = items
        self.nbytes = position

    def shares(self, ranks):
        """Returns, for each rank, the Rows that it reads of the items with a position."""
        return shares_of(self.laid_out, ranks)


def shares_of(items, ranks):
    """Returns, for each rank, an equal part of the bytes of these items, as Rows."""
    total = sum(item.nbytes for item in items)
    found = [[] for _ in range(ranks)]
    before = 0
    for item in items:
        bounds = [0]
        for rank in range(1, ranks):
            wanted = total * rank // ranks - before
            bounds.append(max(bounds[-1], _row_at(item, wanted)))
        bounds.append(item.rows)
        for rank in range(ranks):
            if bounds[rank] < bounds[rank + 1] and item.nbytes:
                rows = Rows(item, bounds[rank], bounds[rank + 1] - bounds[rank])
                found[rank].append(rows)
        before += item.nbytes
    return found


def _row_at(item, wanted):
    if wanted <= 0 or item.nbytes == 0:
        return 0
    if wanted >= item.nbytes:
        return item.rows
    if not item.is_splittable:
        return item.rows if wanted * 2 > item.nbytes else 0
    return min(item.rows, round(wanted / item.row_bytes))


def has_small_boxes(files, infos, ranks):
    """Returns True if the boxes are so small that several ranks would read the same pages.

    files: those of a Checkpoint. The exact number of boxes is unknown. The estimate for each tensor
    is one box in each data file or one box for each loading rank, whichever is larger.
    """
    if ranks == 1 or not any(format == "dcp" for _, _, format in files):
        return False
    boxes = len(infos) * max(len(files) - 1, ranks)
    return sum(info.nbytes for info in infos) < boxes * _box_bytes_min


def make_buckets(items, bytes_max):
    """Groups consecutive tensors whose bytes fit. A larger tensor has its own bucket."""
    buckets, held = [], 0
    for item in items:
        if not buckets or (held + item.window_bytes > bytes_max and buckets[-1].items):
            buckets.append(Bucket())
            held = 0
        buckets[-1].items.append(item)
        held += item.window_bytes
    return buckets


def first_bytes(shares, end):
    """Returns the position at which each share begins, and `end`.

    A gap between two shares belongs to the first of them.
    """
    found = [end]
    for share in reversed(shares[1:]):
        rows = share[0] if share else None
        found.append(rows.item.position + rows.first * rows.item.row_bytes if rows else found[-1])
    return [0, *reversed(found)]


def overlap(first, end, other_first, other_end):
    """Returns the number of bytes that two ranges have in common."""
    return max(0, min(end, other_end) - max(first, other_first))


def view_of(memory, item):
    """Returns the tensor of an item in the bytes of its bucket."""
    content = memory[item.position : item.position + item.nbytes]
    return content.view(item.dtype).view(item.shape)


def rows_of(tensor, rows):
    return tensor.narrow(rows.item.split_dim, rows.first, rows.count) if tensor.ndim else tensor


class Reads:
    """The destinations of one read of this rank. Each is a tensor, or a range of one dimension."""

    def __init__(self):
        self.into = {}
        self._ranges = []

    def add(self, item, destination, dim=0, first=0, count=None):
        if destination.numel() == 0:
            return
        self.into[item.name] = destination
        if count is not None and count != item.shape[dim]:
            self._ranges.append((item.name, dim, first, count))

    def add_rows(self, rows, tensor):
        self.add(rows.item, rows_of(tensor, rows), rows.item.split_dim, rows.first,
                 rows.count if rows.item.shape else None)  # fmt: skip

    def selection(self):
        selection = _core.Selection().names(list(self.into))
        for one in self._ranges:
            selection.slice(*one)
        return selection
