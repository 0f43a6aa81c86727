# SPDX-License-Identifier: Apache-2.0
"""Loader: an engine, and the operations that run on it."""

import atexit
import weakref

from . import _core, _deltas, _save
from ._checkpoint import Checkpoint
from ._convert import wait_for_pytorch
from ._destinations import Destinations, require_none_left_out
from ._errors import UsageError
from ._hdf5 import parser_program
from ._load import Load, Stream
from ._names import device_name, dtype_name, path_text, size
from ._operation import Operation, begin_end, let_waiting_return, one_step
from ._options import dtype_names, is_list, load_options, selection_of, source_text, with_sizes
from ._process_bound import ProcessBound
from ._progress import reporter
from ._ranks import GroupLoad
from ._remote import Network
from ._results import Filled

_open_engines = weakref.WeakSet()


def _close_engines():
    begin_end()
    for engine in list(_open_engines):
        engine.close()
    let_waiting_return(1)


def _source_steps(engine, source, select, strictness=None, nameless=None):
    """Prepares a source for the engine: returns its name, or the object that was opened for it."""
    if isinstance(source, Checkpoint):
        return source._open_files()
    if not is_list(source) and not callable(select):
        return source
    return (yield engine.open(source, {"strictness": strictness, "nameless": nameless}))


