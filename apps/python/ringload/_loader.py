# SPDX-License-Identifier: Apache-2.0
"""Loader: an engine of its own, and the operations that run on it."""

import atexit
import weakref

from . import _convert, _core, _zt
from ._checkpoint import Checkpoint
from ._destinations import Destinations
from ._errors import Error
from ._load import Load, Stream
from ._names import device_name, dtype_name, path_text
from ._operation import Operation, begin_end, let_waiting_return, one_step, reported
from ._options import dtype_names, is_list, load_options, selection_of, source_text, with_sizes
from ._progress import reporter, save_reporter
from ._ranks import GroupLoad
from ._results import Filled, Saved

_open_engines = weakref.WeakSet()


def _close_engines():
    begin_end()
    for engine in list(_open_engines):
        engine.close()
    let_waiting_return(1)


def _source_steps(engine, source, select, strictness=None, nameless=None):
    """What the engine is given for a source: its name, or what was opened for it."""
    if isinstance(source, Checkpoint):
        return source._opened
    if not is_list(source) and not callable(select):
        return source
    return (yield engine.open(source, {"strictness": strictness, "nameless": nameless}))


class Loader:
    """Loads checkpoints into the memory of its devices, with buffers of a size that is bounded.

    Use it by `with` or `async with`, or call close(). Its operations begin when they are called;
    each can be awaited, or waited for by result(). May be used from any thread.
    """

    def __init__(self, device="cpu", *, hdf5=False, remote=False, **limits):
        """remote: True, or a dictionary of settings, for http(s)://, hf:// and s3:// as sources.

        Settings: token, cache ("off", "read", "fill"), endpoint and cache_folder for the hub;
        on_cached, a function of a dictionary (name, whole, missing_bytes, why) for each file that
        was to be written into the local cache, once no load uses it any more: called in a thread of
        Python's, or by close();
        region, s3_endpoint, access_key_id, secret_access_key, session_token, path_style for S3;
        connections, chunk_bytes, whole_bytes_max, threads, connect_seconds_max,
        silence_seconds_max, stall_seconds_max (without progress of the server, with all tries),
        request_seconds_max, tries_max, retry_seconds, retry_seconds_max,
        redirects_max, private_redirects, hosts, proxy, ca_file and offline for all.
        ringload.features()["remote"] says whether it was built for these.

        limits, all optional: slots (1 to 1024 buffers, so many reads in flight), slot_bytes (64KiB
        to 64MiB, the largest read), bytes_in_flight, arena_bytes_max (of the tensors of one load),
        cached_bytes (freed memory that is kept for the next loads), copy_threads, reader_threads (1
        to 64), engine ("automatic", "ring" for io_uring, "threads"), huge_pages ("transparent",
        "reserved", "none"). Sizes are numbers or texts such as "4MiB".

        device: "cpu", "cuda:0", or "shared": memory of the host that a Keeper can publish. Or
            several, among which a Selection's on(), replicate(), spread() and shard() choose.
        """
        if not _open_engines:
            atexit.unregister(_close_engines)
            atexit.register(_close_engines)
        settings = self._reports = None
        if remote:
            settings = {} if remote is True else with_sizes(dict(remote))
            if settings.get("on_cached") is not None:
                from ._cache_reports import CacheReports

                self._reports = CacheReports(settings["on_cached"])
                settings["on_cached"] = self._reports.to
        several = device if isinstance(device, (list, tuple)) else [device]
        devices = [device_name(one) for one in several]
        self._engine = _core.Engine(devices, with_sizes(limits), hdf5, settings)
        self._remote = bool(remote)
        _open_engines.add(self._engine)

    def _named(self, source):
        return source if isinstance(source, Checkpoint) else source_text(source, self._remote)

    def open(self, source, *, strictness=None, independent_files=None, nameless=None):
        """Opens a checkpoint and reads its catalog. Gives a Checkpoint."""
        engine = self._engine
        named = self._named(source)
        how = {"strictness": strictness, "independent_files": independent_files}
        if nameless is not None:
            how["nameless"] = dtype_names(nameless)

        def steps():
            return Checkpoint((yield engine.open(named, how)), engine)

        return Operation(steps())

    def load(self, source, *, dtype=None, select=None, progress=None, **options):
        """Loads all that is chosen of `source`, or nothing. Gives a Model.

        source: a file, a folder, an index, "owner/model" of the local Hugging Face cache, several
            files, or a Checkpoint.
        dtype: floating tensors become "f32", "f16" or "bf16" as they land.
        select: a glob or several, a Selection, or a function of a TensorInfo.
        progress: True for a line on standard error, a function of a dictionary, or a bar of tqdm:
            called ten times a second by whoever waits, and at the end.

        options:
        route: "automatic" (default), "direct" (O_DIRECT, or an error), "buffered" (page cache).
        allocation: which tensors share memory, which is freed as a whole: "per_load" (default),
            "per_file" or "per_tensor".
        memory: "owned" (default), or "mapped": views of the files. With "mapped" also
            access: "read_only" (default) or "copy_on_write";
            unmappable: "refuse" (default) or "copy" tensors that cannot be views;
            populate: True reads all pages before the load ends.
        verify: "if_present" or "require" for digests that the files hold, a manifest's path, or
            the `digests` of a Saved.
        strictness: "strict" (default) refuses what breaks the format's rules; "reference" accepts
            what the format's own package accepts.
        nameless: the types of tensors in NumPy's files that have no name there, such as ["bf16"].
        """
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
            operation._tick = lambda: report(loading.progress())
            model = yield loading.finish()
            report(model.stats)
            return model

        operation = Operation(steps(), ticking=report is not None)
        return operation

    def start(self, source, *, dtype=None, select=None, **options):
        """Begins a load. Gives a Load as soon as its catalog is known and its memory taken."""
        return self._start(source, select, load_options({"dtype": dtype, **options}))

    def stream(self, source, *, window=None, dtype=None, select=None, **options):
        """(name, tensor) pairs as they land; through `window` bytes of memory, in their order."""
        options = {"dtype": dtype, "window": window, **options}
        return Stream(self._start(source, select, load_options(options)))

    def _start(self, source, select, given):
        engine = self._engine
        source = self._named(source)

        def steps():
            place = yield from _source_steps(
                engine, source, select, given.get("strictness"), given.get("nameless")
            )
            return Load((yield engine.start(place, selection_of(select, place), given)), engine)

        return Operation(steps())

    def group_load(self, group, source, *, reading="divided", dtype=None, **options):
        """Loads `source` together with the other ranks of a Group. Gives a GroupLoad.

        Every rank calls this, with a source that holds the same tensors; it ends when all have read
        their parts. A Group makes one such load after the other, and the loader is for the host.

        reading: "divided", each rank reads an equal part of the bytes, and the others get it in
            memory; or "own", each reads what it asks for, when it does.
        options: strictness, nameless, route, allocation; verify: "if_present" or "require".
        """
        engine = self._engine
        if is_list(source) or isinstance(source, Checkpoint):
            raise TypeError("ranks load one source by its name, not a list or a Checkpoint")
        source = self._named(source)
        given = load_options({"dtype": dtype, **options})

        def steps():
            return GroupLoad((yield engine.group_load(group, source, reading, given)), engine)

        return Operation(steps())

    def fill(self, source, tensors, *, missing=None, unexpected=None, dtype=None, shape=None,
             select=None, **options):  # fmt: skip
        """Fills tensors that are there, of any library, each with the one of its name.

        All is checked before the first byte. Gives a Filled.

        tensors: a mapping of names to tensors, or a module of PyTorch, whose parameters and
            persistent buffers are filled. Names of the same memory (tied weights) are filled as by
            load_state_dict(): it is enough if the file has one of them.
        missing: a destination without a tensor is an "error" (default), or "report"ed.
        unexpected: a tensor without a destination: "ignore" (default), "report" or "error".
        dtype: another element type is refused ("exact", default), or with "convert" converted as
            PyTorch's copy_() does: floats are rounded to nearest, and truncated to integers, which
            saturate; NaN becomes 0. NumPy's casting rules do not apply.
        shape: another shape is refused ("exact", default), or with "broadcast" broadcast to.
        select and options: as of load().

        Memory that the library cannot write to directly (of the other byte order, unaligned, or
        views of PyTorch that are conjugated or negated) is filled by way of a copy. Immutable
        tensors, such as JAX's, are refused.
        """
        engine = self._engine
        into = Destinations(tensors)
        policies = {"missing": missing, "unexpected": unexpected, "dtype": dtype, "shape": shape}
        given = load_options(options)
        source = self._named(source)

        def steps():
            place = source._opened if isinstance(source, Checkpoint) else None
            if place is None:
                place = yield engine.open(source, {"strictness": given.get("strictness")})
            wanted = selection_of(select, place)
            fields = into.fields(place.names)
            try:
                done = yield engine.fill(place, fields, policies, wanted, given)
            except Error as failure:
                into.note_failure(failure)
                raise
            return Filled(into.finish(done["missing"]), done["unexpected"], done["stats"])

        return Operation(steps())

    def save(self, path, tensors, *, progress=None, **options):
        """Saves tensors of any library, as safetensors or, by a name that ends so, as .zt.

        A file that is there is replaced when the new one is complete. Gives a Saved.

        path: "x.safetensors", "x.zt", or a folder of safetensors, whose name has no ending.
        tensors: a mapping of names to tensors. A Model's metadata is saved too, unless `metadata`
            is given.
        progress: as of load().

        options:
        metadata: a dict of str to str; {} for none.
        dtype: floating tensors become this type: "f32", "bf16", ...
        shard_bytes, shard_count: several files in a folder, of at most so many bytes, or so many.
        alignment: of the first tensor: 8 (default), or a power of two up to 2 MiB.
        order: "reference" (default), as the package safetensors has it, or "given".
        format: "by_name" (default), "safetensors" or "zt".
        replace: False raises FileExistsError if the path is there. Default True.
        sync: False does not wait for the drive. Default True.
        read_back: True reads the file again and compares.
        digest: "crc32c" or "sha256" of each tensor.
        zstd_level: of .zt: compresses. With it, with a digest, or with metadata that is more than
            text, a .zt file has the options metadata, zstd_level, digest, replace and sync only.
        In .zt, tensors that are the same memory are written once.
        """
        engine = self._engine
        path = path_text(path)
        if options.get("metadata") is None and isinstance(tensors, _core.Model):
            options["metadata"] = tensors.metadata
        tensors = dict(_convert.items_of(tensors))
        views = _convert.exported_all(tensors)
        if path.endswith(".zt"):
            if _zt.needs_writer(options):
                sizes = [getattr(one, "nbytes", 0) for one in tensors.values()]
                return _zt.save(path, views, options, sizes, progress)
            options = {key: value for key, value in options.items() if key not in _zt.of_writer}
        given = with_sizes(options)
        if given.get("dtype") is not None:
            given["dtype"] = dtype_name(given["dtype"])
        given["progress"] = so_far = _core.SaveProgress()
        report = save_reporter(progress, lambda: (so_far.bytes, so_far.bytes_total))

        def steps():
            done = yield engine.save(path, views, given)
            report()
            return Saved(**done)

        return reported(steps(), report)

    def copy(self, tensor, *, device=None, dtype=None):
        """A copy of a Tensor with memory of its own, on another device or of another type."""
        device = None if device is None else device_name(device)
        return one_step(lambda: self._engine.copy(tensor, device, dtype_name(dtype)))

    @property
    def stats(self):
        """What it reads with, and why."""
        return self._engine.stats()

    @property
    def memory(self):
        """What is live of its memory."""
        return self._engine.memory()

    @property
    def closed(self):
        return self._engine.closed()

    def close(self):
        """Cancels what is in flight, and waits until nobody writes to its memory any more."""
        self._engine.close()
        if self._reports is not None:
            self._reports.deliver()

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.close()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *failure):
        import asyncio

        await asyncio.get_running_loop().run_in_executor(None, self.close)
