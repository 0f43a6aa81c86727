# SPDX-License-Identifier: Apache-2.0
"""load() and stream(): one checkpoint for all ranks of a process group."""

import fnmatch
import hashlib
import json
import os

import torch
from torch import distributed

from .. import _core
from .._convert import indexed, torch_dtype
from .._errors import Error, make, usage
from .._loader import Loader
from .._names import size
from .._options import load_options
from .._process_bound import ProcessBound
from ._buckets import Item, conversion_of, has_small_boxes, make_buckets
from ._files import are_small, identities_near, open_local, scope_of
from ._group import RankGroup
from ._mapped import MappedFiles
from ._plan import resolve
from ._transports import Collectives, SharedMemory, machine_of_process

_reading_options = frozenset(("route", "strictness", "nameless"))
_text_max = 1000
# For a small source, more buffers and threads take longer to create than they save.
_small_limits = {"slots": 8, "slot_bytes": 1 << 20, "copy_threads": 1}


def load(source, *, process_group, plan=None, **options):
    """Loads a checkpoint on all ranks of `process_group`. Returns a dictionary of names to tensors.

    Every rank of the group must call this function with the same arguments. Each rank reads a part
    of the bytes once. If a rank fails, ends, or loads something else, all ranks raise an error with
    the reason. After an error, the group may be unusable, because its ranks may be in different
    calls.

    process_group: the group, for example distributed.group.WORLD. There is no default.
    plan: defines the part of a rank. It is a value, a function of a TensorInfo that returns a
        value, or a dictionary of names, patterns (as in fnmatch) or modules to values. The first
        match applies, and a tensor without a match is replicated. A value is one of: None or
        "replicate", each rank gets the whole tensor; a dimension, which is divided as torch.chunk()
        divides it; a style of transformers' `tp_plan`, such as "colwise", "rowwise" or
        "packed_colwise"; a placement of DTensor, Shard(dim) or Replicate(), alone or as a sequence
        of one.

    options:
    dtype: floating-point tensors are converted to this type.
    select: one or several globs, or a function of a TensorInfo, that select the tensors.
    device: the default is "cpu", or PyTorch's current GPU if the group uses NCCL. "cuda" means the
        current GPU.
    transport: the transport of tensors between ranks. "group" uses calls of the group.
        "shared_memory" uses memory that all ranks of one machine map privately. "automatic"
        (default) uses shared memory if the ranks are on one machine and load to host memory.
    memory: "owned" (default), or "mapped": on ranks of one machine, tensors of local files are
        private views of the files, which must not change while a tensor is used. Tensors that
        cannot be mapped are loaded as with "owned". If ranks are on several machines, or transport
        is "group", all tensors are.
    window: the memory of each rank for buckets. Default "512MiB". Tensors are read in buckets of
        half the window. One bucket is read while the previous one is passed on. A larger tensor has
        its own bucket. If a tensor is divided along its first dimension, only the part of one rank
        counts.
    timeout: the longest wait for other ranks, in seconds. Default 300.
    route, strictness, nameless, remote, offline, hdf5: see ringload.load(). By default, nothing is
        written into the local cache of the hub. If a local folder of torch.distributed.checkpoint
        stores its tensors in small pieces (less than 4 MiB on average), the default route is the
        page cache. The ranks of a machine share the page cache.
    """
    with stream(source, process_group=process_group, plan=plan, **options) as pairs:
        return dict(pairs)


def stream(source, *, process_group, plan=None, **options):
    """Yields (name, tensor) pairs on all ranks, in the same order. See load() for the arguments.

    The tensors of a bucket share memory. Use `with`, or consume the stream to its end: a rank that
    ends early causes an error on the other ranks.
    """
    return Stream(source, process_group, plan, **options)


def _digest(value):
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _predicate(select):
    if select is None:
        return lambda info: True
    if callable(select):
        return select
    globs = [select] if isinstance(select, str) else list(select)
    if not all(isinstance(glob, str) for glob in globs):
        raise TypeError("select must be a glob, a list of globs or a function of a TensorInfo")
    return lambda info: any(fnmatch.fnmatchcase(info.name, glob) for glob in globs)


def _default_device(group):
    backend = str(distributed.get_backend(group))
    if "nccl" not in backend or "gloo" in backend:
        return "cpu"
    return f"cuda:{torch.cuda.current_device()}"


