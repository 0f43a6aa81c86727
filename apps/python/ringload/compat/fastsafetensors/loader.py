# SPDX-License-Identifier: Apache-2.0
"""Files into the memory of a device: SafeTensorsFileLoader, fastsafe_open, ParallelLoader."""

import collections

from ... import _core
from ..._convert import torch_dtype, torch_of
from ..._errors import OutOfMemoryError
from ..._names import dtype_name
from .. import _shared

_convertible = ("f32", "f16", "bf16")


class BudgetInfeasibleError(ValueError):
    """A tensor does not fit in the memory that was allowed."""


class SingleGroup:
    """A process group of one."""

    def size(self):
        return 1

    def rank(self):
        return 0


class TensorBase:
    """A tensor in a wrapping that knows no framework."""

    def __init__(self, raw):
        self._raw = raw

    def get_raw(self):
        return self._raw

    @property
    def real_tensor(self):
        """The same, by the name that the package's own wrapping of a PyTorch tensor has for it."""
        return self._raw

    def __getattr__(self, name):
        return getattr(self._raw, name)

    def __getitem__(self, index):
        return TensorBase(self._raw[index])

    def clone(self):
        return TensorBase(self._raw.clone())

    def detach(self):
        return TensorBase(self._raw.detach())

    def to(self, device=None, dtype=None):
        return TensorBase(_converted(self._raw, device, dtype))


def _type_of(dtype):
    """The library's name of a type; None for AUTO."""
    text = getattr(dtype, "value", dtype)
    if text is None or str(text).lower() == "auto":
        return None
    return dtype_name(text)


def _converted(tensor, device, dtype):
    name = _type_of(dtype)
    if name is not None:
        tensor = tensor.to(torch_dtype(name))
    if device is not None:
        tensor = tensor.to(device if isinstance(device, str) else device.as_str())
    return tensor


_File = collections.namedtuple("_File", "path rank checkpoint")


class SafeTensorsFileLoader:
    """Loads files, each for a rank, into the memory of one device."""

    def __init__(
        self, pg, device="cpu", bbuf_size_kb=16384, max_threads=16, nogds=False, set_numa=True,
        disable_cache=True, debug_log=False, framework="pytorch", use_fgds=False, **kwargs,
    ):  # fmt: skip
        if framework not in ("pytorch", "pt", "torch"):
            raise ValueError(f"Unknown framework name: {framework}")
        self.pg = pg if pg is not None else SingleGroup()
        self.device = _shared.device_text(device)
        on = self.device if _shared.has_direct(self.device) else "cpu"
        self._loader = _shared.loader(on)
        self._filter = None
        self.reset()

    def reset(self):
        self.meta = {}
        self._files = []
        self._infos = {}

    def close(self):
        self.reset()

    def set_tensor_filter(self, keep_tensor):
        """Only tensors whose name it keeps are there, and read."""
        self._filter = keep_tensor

    def _keeps(self, name):
        return self._filter is None or self._filter(name)

    def add_filenames(self, filenames):
        """{rank: [files]}"""
        lists = [(rank, list(files)) for rank, files in filenames.items()]
        turns = max((len(files) for _, files in lists), default=0)
        opening = [
            (files[turn], rank, self._loader.open(files[turn], strictness="reference"))
            for turn in range(turns)
            for rank, files in lists
            if turn < len(files)
        ]
        for path, rank, operation in opening:
            checkpoint = operation.result()
            self._files.append(_File(path, rank, checkpoint))
            self.meta[path] = (checkpoint, rank)
            self._infos.update((info.name, info) for info in checkpoint.infos())

    def get_keys(self):
        return [name for name in self._infos if self._keeps(name)]

    def get_shape(self, tensor_name):
        if not self._keeps(tensor_name):
            raise ValueError(f"get_shape: key {tensor_name} is filtered out")
        return list(self._infos[tensor_name].shape)

    def copy_files_to_device(
        self, dtype=None, use_buf_register=True, max_copy_block_size=16 << 30,
        allow_inflight=False, borrowed_tensors=False,
    ):  # fmt: skip
        """Loads this rank's files, all at once. Tensors own their memory, also after close()."""
        return FilesBufferOnDevice(self, _type_of(dtype))


