# SPDX-License-Identifier: Apache-2.0
"""Loader: an engine of its own, and the operations that run on it."""

import atexit
import collections
import weakref

from . import _convert, _core
from ._checkpoint import Checkpoint, TensorInfo
from ._names import device_name, dtype_name, path_text, size
from ._operation import Operation, let_waiting_return, one_step, show_progress, teller, told
from ._ranks import GroupLoad

Filled = collections.namedtuple("Filled", "missing unexpected stats")
_Saved = collections.namedtuple(
    "Saved", "files nbytes bytes_direct bytes_straight writes seconds route_reason digests"
)


class Saved(_Saved):
    """The result of a save. `digests` of one is what `verify` of a load takes."""

    __slots__ = ()

    @property
    def manifest(self):
        """The digests as the text of a manifest, a line for each tensor, to be kept in a file."""
        return "".join(f"{line}\n" for line in self.digests.values())


_open_engines = weakref.WeakSet()
_sizes = frozenset(
    "slot_bytes bytes_in_flight arena_bytes_max kept_bytes shard_bytes chunk_bytes "
    "whole_bytes_max".split()
)


def _close_engines():
    for engine in list(_open_engines):
        engine.close()
    let_waiting_return(1)


def _sized(options):
    return {key: size(value) if key in _sizes else value for key, value in options.items()}


def load_options(options):
    """Options of a load in the library's words."""
    given = dict(options)
    if "dtype" in given:
        given["dtype"] = dtype_name(given["dtype"])
    if "window" in given:
        given["window_bytes"] = size(given.pop("window"))
    verify = given.get("verify")
    if verify is not None:
        given["verify"] = dict(verify) if hasattr(verify, "items") else path_text(verify)
    if given.get("nameless") is not None:
        given["nameless"] = [dtype_name(one) for one in given["nameless"]]
    return given


def selection_of(select, opened):
    """A Selection: of one, of a glob, of several globs, or of a predicate over `opened`."""
    if select is None or isinstance(select, _core.Selection):
        return select
    wanted = _core.Selection()
    if callable(select):
        infos = (TensorInfo(fields) for fields in opened.infos())
        names = [info.name for info in infos if select(info)]
        return wanted.names(names)
    for glob in [select] if isinstance(select, str) else select:
        wanted.matching(glob)
    return wanted


def _source_steps(engine, source, select, strictness=None, nameless=None):
    """What the engine is given for a source: its name, or what was opened for it."""
    if isinstance(source, Checkpoint):
        return source._opened
    if isinstance(source, (list, tuple)):
        source = [path_text(one) for one in source]
    else:
        source = path_text(source)
        if not callable(select):
            return source
    how = {"strictness": strictness, "nameless": nameless}
    return (yield engine.open(source, how))


class Load:
    """A load in flight: its tensors can be used as they land. Dropping it cancels it."""

    def __init__(self, loading, engine):
        self._loading = loading
        self._engine = engine

    def tensor(self, name):
        """An operation that gives that tensor, whose reads go first from now on."""
        return one_step(lambda: self._loading.tensor(name))

    def next(self):
        """An operation that gives the next tensor that has landed; None after the last."""
        return one_step(self._loading.next)

    def finish(self):
        """An operation that gives the Model when all has landed. Cancelling it cancels the load."""
        return one_step(self._loading.finish)

    def infos(self):
        """What is being loaded."""
        return [TensorInfo(fields) for fields in self._loading.infos()]

    @property
    def stats(self):
        """How far it is: bytes_arrived of bytes_total, and the rest of what a load counts."""
        return self._loading.progress()

    @property
    def stats_of_files(self):
        """What has been read of each file, and how fast: a dictionary for each."""
        return self._loading.progress_of_files()

    def cancel(self):
        self._loading.cancel()

    def __iter__(self):
        return self

    def __next__(self):
        tensor = self.next().result()
        if tensor is None:
            raise StopIteration
        return tensor.name, tensor

    def __aiter__(self):
        return self

    async def __anext__(self):
        tensor = await self.next()
        if tensor is None:
            raise StopAsyncIteration
        return tensor.name, tensor


