# SPDX-License-Identifier: Apache-2.0
"""The peers, and one measurement of one of them in a process of its own.

    peers.py load PEER STATE FILE...      prints one JSON object; STATE is cold or warm
    peers.py sums FILE...                 what the tensors of the files hold, read plainly
    peers.py make FORM PATH FILE...       writes their tensors into one file of another format

Each function below imports what it needs and returns the load itself, a function of the files. Only
that is timed. It returns the tensors by name, or, where the peer knows no tensors, the memory that
each file went to; all is still held when the clock stops.
"""

import ctypes
import dataclasses
import hashlib
import json
import mmap
import os
import sys
import threading
import time
import typing

import page_cache

_block_bytes = 8 << 20


# --- plain readers: what a loader cannot avoid, in its simplest forms


def _fresh(size, huge):
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if huge:
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


def _read(path, view, begin, end):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        while begin < end:
            read = os.preadv(descriptor, [view[begin : min(end, begin + _block_bytes)]], begin)
            if read == 0:
                raise EOFError(path)
            begin += read
    finally:
        os.close(descriptor)


def plain_pread(threads, huge):
    def load(files):
        regions = []
        for path in files:
            size = os.path.getsize(path)
            memory = _fresh(size, huge)
            view = memoryview(memory)
            cuts = [size * i // threads // mmap.PAGESIZE * mmap.PAGESIZE for i in range(threads)]
            parts = zip(cuts, cuts[1:] + [size])
            readers = [threading.Thread(target=_read, args=(path, view, *part)) for part in parts]
            for reader in readers:
                reader.start()
            for reader in readers:
                reader.join()
            regions.append(memory)
        return regions

    return load


def plain_mmap():
    def load(files):
        regions = []
        for path in files:
            size = os.path.getsize(path)
            memory = _fresh(size, False)
            with open(path, "rb") as file, mmap.mmap(
                file.fileno(), size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE
            ) as mapping:
                to, of = ctypes.c_char.from_buffer(memory), ctypes.c_char.from_buffer(mapping)
                ctypes.memmove(ctypes.addressof(to), ctypes.addressof(of), size)
                del to, of
            regions.append(memory)
        return regions

    return load


# --- ringload, as a Python program has it


def ringload_python(device="cpu"):
    import ringload
    import ringload._convert  # Else the first load imports it, and torch, inside its clock.
    import torch  # noqa: F401

    return lambda files: ringload.load(files, device=device).torch()


def ringload_compat():
    from ringload.compat.safetensors.torch import load_file

    def load(files):
        tensors = {}
        for path in files:
            tensors.update(load_file(path))
        return tensors

    return load


# --- the peers


def safetensors_views(finish, **how):
    from safetensors.torch import load_file

    def load(files):
        tensors = {}
        for path in files:
            tensors.update(finish(load_file(path, **how)))
        return tensors

    return load


def safetensors_copied():
    return safetensors_views(lambda views: {name: view.clone() for name, view in views.items()})


def safetensors_touched():
    import torch

    def touch(views):
        for view in views.values():
            view.reshape(-1).view(torch.uint8)[:: mmap.PAGESIZE].sum()
        return views

    return safetensors_views(touch)


def safetensors_plain(**how):
    return safetensors_views(lambda tensors: tensors, **how)


def safetensors_prefetch():
    from safetensors import safe_open

    def load(files):
        handles = [safe_open(path, framework="pt") for path in files]
        loaders = [handle.prefetch(device="cuda:0") for handle in handles]
        return {name: tensor for loader in loaders for name, tensor in loader}

    return load


def fastsafetensors_loader(device, **copying):
    import fastsafetensors.frameworks._torch  # Else the first load imports torch inside its clock.
    from fastsafetensors import SafeTensorsFileLoader, SingleGroup

    def load(files):
        loader = SafeTensorsFileLoader(SingleGroup(), device=device, nogds=True)
        loader.add_filenames({0: files})
        buffers = loader.copy_files_to_device(**copying)
        return {name: buffers.get_tensor(name) for name in loader.get_keys()}

    return load


def runai(device):
    from runai_model_streamer import SafetensorsStreamer

    def load(files):
        with SafetensorsStreamer() as streamer:
            streamer.stream_files(files, device=device)
            return dict(streamer.get_tensors())

    return load


def instanttensor():
    from instanttensor import safe_open

    def load(files):
        with safe_open(files, framework="pt", device=0) as opened:
            return dict(opened.tensors())

    return load


def ztensor_copied():
    import ztensor.numpy

    def load(files):
        tensors = {}
        for path in files:
            tensors.update(ztensor.numpy.load_file(path, copy=True))
        return tensors

    return load


def torch_load(finish, **how):
    import io

    import torch

    once = io.BytesIO()  # Else the first load imports modules of torch inside its clock.
    torch.save({"x": torch.zeros(1)}, once)
    once.seek(0)
    torch.load(once, weights_only=True)

    def load(files):
        tensors = torch.load(files[0], weights_only=True, map_location="cpu", **how)
        return {name: finish(tensor) for name, tensor in tensors.items()}

    return load


def gguf_copied():
    import gguf
    import numpy

    def load(files):
        tensors = gguf.GGUFReader(files[0]).tensors
        return {tensor.name: numpy.array(tensor.data) for tensor in tensors}

    return load


@dataclasses.dataclass(frozen=True)
class Peer:
    title: str
    prepare: typing.Callable
    package: str = ""  # Its name on PyPI. Empty: a plain reader.
    gpu: bool = False  # Loads into the memory of a GPU.
    form: str = ""  # The format that it loads: "pt" or "gguf". Empty: safetensors.
    environment: dict = dataclasses.field(default_factory=dict)


_ring = {"RUNAI_STREAMER_FS_STRATEGY": "io_uring_direct"}
_chunk = 64 << 20
peers = {
    "ringload-py": Peer("ringload.load, in Python", ringload_python, "ringload"),
    "ringload-compat": Peer("ringload.compat load_file", ringload_compat, "ringload"),
    "pread-1": Peer("plain pread, 1 thread", lambda: plain_pread(1, False)),
    "pread-2": Peer("plain pread, 2 threads", lambda: plain_pread(2, False)),
    "pread-2-thp": Peer("plain pread, 2 threads, huge pages", lambda: plain_pread(2, True)),
    "mmap": Peer("plain mmap + memcpy", plain_mmap),
    "safetensors": Peer("safetensors load_file, clone", safetensors_copied, "safetensors"),
    "safetensors-pread": Peer(
        "safetensors load_file, pread", lambda: safetensors_plain(backend="pread"), "safetensors"
    ),
    "safetensors-touch": Peer(
        "(safetensors load_file, touched)", safetensors_touched, "safetensors"
    ),
    "fastsafetensors": Peer(
        "fastsafetensors", lambda: fastsafetensors_loader("cpu"), "fastsafetensors"
    ),
    "fastsafetensors-64M": Peer(
        "fastsafetensors, 64 MiB blocks",
        lambda: fastsafetensors_loader("cpu", max_copy_block_size=_chunk),
        "fastsafetensors",
    ),
    "runai": Peer("Run:ai streamer", lambda: runai("cpu"), "runai-model-streamer"),
    "runai-ring": Peer(
        "Run:ai streamer, io_uring_direct",
        lambda: runai("cpu"),
        "runai-model-streamer",
        environment=_ring,
    ),
    "ztensor": Peer("ztensor load_file, copy", ztensor_copied, "ztensor"),
    "ringload-pt": Peer("ringload.load of .pt", ringload_python, "ringload", form="pt"),
    "torch": Peer("torch.load of .pt", lambda: torch_load(lambda t: t), "torch", form="pt"),
    "torch-mmap": Peer(
        "torch.load, mmap, clone",
        lambda: torch_load(lambda t: t.clone(), mmap=True),
        "torch",
        form="pt",
    ),
    "ringload-gguf": Peer("ringload.load of .gguf", ringload_python, "ringload", form="gguf"),
    "gguf": Peer("gguf GGUFReader, copy", gguf_copied, "gguf", form="gguf"),
    "gpu-ringload-py": Peer(
        "ringload.load, in Python", lambda: ringload_python("cuda:0"), "ringload", True
    ),
    "gpu-safetensors": Peer(
        "safetensors load_file", lambda: safetensors_plain(device="cuda:0"), "safetensors", True
    ),
    "gpu-safetensors-prefetch": Peer(
        "safetensors prefetch", safetensors_prefetch, "safetensors", True
    ),
    "gpu-fastsafetensors": Peer(
        "fastsafetensors", lambda: fastsafetensors_loader("cuda:0"), "fastsafetensors", True
    ),
    "gpu-runai": Peer("Run:ai streamer", lambda: runai("cuda:0"), "runai-model-streamer", True),
    "gpu-instanttensor": Peer("InstantTensor", instanttensor, "instanttensor", True),
}


# --- proof: what arrived is what the files hold


def _header(prefix):
    length = int.from_bytes(prefix[:8], "little")
    entries = json.loads(bytes(prefix[8 : 8 + length]))
    entries.pop("__metadata__", None)
    return {name: [8 + length + end for end in e["data_offsets"]] for name, e in entries.items()}


def _word_sum(flat):
    """The sum of the 64-bit words, and of the bytes behind the last, of an array of bytes."""
    import numpy

    words = len(flat) // 8 * 8
    with numpy.errstate(over="ignore"):
        return (int(flat[:words].view("<u8").sum()) + int(flat[words:].sum())) % 2**64


def _flat(tensor):
    import numpy

    if isinstance(tensor, numpy.ndarray):
        tensor = numpy.ascontiguousarray(tensor)
        address, size = tensor.ctypes.data, tensor.nbytes
    else:
        tensor = tensor.cpu().contiguous()
        address, size = tensor.data_ptr(), tensor.numel() * tensor.element_size()
    flat = numpy.empty(0, "u1")
    if size > 0:
        flat = numpy.frombuffer((ctypes.c_ubyte * size).from_address(address), "u1")
    return flat, tensor  # The tensor may be a copy that must outlive the use of its bytes.


def _by_name(loaded):
    """(name, bytes as an array) for each tensor of what a load returned."""
    import numpy

    if isinstance(loaded, dict):
        for name, tensor in loaded.items():
            flat, kept = _flat(tensor)
            yield name, flat
        return
    for region in loaded:
        flat = numpy.frombuffer(region, "u1")
        for name, (begin, end) in _header(memoryview(region)).items():
            yield name, flat[begin:end]


def _digest(sums):
    return hashlib.sha256(json.dumps(sorted(sums.items())).encode()).hexdigest()


def sums(files):
    words, hashes = {}, {}
    for path in files:
        with open(path, "rb") as file:
            region = mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ)
        for name, flat in _by_name([region]):
            words[name] = _word_sum(flat)
            hashes[name] = hashlib.sha256(flat).hexdigest()
    return {"digest": _digest(words), "tensors": len(words), "sha256": hashes}


