# SPDX-License-Identifier: Apache-2.0
"""An open checkpoint, whose tensors are read on request."""

import re
from collections.abc import ItemsView, KeysView, ValuesView

from . import _core
from ._closed_catalog import ClosedCatalog
from ._errors import no_tensor, usage
from ._operation import Operation, one_step
from ._options import load_options, selection_of
from ._tensor_info import TensorInfo

# Types whose blocks the engine can dequantise. It counts the elements of such a tensor in a slice,
# and `shape` counts the bytes.
_block_type = re.compile(r"i?q\d|tq\d|mxfp4|nvfp4")


class StoredTensor:
    """A tensor in its file. `stored[0:128]` reads only that range, and `stored[:]` reads the
    tensor.

    An index has slices with a step of 1, at most one for each dimension, and `...`.
    """

    __slots__ = ("_checkpoint", "info")

    def __init__(self, checkpoint, info):
        self._checkpoint = checkpoint
        self.info = info

    @property
    def name(self):
        return self.info.name

    @property
    def dtype(self):
        return self.info.dtype

    @property
    def shape(self):
        return self.info.shape

    @property
    def nbytes(self):
        return self.info.nbytes

    def load(self, index=()):
        """Returns an operation that reads the Tensor, or its part that `index` selects."""
        selection = _core.Selection().names([self.name])
        parts = list(ranges(index, self.shape))
        if parts and self.info.original_shape and _block_type.match(self.info.type):
            raise usage(
                f"tensor '{self.name}': a range of {self.info.type} blocks cannot be read: load the "
                "whole tensor, or ringload.load(..., dtype=..., select=...) with a slice of elements"
            )
        for dim, first, count in parts:
            selection.slice(self.name, dim, first, count)
        checkpoint, name = self._checkpoint, self.name
        engine, opened = checkpoint._open_engine(), checkpoint._open_files()

        def steps():
            model = yield engine.load(opened, selection, {})
            return model[name]

        return Operation(steps())

    def __getitem__(self, index):
        return self.load(index).result()

    def __repr__(self):
        return f"<ringload.StoredTensor '{self.name}' {self.dtype} {self.shape}>"


def _check_range(part):
    """Raises an error for an index that is not a slice.

    Its text says which slice reads the same.
    """
    if isinstance(part, slice):
        return
    if hasattr(part, "__index__") and not hasattr(part, "shape"):
        row = part.__index__()
        one = f"{row}:{row + 1}" if row != -1 else "-1:"
        raise TypeError(
            f"the index {row}: ranges are slices, which keep the dimension: write [{one}] for this "
            "index, or index the array that [:] returns"
        )
    raise TypeError(
        f"an index of type {type(part).__name__}: ranges are slices: read [:], then index the array"
    )


def ranges(index, shape):
    """Returns (dimension, first, count) for each dimension that slices restrict, as in Python."""
    index = index if isinstance(index, tuple) else (index,)
    dots = [at for at, part in enumerate(index) if part is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index must have at most one '...'")
    if dots:
        at = dots[0]
        whole = len(shape) - (len(index) - 1)
        index = (*index[:at], *([slice(None)] * whole), *index[at + 1 :])
    for part in index:
        _check_range(part)
    if len(index) > len(shape):
        raise IndexError(f"{len(index)} ranges, but the tensor has {len(shape)} dimensions")
    found = []
    for dim, part in enumerate(index):
        first, last, step = part.indices(shape[dim])
        if step != 1:
            raise ValueError(
                f"the step {step}: expected a step of 1: read the range, then index the array with "
                "this step"
            )
        count = max(0, last - first)
        if count != shape[dim]:
            found.append((dim, first if count else 0, count))
    return found


class Checkpoint:
    """Open files and their catalog: a mapping of names to StoredTensors.

    The loader that opened it makes all reads. ringload.open() creates a separate loader with
    threads: use `with`, or call close(). A closed Checkpoint keeps its catalog, but not its files.
    """

    def __init__(self, opened, engine, owned_loader=None):
        self._opened = opened
        self._engine = engine
        self._owned_loader = owned_loader

    def _open_engine(self):
        if self._engine is None:
            raise RuntimeError("the Checkpoint is closed: open it again")
        return self._engine

    def _open_files(self):
        """Returns the opened checkpoint of the engine."""
        self._open_engine()
        return self._opened

    def __getitem__(self, name):
        found = self._opened.find(name) if isinstance(name, str) else None
        if found is None:
            raise no_tensor(name)
        return StoredTensor(self, TensorInfo(found))

    def get(self, name, default=None):
        return self[name] if name in self else default

    def __len__(self):
        return len(self._opened)

    def __iter__(self):
        return iter(self._opened.names())

    def __reversed__(self):
        return reversed(self._opened.names())

    def __contains__(self, name):
        return isinstance(name, str) and self._opened.find(name) is not None

    def keys(self):
        """Returns a view of the names, in the order of the files."""
        return KeysView(self)

    def values(self):
        return ValuesView(self)

    def items(self):
        return ItemsView(self)

    def infos(self):
        """The descriptions of all tensors. Reads no tensor."""
        return [TensorInfo(fields) for fields in self._opened.infos()]

    @property
    def nbytes(self):
        return sum(info.nbytes for info in self.infos())

    @property
    def metadata(self):
        """The metadata of the files."""
        return dict(self._opened.metadata())

    @property
    def files(self):
        """(path, bytes, format) of each file."""
        return self._opened.files()

    @property
    def composites(self):
        """Objects that are stored as several tensors, such as sparse ones."""
        return self._opened.composites()

    @property
    def notes(self):
        """Unusual properties of the files that do not make a load fail."""
        return self._opened.notes()

    def load(self, select=None, **options):
        """Returns an operation that loads the selected tensors into a Model. See Loader.load."""
        engine, opened = self._open_engine(), self._opened
        selection = selection_of(select, opened)
        given = load_options(options)
        return one_step(lambda: engine.load(opened, selection, given))

    def close(self):
        """Closes the files, and the loader if ringload.open() created it.

        Loads that have begun without an own loader continue. Loaded tensors stay valid.
        """
        if self._engine is None:
            return
        self._engine = None
        if self._owned_loader is not None:
            self._owned_loader.close()
        self._opened = ClosedCatalog(self._opened)

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.close()

    def __reduce_ex__(self, protocol):
        raise TypeError(
            "a Checkpoint cannot be pickled or copied: send its path, and open the path again"
        )

    def __repr__(self):
        return f"<ringload.Checkpoint of {len(self)} tensors>"