class FilesBufferOnDevice:
    """What was loaded, and what other ranks have: those files are read where it is needed."""

    def __init__(self, loader, dtype):
        self.pg = loader.pg
        self.device = loader.device
        self._dtype = dtype
        self._convert = {"dtype": dtype} if dtype in _convertible else {}
        self._places = {}
        for file in sorted(loader._files, key=lambda one: str(one.path)):
            for info in file.checkpoint.infos():
                if not loader._keeps(info.name):
                    continue
                if info.name in self._places:
                    raise Exception(
                        f"FilesBufferOnDevice: key {info.name} must be unique among files"
                    )
                self._places[info.name] = (file, info)
        mine = [file for file in loader._files if file.rank == self.pg.rank()]
        loading = [(file, self._begin(file, loader)) for file in mine]
        self._loaded = {}
        for _file, operation in loading:
            self._loaded.update(operation.result().items())

    def _begin(self, file, loader):
        names = None
        if loader._filter is not None:
            kept = [info.name for info in file.checkpoint.infos() if loader._keeps(info.name)]
            names = _core.Selection().names(kept) if kept else _core.Selection().excluding("*")
        return file.checkpoint.load(names, strictness="reference", **self._convert)

    @property
    def key_to_rank_lidx(self):
        return {name: (file.rank, 0) for name, (file, _) in self._places.items()}

    def close(self):
        """Lets go of what was loaded. Tensors that were taken stay."""
        self._loaded = {}
        self._places = {}

    def _place(self, name):
        if name not in self._places:
            raise ValueError(f"_get_rank: key {name} was not found in files")
        return self._places[name]

    def get_filename(self, tensor_name):
        return self._place(tensor_name)[0].path

    def get_shape(self, tensor_name):
        return list(self._place(tensor_name)[1].shape)

    def _shard(self, name, dim):
        """This rank's block of a tensor, or all of it for -1."""
        file, info = self._place(name)
        ranks, rank = self.pg.size(), self.pg.rank()
        whole = dim == -1 or ranks == 1
        if name in self._loaded:
            tensor = self._on_device(self._loaded[name])
            if whole:
                return tensor
            each = -(-tensor.shape[dim] // ranks)
            first = min(rank * each, tensor.shape[dim])
            count = min(each, tensor.shape[dim] - first)
            return tensor.narrow(dim, first, count).contiguous()
        wanted = _core.Selection().names([name])
        if not whole:
            wanted.shard(name, dim % len(info.shape), rank, ranks)
        return self._on_device(file.checkpoint.load(wanted, **self._convert).result()[name])

    def _on_device(self, tensor):
        made = torch_of(tensor)
        if self._dtype is not None:
            made = made.to(torch_dtype(self._dtype))
        return made if tensor.device == self.device else made.to(self.device)

    def get_sharded_wrapped(self, tensor_name, dim, device=None, dtype=None):
        return TensorBase(self.get_sharded(tensor_name, dim, device, dtype))

    def get_sharded(self, tensor_name, dim, device=None, dtype=None):
        """The block of this rank: ceil(size / ranks) long, at the end shorter or empty."""
        return _converted(self._shard(tensor_name, dim), device, dtype)

    def get_tensor_wrapped(self, tensor_name, device=None, dtype=None):
        return self.get_sharded_wrapped(tensor_name, -1, device, dtype)

    def get_tensor(self, tensor_name, device=None, dtype=None):
        return self.get_sharded(tensor_name, -1, device, dtype)

    def iter_local_tensors(self, tensor_names):
        for name in tensor_names:
            yield name, self.get_tensor(name)

    def push_tensor(self, tensor_name, dst_rank, device=None, dtype=None):
        """The tensor, at that rank; None at others."""
        if self.pg.size() > 1 and self.pg.rank() != dst_rank:
            return None
        return self.get_tensor(tensor_name, device, dtype)

    def get_multi_cols(self, tensor_names, dim, device=None, dtype=None):
        """The blocks of this rank of several tensors, one behind the other in that dimension."""
        import torch

        parts = [self._shard(name, dim) for name in tensor_names]
        meant = parts[0].dtype
        if meant.is_floating_point and meant.itemsize == 1:  # PyTorch joins these as bytes only.
            parts = [part.view(torch.uint8) for part in parts]
        joined = torch.cat(parts, dim=dim).view(meant)
        return TensorBase(_converted(joined, device, dtype))

    def as_dict(self, tensor_shard_dim):
        return {name: self.get_sharded_wrapped(name, dim) for name, dim in tensor_shard_dim.items()}


class fastsafe_open:  # the name it stands in for
    """Opens one file, several, or {rank: [files]}, and loads them."""

    def __init__(
        self, filenames, framework="pt", pg=None, device="cpu", nogds=False, debug_log=False,
        max_copy_block_size=16 << 30, use_fgds=False,
    ):  # fmt: skip
        self.loader = SafeTensorsFileLoader(pg, device, framework=framework)
        if not isinstance(filenames, dict):
            filenames = {0: filenames if isinstance(filenames, list) else [filenames]}
        self.loader.add_filenames(filenames)
        self.fb = self.loader.copy_files_to_device()

    def metadata(self):
        return {path: checkpoint.metadata for path, (checkpoint, _) in self.loader.meta.items()}

    def keys(self):
        return list(self.fb._places)

    get_keys = keys

    def get_tensor_wrapped(self, name):
        return self.fb.get_tensor_wrapped(name)

    def get_tensor(self, name):
        return self.fb.get_tensor(name)

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.fb.close()
        self.loader.close()


class ParallelLoader:
    """(name, tensor) pairs of many files, the next of which are read while these are used.

    With `max_batch_bytes`, or `device_memory_budget` and accumulate_resident=False, all goes
    through a window of that much memory, and a tensor must be dropped before the next comes; else
    queue_size + 2 files are on their way (with -1 one), and tensors may be kept.
    """

    def __init__(
        self, pg, hf_weights_files, max_concurrent_producers=1, queue_size=0,
        use_tqdm_on_load=True, device="cpu", bbuf_size_kb=16384, max_threads=16, nogds=False,
        set_numa=True, debug_log=False, framework="pytorch", tensor_filter=None, all_local=False,
        max_batch_bytes=None, use_chunk_budget_as_allocation_size=False,
        device_memory_budget=None, accumulate_resident=True, resident_tensor=None, **kwargs,
    ):  # fmt: skip
        if max_concurrent_producers != 1:
            raise ValueError("max_concurrent_producers must be 1")
        self._device = _shared.device_text(device)
        on = self._device if _shared.has_direct(self._device) else "cpu"
        self._loader = _shared.loader(on)
        self._files = list(hf_weights_files)
        self._ahead = max(1, queue_size + 2)
        self._filter = tensor_filter
        self._window = max_batch_bytes
        if self._window is None and not accumulate_resident:
            self._window = device_memory_budget
        self._shows = use_tqdm_on_load and (pg is None or pg.rank() == 0)
        self._running = []
        self._closed = False

    def iterate_weights(self):
        if self._closed:
            raise RuntimeError("the loader is closed")
        for name, tensor in self._shown(self._windowed() if self._window else self._file_by_file()):
            made = torch_of(tensor)
            del tensor
            yield name, made if self._device == "cpu" or made.is_cuda else made.to(self._device)
            del made

    def _select(self):
        keep = self._filter
        return None if keep is None else (lambda info: keep(info.name))

    def _windowed(self):
        stream = self._loader.stream(self._files, window=self._window, select=self._select())
        self._running = [stream]
        try:
            yield from stream
        except OutOfMemoryError as failure:
            raise BudgetInfeasibleError(str(failure)) from failure

    def _file_by_file(self):
        left = list(self._files)
        while (left or self._running) and not self._closed:
            while left and len(self._running) < self._ahead:
                self._running.append(self._loader.stream(left.pop(0), select=self._select()))
            yield from self._running[0]
            self._running.pop(0)

    def _shown(self, pairs):
        if not self._shows:
            return pairs
        try:
            from tqdm import tqdm
        except ImportError:
            return pairs
        return tqdm(pairs, desc="Loading safetensors")

    def close(self):
        self._closed = True
        for stream in self._running:
            stream.cancel()
        self._running = []