# --- the same tensors in other formats


def _safetensors_of(files):
    """(name, dtype, shape, bytes as an array) of each tensor."""
    import numpy

    for path in files:
        with open(path, "rb") as file:
            region = mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ)
        flat = numpy.frombuffer(region, "u1")
        places = _header(memoryview(region))
        length = int.from_bytes(region[:8], "little")
        entries = json.loads(region[8 : 8 + length])
        for name, (begin, end) in places.items():
            yield name, entries[name]["dtype"], entries[name]["shape"], flat[begin:end]


def make_pt(path, files):
    import torch

    types = {"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32}
    tensors = {}
    for name, dtype, shape, flat in _safetensors_of(files):
        tensors[name] = torch.from_numpy(flat.copy()).view(types[dtype]).reshape(shape)
    torch.save(tensors, path)


def make_gguf(path, files):
    import gguf

    writer = gguf.GGUFWriter(path, "bench")
    for name, dtype, shape, flat in _safetensors_of(files):
        rows = flat.reshape(*shape[:-1], -1)
        writer.add_tensor(name, rows, raw_dtype=gguf.GGMLQuantizationType[dtype])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


# --- one measurement


def _version(package):
    if not package:
        return ""
    import importlib.metadata

    return importlib.metadata.version(package)


def measure(name, state, files):
    peer = peers[name]
    os.environ.update(peer.environment, RUNAI_STREAMER_LOG_LEVEL="ERROR")
    import numpy  # So that no peer pays for it.

    _ = numpy
    load = peer.prepare()
    finish = lambda: None
    if peer.gpu:
        import torch

        torch.empty(1, device="cuda:0")  # The context exists before the clock starts.
        finish = torch.cuda.synchronize
    size = sum(os.path.getsize(path) for path in files)
    page_cache.prepare(state, files, size + (256 << 20))
    modules = set(sys.modules)

    cpu, begin = time.process_time(), time.perf_counter()
    loaded = load(files)
    finish()
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    late = len(set(sys.modules) - modules)

    arrived = {tensor: _word_sum(flat) for tensor, flat in _by_name(loaded)}
    return {
        "seconds": seconds,
        "cpu_seconds": cpu,
        "digest": _digest(arrived),
        "tensors": len(arrived),
        "version": _version(peer.package),
        "modules_inside_clock": late,
    }


def main(arguments):
    command = arguments[1]
    if command == "sums":
        answer = sums(arguments[2:])
    elif command == "make":
        {"pt": make_pt, "gguf": make_gguf}[arguments[2]](arguments[3], arguments[4:])
        answer = {}
    else:
        answer = measure(arguments[2], arguments[3], arguments[4:])
    json.dump(answer, sys.stdout)
    sys.stdout.flush()
    os._exit(0)  # What the peers do on the way out is not measured, and takes its time.


if __name__ == "__main__":
    try:
        main(sys.argv)
    except page_cache.WrongState as wrong:
        print(wrong, file=sys.stderr)
        sys.exit(3)
