# SPDX-License-Identifier: Apache-2.0
"""A checkpoint that was opened once; its tensors are read when they are asked for."""

from . import _core
from ._operation import one_step


class TensorInfo:
    """One tensor of a checkpoint: what it is, and where its bytes lie."""

    __slots__ = ("name", "dtype", "shape", "file", "offset", "nbytes", "encoding", "stored_bytes",
                 "type", "original_shape", "digest", "attributes")  # fmt: skip

    def __init__(self, fields):
        for name, value in fields.items():
            setattr(self, name, value)

    def __repr__(self):
        return f"<ringload.TensorInfo '{self.name}' {self.dtype} {self.shape}>"


class StoredTensor:
    """A tensor in its file. `stored[0:128]` reads that range and no more, `stored[:]` all of it."""

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
        """An operation that gives the Tensor, or the range of it that slices name."""
        wanted = _core.Selection().names([self.name])
        for dim, first, count in ranges(index, self.shape):
            wanted.slice(self.name, dim, first, count)
        checkpoint, name = self._checkpoint, self.name

        def steps():
            model = yield checkpoint._engine.load(checkpoint._opened, wanted, {})
            return model[name]

        from ._operation import Operation

        return Operation(steps())

    def __getitem__(self, index):
        return self.load(index).result()

    def __repr__(self):
        return f"<ringload.StoredTensor '{self.name}' {self.dtype} {self.shape}>"


def ranges(index, shape):
    """(dimension, first, count) for each dimension that slices restrict, by Python's rules."""
    index = index if isinstance(index, tuple) else (index,)
    if Ellipsis in index:
        at = index.index(Ellipsis)
        whole = len(shape) - (len(index) - 1)
        index = (*index[:at], *([slice(None)] * whole), *index[at + 1 :])
    if len(index) > len(shape):
        raise IndexError(f"{len(index)} ranges, and the tensor has {len(shape)} dimensions")
    found = []
    for dim, one in enumerate(index):
        if not isinstance(one, slice):
            raise TypeError("a range is a slice: write [i:i + 1] for one row")
        first, last, step = one.indices(shape[dim])
        if step != 1:
            raise ValueError("ranges have a step of 1")
        count = max(0, last - first)
        if count != shape[dim]:
            found.append((dim, first if count else 0, count))
    return found


class Checkpoint:
    """Open files and their catalog: a mapping of names to StoredTensors.

    It reads by the loader that it was opened with.
    """

    def __init__(self, opened, engine, owned_loader=None):
        self._opened = opened
        self._engine = engine
        self._owned_loader = owned_loader

    def __getitem__(self, name):
        found = self._opened.find(name)
        if found is None:
            from ._errors import make

            raise make("no_such_tensor", 0, f"no tensor '{name}' in the checkpoint", name)
        return StoredTensor(self, TensorInfo(found))

    def get(self, name, default=None):
        return self[name] if name in self else default

    def __len__(self):
        return len(self._opened)

    def __iter__(self):
        return iter(self._opened.names())

    def __contains__(self, name):
        return isinstance(name, str) and self._opened.find(name) is not None

    def keys(self):
        """The names, in the files' order."""
        return self._opened.names()

    def values(self):
        return [StoredTensor(self, info) for info in self.infos()]

    def items(self):
        return [(info.name, StoredTensor(self, info)) for info in self.infos()]

    def infos(self):
        """What there is, without a byte of it."""
        return [TensorInfo(fields) for fields in self._opened.infos()]

    @property
    def nbytes(self):
        return sum(info.nbytes for info in self.infos())

    @property
    def metadata(self):
        """The files' own metadata."""
        return dict(self._opened.metadata())

    @property
    def files(self):
        """(path, bytes, format) of each."""
        return self._opened.files()

    @property
    def composites(self):
        """Objects that are stored as several tensors, such as sparse ones."""
        return self._opened.composites()

    @property
    def notes(self):
        """What is odd about the files and fails no load."""
        return self._opened.notes()

    def load(self, select=None, **options):
        """An operation that loads what is chosen, as Loader.load does."""
        from ._loader import load_options, selection_of

        wanted = selection_of(select, self._opened)
        given = load_options(options)
        return one_step(lambda: self._engine.load(self._opened, wanted, given))

    def close(self):
        """Closes the loader, where ringload.open() made one for it. Loaded tensors stay."""
        if self._owned_loader is not None:
            self._owned_loader.close()

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.close()

    def __repr__(self):
        return f"<ringload.Checkpoint of {len(self)} tensors>"