class Loader(ProcessBound):
    """Loads checkpoints into the memory of its devices, with buffers of bounded size.

    Use `with` or `async with`, or call close(). An operation begins with the call of its method. It
    can be awaited, and result() waits for it. Below, "Returns" names the result of an operation.
    Any thread may use the loader.

    The library copies GPU memory on its own streams. Methods that take tensors (fill, save, update,
    apply, copy) first wait for the current stream of PyTorch on each GPU that has one of the
    tensors. All other work that uses the tensors must have completed before the call: work on other
    streams of PyTorch, and work of other libraries, such as CuPy and JAX.
    """

    _instead = "make one in each process"

    def __init__(self, device="cpu", *, hdf5=None, remote=None, offline=None, **limits):
        """device: "cpu", "cuda:0", "shared" for host memory that a Keeper can publish, or a list of
            devices. "cuda" means "cuda:0", which may differ from PyTorch's current GPU. on(),
            replicate(), spread() and shard() of a Selection choose a device of the list.
        hdf5: True reads HDF5 files. None reads them if this ringload was built with HDF5.
        remote: None allows http(s)://, hf:// and s3:// sources, and downloads "owner/model" from
            the hub if the local cache lacks it. True does the same, and is an error if this
            ringload was built without network sources. A dictionary
            (ringload.options.RemoteOptions) also has settings; other settings come from the
            environment. False does not use the network.
        offline: True opens no connection. None uses the value of HF_HUB_OFFLINE.
        limits: a ringload.options.LoaderOptions.

        apps/python/OPTIONS.md describes all options.
        """
        if not _open_engines:
            atexit.unregister(_close_engines)
            atexit.register(_close_engines)
        several = device if isinstance(device, (list, tuple)) else [device]
        devices = [device_name(one) for one in several]
        self._network = Network(remote, offline)
        self._engine = _core.Engine(
            devices, with_sizes(limits), parser_program(hdf5), self._network.store
        )
        _open_engines.add(self._engine)

    def _named(self, source):
        if isinstance(source, Checkpoint):
            return source
        _deltas.refuse_version_folder(source)
        return self._network.prepare(source_text(source))

    def open(self, source, *, strictness=None, independent_files=None, nameless=None):
        """Opens a checkpoint and reads its catalog. Returns a Checkpoint."""
        if isinstance(source, Checkpoint):
            raise TypeError("source is an open Checkpoint: expected a name or a list of files")
        engine = self._engine
        named = self._named(source)
        how = {"strictness": strictness, "independent_files": independent_files}
        if nameless is not None:
            how["nameless"] = dtype_names(nameless)

        def steps():
            return Checkpoint((yield engine.open(named, how)), engine)

        return Operation(steps())

    def load(self, source, *, dtype=None, select=None, progress=None, **options):
        """Loads all selected tensors of `source`, or none. Returns a Model.

        source: a file, a folder, an index, "owner/model" of the local Hugging Face cache, several
            files, or a Checkpoint.
        dtype: floating-point tensors are converted to "f32", "f16" or "bf16".
        select: one or several globs, a Selection, or a function of a TensorInfo.
        progress: True for a line on standard error, a function of a dictionary, or a bar of tqdm.
            The waiting thread or task calls it ten times a second and at the end.

        options:
        route: "automatic" (default), "direct" (O_DIRECT, or an error), "buffered" (page cache).
        allocation: the tensors that share one allocation, which is freed as a whole: "per_load"
            (default), "per_file" or "per_tensor".
        tensor_alignment: the least alignment of each tensor's address, a power of two up to 4096,
            and up to 256 for a GPU.
        memory: "owned" (default), or "mapped": views of the files. With "mapped" also
            access: "read_only" (default) or "copy_on_write". With "read_only", .torch() warns,
                because a write to its result ends the process;
            unmappable: "refuse" (default) or "copy" tensors that cannot be views;
            populate: True reads all pages before the load ends.
        verify: "if_present" or "require" for the digests in the files, the path of a checksum list,
            or the `digests` of a Saved.
        strictness: "strict" (default) refuses files that violate the rules of the format;
            "reference" accepts the files that the reference package of the format accepts.
        nameless: the types of tensors whose type has no name in files of NumPy, such as ["bf16"].

        For a local folder with deltas, the newest version is loaded, without options, as by
        load_version().
        """
        if _deltas.is_version_folder(source):
            _deltas.refuse_options(
                {"dtype": dtype, "select": select, "progress": progress or None, **options}
            )
            return self.load_version(source)
        engine = self._engine
        given = load_options({"dtype": dtype, **options})
        report = reporter(progress)
        source = self._named(source)

        def steps():
            place = yield from _source_steps(
                engine, source, select, given.get("strictness"), given.get("nameless")
            )
            wanted = selection_of(select, place)
            if report is None:
                return (yield engine.load(place, wanted, given))
            loading = yield engine.start(place, wanted, given)
            itself()._tick = lambda: report(loading.progress())
            model = yield loading.finish()
            report(model.stats)
            return model

        operation = Operation(steps(), ticking=report is not None)
        itself = weakref.ref(operation)  # A strong reference would keep a dropped operation alive.
        return operation

    def start(self, source, *, dtype=None, select=None, **options):
        """Begins a load. Returns a Load when the catalog is known and the memory is allocated."""
        return self._start(source, select, load_options({"dtype": dtype, **options}))

    def stream(self, source, *, window=None, dtype=None, select=None, **options):
        """Yields (name, tensor) pairs as tensors arrive.

        With a window, at most `window` bytes of memory are used, and tensors arrive in file order.
        """
        given = load_options({"dtype": dtype, **options})
        return Stream(self._start(source, select, given, size(window, "window")))

    def _start(self, source, select, given, window=None):
        engine = self._engine
        source = self._named(source)

        def steps():
            place = yield from _source_steps(
                engine, source, select, given.get("strictness"), given.get("nameless")
            )
            wanted = selection_of(select, place)
            if window is None:
                return Load((yield engine.start(place, wanted, given)), engine)
            return Load((yield engine.stream(place, window, wanted, given)), engine)

        return Operation(steps())

    def group_load(self, group, source, *, reading="divided", dtype=None, **options):
        """Loads `source` together with the other ranks of a Group. Returns a GroupLoad.

        Every rank calls this method, with a source that has the same tensors. The operation ends
        when all ranks have read their parts. A Group runs only one such load at a time, and the
        loader must be for the host.

        source: a name or a list of files. A Checkpoint is refused, because each rank opens the
            files itself.
        reading: with "divided", each rank reads an equal part of the bytes and passes it to the
            other ranks in memory. With "own", each rank reads the tensors that it requests, on
            request.
        options: strictness, nameless, route, allocation; verify: "if_present" or "require".
        """
        engine = self._engine
        if isinstance(source, Checkpoint):
            raise TypeError("ranks open the source themselves: pass its name, not a Checkpoint")
        source = self._named(source)
        given = load_options({"dtype": dtype, **options})

        def steps():
            return GroupLoad((yield engine.group_load(group, source, reading, given)), engine)

        return Operation(steps())

    def fill(self, source, tensors, *, missing=None, unexpected=None, dtype=None, shape=None,
             select=None, **options):  # fmt: skip
        """Fills existing tensors of any library with the tensors of the same names.

        All tensors are checked before the first write. Returns a Filled.

        tensors: a mapping of names to tensors, or a PyTorch module, whose parameters and persistent
            buffers are filled. Names that share memory (tied weights) are filled as by
            load_state_dict(): it suffices if the file has one of them. State of a module that is
            not a tensor counts as a destination without a tensor.
        missing: for a destination without a tensor: "error" (default) or "report".
        unexpected: for a tensor without a destination: "ignore" (default), "report" or "error".
        dtype: "exact" (default) refuses another element type. "convert" converts values: floats are
            rounded to the nearest float, or truncated to integers. A value outside the range of an
            integer type becomes the nearest limit, and NaN becomes 0, whereas PyTorch's copy_()
            wraps.
        shape: "exact" (default) refuses another shape. "broadcast" broadcasts to the destination.
        select and options: see load().

        The library cannot write directly to unaligned memory, to the other byte order, or to
        conjugated or negated PyTorch views. Such memory is filled through a copy. Immutable
        tensors, such as JAX arrays, are refused.
        """
        engine = self._engine
        into = Destinations(tensors)
        if missing != "report":
            require_none_left_out(into.left_out)
        policies = {"missing": missing, "unexpected": unexpected, "dtype": dtype, "shape": shape}
        given = load_options(options)
        source = self._named(source)

        def steps():
            place = source._open_files() if isinstance(source, Checkpoint) else None
            if place is None:
                place = yield engine.open(
                    source,
                    {"strictness": given.get("strictness"), "nameless": given.get("nameless")},
                )
                itself()._require_not_cancelled()
            wanted = selection_of(select, place)
            fields = into.fields(place.names)
            into.wait_for_pytorch()
            filling = engine.fill(place, fields, policies, wanted, given)
            try:
                done = yield filling
            except BaseException as failure:
                into.note_failure(failure)
                raise
            return Filled(into.finish(done["missing"]), done["unexpected"], done["stats"])

        operation = Operation(steps())
        itself = weakref.ref(operation)
        return operation

    def save(self, path, tensors, *, progress=None, **options):
        """Saves tensors of any library, as safetensors, or as .zt if the name ends with .zt.

        An existing file is replaced when the new file is complete. Returns a Saved.

        path: "x.safetensors", "x.zt", or a name without an ending for a folder of safetensors
            files. Also "s3://bucket/x.safetensors" and "s3://bucket/x.zt".
        tensors: a mapping of names to tensors. The metadata of a Model is saved too, unless
            `metadata` is set. A Model with quantised blocks raises a UsageError, because a save
            would drop their type.
        progress: see load().

        options:
        metadata: a dict of str to str; {} for none.
        dtype: floating-point tensors are converted to this type: "f32", "bf16", ...
        shard_bytes, shard_count: the largest size of a file in the folder, or the number of files.
        alignment: the alignment of the first tensor: 8 (default), or a power of two up to 2 MiB.
        order: "reference" (default), the order of the package safetensors, or "given".
        format: "by_name" (default), "safetensors" or "zt".
        replace: False raises FileExistsError if the path is there. Default True.
        sync: False does not wait for the drive. Default True.
        read_back: True reads the file again and compares its bytes with the tensors.
        digest: "crc32c" or "sha256" of each tensor. A .zt file contains the digest (for
            verify="require" of a load). For safetensors, the Saved has it.
        zstd_level: compresses a .zt file. With zstd_level, a digest, or metadata other than text,
            only the options metadata, zstd_level, digest, replace and sync are allowed.
        A .zt file contains tensors that share the same memory only once.
        """
        path, store = self._network.prepared_for(path_text(path))
        return _save.save(self._engine, path, tensors, options, progress, store)

    def save_delta(self, path, base, next, *, zstd_level=None, window=None, indexed=None,
                   checksum=None, replace=None, sync=None):  # fmt: skip
        """Writes the delta from checkpoint `base` to checkpoint `next`. Returns a SavedDelta.

        path: the path of the .zt file, or of the folder if `indexed` is given. It appears when it
            is complete.
        base, next: sources as in load(): a name, a list of files, or a Checkpoint.
        zstd_level: 1 to 22, or 0 for no compression. Default 3.
        window: the memory for tensors of both versions. Default "512MiB".
        indexed: "xor" or "overwrite" writes a folder with an index, as slime, SGLang and
            ModelExpress read it, with this encoding of changed bytes. The name of the folder has
            the version: "weight_v000007".
        checksum: the digests of such a folder, "xxh3-128" (the default) or "adler32", which
            ModelExpress needs.
        replace: False raises FileExistsError if the path is there. Default True.
        sync: False does not wait for the drive. Default True.
        """
        if checksum is not None and indexed is None:
            raise UsageError("checksum is only for a delta with an index: pass indexed too")
        options = {
            "zstd_level": zstd_level,
            "window_bytes": size(window, "window"),
            "indexed": indexed,
            "checksum": checksum,
            "replace": replace,
            "sync": sync,
        }
        base, next = (
            source._open_files() if isinstance(source, Checkpoint) else source
            for source in (self._named(base), self._named(next))
        )
        return _deltas.save_delta(self._engine, path_text(path), base, next, options)

    def apply(self, model, delta, *, check_unchanged=True):
        """Returns the next version of a Model as a Model. `model` does not change.

        Unchanged tensors are shared, so a version needs memory only for its changed tensors. A
        delta of another base, or a damaged delta, raises an Error.

        check_unchanged: False does not compare tensors that the delta does not change.
        """
        delta = self._named(delta)
        if isinstance(model, _core.Model):
            wait_for_pytorch(model.values())
        return one_step(lambda: self._engine.apply(model, delta, check_unchanged))

    def update(self, tensors, delta, *, check_unchanged=True):
        """Updates tensors of any library in place to the next version. Returns an Updated.

        After an update that failed or was cancelled, all tensors have their old bytes.

        tensors: a mapping of names to tensors of the base version, or a PyTorch module. The tensors
            must be in memory of the loader's first device, dense and row-major. For tensors that
            share memory, pass the name that the checkpoint has.
        check_unchanged: see apply().
        """
        return _deltas.update(self._engine, tensors, self._named(delta), check_unchanged)

    def load_version(self, folder, version=None):
        """Loads a version of a local version folder. Returns a Model.

        The folder has the full version 0 and then deltas: v0.safetensors, v1.delta.zt, v2.delta.zt.
        More full versions shorten the chain of deltas. An error names the file at which the chain
        breaks.

        version: a number, or None for the newest version.
        """
        return _deltas.load_version(self._engine, folder, version)

    def follow(self, folder, *, period=1.0, into=None):
        """Yields the newest version of a local version folder, and then each version as it appears.

            async for number, model in loader.follow("run7/versions"):
                ...

        A version that cannot be applied, or a missing delta, raises an Error that names the file.
        The last version that was yielded stays valid.

        period: the seconds between two checks of the folder.
        into: tensors that are updated in place, as by update(). The yielded models are then None.
            If the first version, or a version after a gap, fails, the tensors are incomplete.
        """
        return _deltas.follow(self, folder, period, into)

    def copy(self, tensor, *, device=None, dtype=None):
        """Returns a copy of a Tensor, on another device or of another type."""
        device = None if device is None else device_name(device)
        wait_for_pytorch([tensor])
        return one_step(lambda: self._engine.copy(tensor, device, dtype_name(dtype)))

    @property
    def stats(self):
        """The methods that the loader reads with, and the reasons for them."""
        return self._engine.stats()

    @property
    def memory(self):
        """The memory of the loader that is in use."""
        return self._engine.memory()

    def metrics(self, name=""):
        """Returns the metrics for Prometheus, as text. `name` is the label "loader"."""
        return self._engine.metrics(name)

    @property
    def closed(self):
        return self._engine.closed()

    def close(self):
        """Cancels all operations, and waits until neither kernel nor device uses its memory."""
        self._engine.close()
        self._network.close()

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.close()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *failure):
        import asyncio

        await asyncio.get_running_loop().run_in_executor(None, self.close)