def _usable(device, group):
    """Returns the device for messages. A rank with an invalid device can still report that."""
    if device == "cpu":
        return device
    try:
        if torch.device(device).type in ("cpu", "cuda"):
            torch.empty(1, device=device)
            return device
    except (RuntimeError, AssertionError, NotImplementedError):
        pass
    return _default_device(group)


def _remote(given):
    """Returns the network settings.

    A rank reads a part of a file, so the local cache is only read.
    """
    return {"cache": "read"} if given is None and _core.has_remote else given


def _shortened(text, bytes_max):
    """Returns a beginning of the text that has at most `bytes_max` bytes in JSON.

    A message to the other ranks has a fixed size. Characters outside ASCII have 6 or 12 bytes.
    """
    text = text[:bytes_max]
    while len(json.dumps(text)) > bytes_max:
        text = text[: len(text) * 3 // 4]
    return text


class _Pending:
    """A bucket that this rank is reading, or the failure to begin its read."""

    def __init__(self, prepared=None, operations=(), failure=None):
        self.prepared = prepared
        self.operations = list(operations)
        self.failure = failure


class Stream(ProcessBound):
    """Yields (name, tensor) pairs of a load by several ranks.

    nbytes: the bytes of all tensors, before they are divided.
    stats: transport, buckets, and bytes, the number of tensor bytes that this rank has read itself.
    """

    _instead = "send the tensors that it yields"

    def __init__(
        self, source, process_group, plan, *, dtype=None, select=None, device=None,
        transport="automatic", memory="owned", window="512MiB", timeout=300.0, remote=None,
        offline=None, hdf5=None, **options,
    ):  # fmt: skip
        if process_group is None:
            raise TypeError("process_group must be a group of torch.distributed, not None")
        self._refusal = None
        try:
            device = indexed(device) if device is not None else _default_device(process_group)
        except Exception as caught:  # The other ranks must be told.
            device, self._refusal = "cpu", caught
        self.stats = {"transport": "", "buckets": 0, "bytes": 0}
        self._group = RankGroup(process_group, float(timeout), _usable(device, process_group))
        self._pending = None
        self._pairs = None
        self._loader = None
        self._transport = None
        self._notes = ()
        try:
            given = {**options, "dtype": dtype, "transport": transport, "memory": memory}
            network = {"remote": _remote(remote), "offline": offline, "hdf5": hdf5}
            self._open(source, plan, select, device, given, window, network)
        except BaseException as failure:
            self._end(failure)
            raise
        self._pairs = self._run()

    # --- Before the first byte, all ranks agree on the load.

    def _open(self, source, plan, select, device, given, window, network):
        failure, description = None, {}
        try:
            # The ranks meet even if the options of this rank are invalid.
            if self._refusal is not None:
                raise self._refusal
            wanted = self._accept(given)
            window = size(window, "window")
            near = identities_near(source)
            limits = _small_limits if device == "cpu" and are_small(near) else {}
            self._loader = Loader(device, **network, **limits)
            items = self._items(source, near, plan, select)
            self._buckets = make_buckets(items, max(window // 2, 1))
            description = self._describe(source, items, window, wanted)
        except Exception as caught:
            failure = caught
            description["failure"] = _shortened(str(caught) or type(caught).__name__, _text_max)
        machine = machine_of_process() if device == "cpu" else ""
        probe = -1
        if self._group.rank == 0 and machine:
            probe = os.memfd_create("ringload", os.MFD_CLOEXEC)
        try:
            description.update(machine=machine, probe=f"/proc/{os.getpid()}/fd/{probe}")
            messages = self._group.meet(json.dumps(description).encode())
            ranks = [json.loads(message) for message in messages]
            _check_same(ranks, failure)
            self._notes = self._choose_transport(wanted, device, ranks)
        finally:
            if probe >= 0:
                os.close(probe)
        self.stats["transport"] = self._transport.name
        self.stats["buckets"] = len(self._buckets)
        self.nbytes = sum(item.nbytes for bucket in self._buckets for item in bucket.items)

    def _accept(self, given):
        """Checks the options and stores those of the reads. Returns (transport, memory)."""
        options = dict(given)
        dtype, transport, memory = (options.pop(key) for key in ("dtype", "transport", "memory"))
        if transport not in ("automatic", "group", "shared_memory"):
            raise usage(f"unknown transport '{transport}'")
        if memory not in ("owned", "mapped"):
            raise usage(f"unknown memory '{memory}'")
        unknown = set(options) - _reading_options
        if unknown:
            raise usage(f"unknown option {sorted(unknown)[0]}")
        self._dtype = conversion_of(dtype)
        if options.get("route") == "automatic":  # As without a route.
            del options["route"]
        self._options = load_options(options)
        return transport, memory

    def _items(self, source, near, plan, select):
        checkpoint, self._identities = open_local(
            near,
            lambda: self._loader.open(
                source,
                strictness=self._options.get("strictness"),
                nameless=self._options.get("nameless"),
            ).result(),
        )
        self._checkpoint = checkpoint
        is_wanted = _predicate(select)
        infos = [info for info in checkpoint.infos() if is_wanted(info)]
        if select is not None and not infos:
            raise usage("select: no tensor matches")
        if self._dtype is not None:
            torch_dtype(self._dtype)
        rank, ranks = self._group.rank, self._group.size
        cuts = resolve(plan, infos, ranks)
        is_shared = None not in self._identities and has_small_boxes(checkpoint.files, infos, ranks)
        # The page cache reads each page once for all ranks of the machine.
        self._row_route = "buffered" if is_shared else None
        return [Item(info, cuts[info.name], self._dtype, rank, ranks) for info in infos]

    def _describe(self, source, items, window, wanted):
        """Returns the properties that must be the same on all ranks."""
        infos = [item.info for item in items]
        return {
            "source": _shortened(str(source), 200),
            "tensors": _digest(
                [[info.name, info.dtype, info.shape, info.file, info.offset, info.encoding]
                 for info in infos]
            ),
            "plan": _digest([item.cut for item in items]),
            "options": _digest([self._dtype, window, wanted]),
            # These must be the same on ranks with the same scope.
            "scope": _digest(scope_of(source, self._identities)),
            "files": _digest(self._identities),
            "is_local": None not in self._identities,  # All files are on this machine.
            "is_cached": self._options.get("route") != "direct",  # Reads may use the page cache.
        }  # fmt: skip

    def _choose_transport(self, wanted, device, ranks):
        """Creates the transport. Returns the notes of all ranks for the first bucket."""
        transport, memory = wanted
        machine = ranks[0]["machine"]
        is_one = bool(machine) and all(each["machine"] == machine for each in ranks)
        if is_one and transport != "group" and self._group.size > 1:
            notes = self._share_memory(memory, device, ranks)
            if notes is not None:
                return notes
        if transport == "shared_memory":
            raise usage(
                "transport: shared_memory is for several ranks of one machine and user, which load "
                "to host memory"
            )
        self._transport = Collectives(self._group, device)
        return self._group.agree(None, "to begin", self._announce(0))

    def _share_memory(self, memory, device, ranks):
        """Creates a transport of shared memory. Returns the notes of all ranks.

        If a rank cannot map the memory of rank 0, closes the transport and returns None.
        """
        is_local = all(each["is_local"] for each in ranks)
        is_cached = all(each["is_cached"] for each in ranks)
        failure, can_map, note = None, True, b""
        try:
            os.close(os.open(ranks[0]["probe"], os.O_RDWR | os.O_CLOEXEC))
        except OSError:
            can_map = False
        try:
            if memory == "mapped" and is_local:
                self._transport = MappedFiles(self._group, self._checkpoint, self._identities)
            else:
                self._transport = SharedMemory(self._group, device, is_local and is_cached)
            note = self._announce(0)
        except Exception as caught:
            failure = caught
        notes = self._group.agree(failure, "to begin", bytes([can_map]) + note)
        if all(note[:1] == b"\1" for note in notes):
            return [note[1:] for note in notes]
        self._transport.close()
        self._transport = None
        return None

    # --- Each bucket

    def _announce(self, number):
        if number >= len(self._buckets):
            return b""
        return self._transport.announce(self._buckets[number])

    def _begin(self, number, notes):
        """Begins to read a bucket. A failure is stored until all ranks can be told."""
        prepared, operations = None, []
        try:
            prepared = self._transport.prepare(self._buckets[number], notes)
            for reads, route in (
                (prepared.reads, self._row_route), (prepared.cached_reads, "buffered")
            ):  # fmt: skip
                if reads.into:
                    operations.append(self._fill(reads, self._options.get("route") or route))
            more = self._transport.more_reads(prepared)
            if more is not None:
                operations.append(more)
            return _Pending(prepared, operations)
        except Exception as failure:
            return _Pending(prepared, operations, failure)

    def _fill(self, reads, route):
        return self._loader.fill(
            self._checkpoint, reads.into, select=reads.selection(), dtype="convert", route=route
        )

    def _finish(self, pending, next_number):
        """Waits until all ranks have read the bucket. Returns their notes for the next."""
        failure, note = pending.failure, b""
        try:
            if failure is None:
                for operation in pending.operations:
                    self.stats["bytes"] += operation.result().stats["bytes"]
            note = self._announce(next_number)
        except Exception as caught:
            failure = failure or caught
        return self._group.agree(failure, "for other ranks to read", note)

    def _run(self):
        if not self._buckets:
            return
        self._pending = self._begin(0, self._notes)
        for number in range(len(self._buckets)):
            pending = self._pending
            notes = self._finish(pending, number + 1)
            works = self._transport.begin(pending.prepared)
            self._pending = None
            if number + 1 < len(self._buckets):
                self._pending = self._begin(number + 1, notes)
            self._group.wait(works, "for tensors of other ranks")
            works = self._transport.gather(pending.prepared)
            self._group.wait(works, "for tensors of other ranks")
            tensors = self._transport.deliver(pending.prepared)
            items = pending.prepared.bucket.items
            self._buckets[number] = None
            del pending
            for item in items:
                yield item.name, tensors.pop(item.name)

    def _end(self, failure):
        """Ends this rank's part: reports a failure to the other ranks, and stops its reads."""
        if failure is not None:
            self._group.report(failure)
        self._group.end()
        pending, self._pending = self._pending, None
        if pending is not None:
            for operation in pending.operations:
                operation.cancel()
                operation.exception()
            if pending.prepared is not None:
                self._transport.drop(pending.prepared)
        if self._transport is not None:
            self._transport.close()
        if self._loader is not None:
            self._loader.close()

    def __iter__(self):
        return self

    def __next__(self):
        if self._pairs is None:
            raise StopIteration
        try:
            return next(self._pairs)
        except StopIteration:
            self._pairs = None
            self._end(None)
            raise
        except BaseException as failure:
            self._pairs = None
            self._end(failure)
            raise

    def close(self):
        """Closes the stream before its end. Other ranks get an error, unless they also close it."""
        if self._pairs is None:
            return
        self._pairs = None
        self._end(Error("the stream was closed before its end"))

    def __enter__(self):
        return self

    def __exit__(self, kind, failure, traceback):
        if failure is not None and self._pairs is not None:
            self._pairs = None
            self._end(failure)
        self.close()

    def __del__(self):
        if getattr(self, "_pairs", None) is not None:
            self.close()


def _check_same(ranks, failure):
    """Raises the same error on all ranks if one has failed, or loads something else."""
    if failure is not None:
        raise failure
    for rank, description in enumerate(ranks):
        if "failure" in description:
            raise make("rank_failed", 0, f"rank {rank}: {description['failure']}", "")
    first = ranks[0]
    for rank, description in enumerate(ranks):
        for key in ("tensors", "plan", "options"):
            if description[key] != first[key]:
                raise make(
                    "mismatched_call", 0,
                    f"rank {rank} and rank 0 differ in their {key}: rank {rank} loads "
                    f"'{description['source']}', rank 0 loads '{first['source']}'",
                    "",
                )  # fmt: skip
    _check_same_files(ranks)


def _check_same_files(ranks):
    """Raises an error if ranks have opened different versions of the same files."""
    firsts = {}
    for rank, description in enumerate(ranks):
        first = firsts.setdefault(description["scope"], rank)
        if description["files"] != ranks[first]["files"]:
            raise make(
                "mismatched_call", 0,
                f"rank {rank} and rank {first} differ in their files: a file of "
                f"'{description['source']}' was replaced or modified between their opens",
                "",
            )  # fmt: skip