class Stream:
    """(name, tensor) pairs as they land, by `for` or `async for`.

    With a window their memory comes back as they are dropped, and the next are read into it; what
    then finds no room, because too much is held, raises MemoryError.
    """

    def __init__(self, starting):
        self._starting = starting
        self._load = None

    @property
    def stats(self):
        return self._load.stats if self._load is not None else None

    def cancel(self):
        (self._load or self._starting).cancel()

    def __iter__(self):
        return self

    def __next__(self):
        if self._load is None:
            self._load = self._starting.result()
        return next(self._load)

    def __aiter__(self):
        return self

    async def __anext__(self):
        if self._load is None:
            self._load = await self._starting
        return await self._load.__anext__()


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
        redirects_max, private_redirects, hosts, proxy, ca_file and offline for all. Limits are
        those of the C++ library's `limits`.

        device: "cpu", "cuda:0", or "shared": memory of the host that a Keeper can publish. Or
            several, among which a Selection's on(), replicate(), spread() and shard() choose.
        """
        if not _open_engines:
            atexit.unregister(_close_engines)
            atexit.register(_close_engines)
        settings = self._reports = None
        if remote:
            settings = {} if remote is True else _sized(dict(remote))
            if settings.get("on_cached") is not None:
                from ._cache_reports import CacheReports

                self._reports = CacheReports(settings["on_cached"])
                settings["on_cached"] = self._reports.to
        several = device if isinstance(device, (list, tuple)) else [device]
        devices = [device_name(one) for one in several]
        self._engine = _core.Engine(devices, _sized(limits), hdf5, settings)
        _open_engines.add(self._engine)

    def open(self, source, *, strictness=None, independent_files=None, nameless=None):
        """Opens a checkpoint and reads its catalog. Gives a Checkpoint."""
        engine = self._engine
        named = (
            [path_text(one) for one in source]
            if isinstance(source, (list, tuple))
            else path_text(source)
        )
        how = {"strictness": strictness, "independent_files": independent_files}
        if nameless is not None:
            how["nameless"] = [dtype_name(one) for one in nameless]

        def steps():
            return Checkpoint((yield engine.open(named, how)), engine)

        return Operation(steps())

    def load(self, source, *, dtype=None, select=None, progress=None, **options):
        """Loads all that is chosen of `source`, or nothing. Gives a Model.

        source: a file, a folder, an index, "owner/model" of the local Hugging Face cache, several
            files, or a Checkpoint.
        dtype: floating tensors become "f32", "f16" or "bf16" as they land.
        select: a glob or several, a Selection, or a function of a TensorInfo.
        progress: True for a line on standard error, or a function of a dictionary.
        options: strictness, nameless, route, allocation, memory, access, unmappable, populate;
            verify: "if_present" or "require" for digests that the files hold, a manifest's path, or
            the `digests` of a Saved.
        """
        engine = self._engine
        given = load_options({"dtype": dtype, **options})

        def steps():
            place = yield from _source_steps(
                engine, source, select, given.get("strictness"), given.get("nameless")
            )
            wanted = selection_of(select, place)
            if not progress:
                return (yield engine.load(place, wanted, given))
            loading = yield engine.start(place, wanted, given)
            tell = show_progress if progress is True else progress
            operation._tick = lambda: tell(loading.progress())
            model = yield loading.finish()
            tell(model.stats)
            return model

        operation = Operation(steps(), ticking=bool(progress))
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
        source = path_text(source)
        given = load_options({"dtype": dtype, **options})

        def steps():
            return GroupLoad((yield engine.group_load(group, source, reading, given)), engine)

        return Operation(steps())

    def fill(self, source, tensors, *, missing=None, unexpected=None, dtype=None, shape=None,
             select=None, **options):  # fmt: skip
        """Fills tensors that are there, of any library, each with the one of its name.

        All is checked before the first byte. Gives a Filled. missing: "error" or "report";
        unexpected: "ignore", "report" or "error"; dtype: "exact" or "convert"; shape: "exact" or
        "broadcast".
        """
        engine = self._engine
        into = _convert.exported_all(tensors)
        policies = {"missing": missing, "unexpected": unexpected, "dtype": dtype, "shape": shape}
        given = load_options(options)

        def steps():
            place = source._opened if isinstance(source, Checkpoint) else None
            if place is None:
                many = isinstance(source, (list, tuple))
                named = [path_text(one) for one in source] if many else path_text(source)
                place = yield engine.open(named, {"strictness": given.get("strictness")})
            wanted = selection_of(select, place)
            return Filled(**(yield engine.fill(place, into, policies, wanted, given)))

        return Operation(steps())

    def save(self, path, tensors, *, progress=None, **options):
        """Saves tensors of any library, as safetensors or, by a name that ends so, as .zt.

        What was there is replaced when the new is whole. In .zt tensors that are the same memory
        are written once. Gives a Saved. options: metadata, dtype, shard_bytes, shard_count,
        alignment, order, replace, sync, read_back, digest; of .zt with zstd_level, with a digest,
        or with metadata that is more than text: metadata, zstd_level, digest, replace, sync.
        progress: True for a line on standard error, or a function of a dictionary.
        """
        engine = self._engine
        path = path_text(path)
        tensors = dict(tensors.items())
        views = _convert.exported_all(tensors)
        if path.endswith(".zt"):
            from . import _zt

            if _zt.needs_writer(options):
                sizes = [getattr(one, "nbytes", 0) for one in tensors.values()]
                return _zt.save(path, views, options, sizes, progress)
            options = {key: value for key, value in options.items() if key not in _zt.of_writer}
        given = _sized(options)
        if given.get("dtype") is not None:
            given["dtype"] = dtype_name(given["dtype"])
        given["progress"] = so_far = _core.SaveProgress()
        tell = teller(progress, lambda: (so_far.bytes, so_far.bytes_total))

        def steps():
            done = yield engine.save(path, views, given)
            tell()
            return Saved(**done)

        return told(steps(), tell)

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
