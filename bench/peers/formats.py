#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same tensors in each format, loaded in turns by ringload and by the formats' own libraries.

    bench/peers/formats.py make FOLDER [--mib N]        numpy, torch, gguf, onnx, ztensor 1.2.3, safetensors
    bench/peers/formats.py turns RINGLOAD FOLDER cold|warm [--rounds N] [--only a,b]
    bench/peers/formats.py peers RINGLOAD FOLDER cold|warm [--rounds N]
    bench/peers/formats.py codecs RINGLOAD BENCH_CODEC FOLDER [--rounds N]
    bench/peers/formats.py many RINGLOAD FOLDER [--tensors N]
    bench/peers/formats.py long RINGLOAD FOLDER         one deflated member of 5 GiB

Each measurement is a process of its own, in an order drawn anew for each round; before it starts,
the page cache is verified to hold none of the file (cold) or all of it (warm). `turns` prints the
time of each raw format in shares of safetensors'. `peers` times what each library does until every
tensor is in memory of the process's own; imports are not in it. Run it with a Python that has those
packages.
"""

import argparse
import hashlib
import io
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import page_cache  # noqa: E402

raw_files = {
    "safetensors": ["raw.safetensors"],
    "gguf": ["raw.gguf"],
    "npz": ["raw.npz"],
    "torch": ["raw.pt"],
    "onnx": ["raw.onnx", "raw.onnx.data"],
    "zt": ["raw.zt"],
}
tensor_count = 32
packed_mib = 512


def say(*words):
    print(*words, file=sys.stderr, flush=True)


# --- making


def write_gguf(path, tensors):
    import gguf

    writer = gguf.GGUFWriter(path, "bench")
    for name, values in tensors.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_onnx(path, tensors):
    import onnx

    protos = []
    with open(path + ".data", "wb") as data:
        for name, values in tensors.items():
            proto = onnx.TensorProto(name=name, dims=values.shape, data_type=onnx.TensorProto.FLOAT,
                                     data_location=onnx.TensorProto.EXTERNAL)
            entries = {"location": os.path.basename(path) + ".data", "offset": data.tell(),
                       "length": values.nbytes}
            for key, value in entries.items():
                proto.external_data.add(key=key, value=str(value))
            data.write(values.data)
            data.write(bytes(-data.tell() % 4096))
            protos.append(proto)
    graph = onnx.helper.make_graph([], "bench", [], [], initializer=protos)
    pathlib.Path(path).write_bytes(onnx.helper.make_model(graph).SerializeToString())


def write_zt(path, tensors, **how):
    import ztensor

    with ztensor.Writer(path) as writer:
        for name, values in tensors.items():
            writer.write_numpy(name, values, **how)


def make(folder, mib):
    import numpy
    import safetensors.numpy
    import torch

    folder.mkdir(parents=True, exist_ok=True)
    draw = numpy.random.default_rng(1)
    rows = (mib << 20) // tensor_count // 4 // 1024
    tensors = {f"layers.{i:02}.weight": draw.integers(0, 1 << 32, (rows, 1024), numpy.uint32)
               .view(numpy.float32) for i in range(tensor_count)}
    at = lambda name: str(folder / name)
    safetensors.numpy.save_file(tensors, at("raw.safetensors"))
    write_gguf(at("raw.gguf"), tensors)
    numpy.savez(at("raw.npz"), **tensors)
    torch.save({name: torch.from_numpy(values) for name, values in tensors.items()}, at("raw.pt"))
    write_onnx(at("raw.onnx"), tensors)
    write_zt(at("raw.zt"), tensors)
    del tensors
    # Weights that were bf16 once: half of the bytes are zeros.
    rows = (packed_mib << 20) // 16 // 4 // 1024
    packed = {}
    for i in range(16):
        values = draw.standard_normal((rows, 1024), numpy.float32) * numpy.float32(0.02)
        values.view(numpy.uint32)[...] &= 0xFFFF0000
        packed[f"layers.{i:02}.weight"] = values
    numpy.savez_compressed(at("packed.npz"), **packed)
    write_zt(at("packed.zt"), packed, compress=3)
    os.sync()
    for path in sorted(folder.iterdir()):
        say(f"{path.name}: {path.stat().st_size:,}")


# --- measuring


buffers_bytes = 128 << 20  # What a load may take besides its tensors, as ringload's slots.


def ringload_seconds(ringload, path, *options):
    ran = subprocess.run([ringload, "load", str(path), "--json", "--no-progress", *options],
                         capture_output=True, text=True)
    if ran.returncode != 0:
        sys.exit(ran.stderr)
    report = json.loads(ran.stdout)
    return report["seconds"], report


def spread(seconds):
    return f"{statistics.median(seconds):.3f} s ({min(seconds):.3f} .. {max(seconds):.3f})"


def turns(ringload, folder, state, rounds, only):
    times = {name: [] for name in raw_files if not only or name in only}
    # How fast pages are copied depends on how they came: those that were written lie in smaller
    # pieces than those that were read.
    page_cache.make_cold([str(folder / file) for name in times for file in raw_files[name]])
    for _ in range(rounds):
        for name in random.sample(list(times), len(times)):
            paths = [str(folder / file) for file in raw_files[name]]
            size = sum(map(os.path.getsize, paths))
            page_cache.bring_about(state, paths, size + buffers_bytes)
            times[name].append(ringload_seconds(ringload, paths[0])[0])
    base = times["safetensors"]
    print(f"| {state} | median (least .. most) | of safetensors, medians | of the least |\n|---|---|---|---|")
    for name, seconds in times.items():
        print(f"| {name} | {spread(seconds)} | {statistics.median(seconds) / statistics.median(base):.3f}"
              f" | {min(seconds) / min(base):.3f} |")


# Each of these returns the load itself, which gives all tensors in memory of the process's own.


def numpy_load():
    import numpy

    def load(path):
        with numpy.load(path) as archive:
            return {name: archive[name] for name in archive.files}

    return load


def torch_load(**how):
    import torch

    def load(path):
        return {name: t.clone() if how.get("mmap") else t
                for name, t in torch.load(path, weights_only=True, **how).items()}

    return load


def gguf_reader():
    import gguf
    import numpy

    return lambda path: {t.name: numpy.array(t.data) for t in gguf.GGUFReader(path).tensors}


def onnx_load():
    import onnx
    from onnx import numpy_helper

    def load(path):
        model = onnx.load(path)
        return {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}

    return load


def ztensor_load(copy):
    import ztensor.numpy

    def load(path):
        found = ztensor.numpy.load_file(path, copy=copy)
        return found if copy else {name: values.copy() for name, values in found.items()}

    return load


libraries = {
    "npz": {"numpy.load": numpy_load},
    "torch": {"torch.load": torch_load, "torch.load, mapped, cloned": lambda: torch_load(mmap=True)},
    "gguf": {"gguf.GGUFReader, copied": gguf_reader},
    "onnx": {"onnx.load": onnx_load},
    "zt": {"ztensor, copy": lambda: ztensor_load(True), "ztensor, mapped, copied": lambda: ztensor_load(False)},
    "packed.npz": {"numpy.load": numpy_load},
    "packed.zt": {"ztensor, copy": lambda: ztensor_load(True)},
}


def paths_of(folder, name):
    return [str(folder / file) for file in raw_files.get(name, [name])]


def load_once(name, title, path):
    """In a process of its own."""
    load = libraries[name][title]()
    begin = time.perf_counter()
    kept = load(path)
    seconds = time.perf_counter() - begin
    print(json.dumps({"seconds": seconds, "bytes": sum(v.nbytes for v in kept.values())}))


def peers(ringload, folder, state, rounds):
    rows = [(name, title) for name, each in libraries.items() for title in each]
    rows += [(name, "ringload") for name in libraries]
    times = {row: [] for row in rows}
    for _ in range(rounds):
        for row in random.sample(rows, len(rows)):
            paths = paths_of(folder, row[0])
            size = max(sum(map(os.path.getsize, paths)), packed_mib << 20)
            page_cache.bring_about(state, paths, size + buffers_bytes)
            if row[1] == "ringload":
                times[row].append(ringload_seconds(ringload, paths[0])[0])
                continue
            ran = subprocess.run([sys.executable, __file__, "once", *row, paths[0]],
                                 capture_output=True, text=True)
            if ran.returncode != 0:
                say(row, ran.stderr.strip().splitlines()[-1:])
                continue
            times[row].append(json.loads(ran.stdout)["seconds"])
    print(f"| {state} | | median (least .. most) | ringload is |\n|---|---|---|---|")
    for name in libraries:
        ours = times[name, "ringload"]
        print(f"| {name} | ringload | {spread(ours)} | |")
        for title in libraries[name]:
            theirs = times[name, title]
            if theirs:
                print(f"| {name} | {title} | {spread(theirs)} | "
                      f"{statistics.median(theirs) / statistics.median(ours):.2f} times as fast |")


def codecs(ringload, bench_codec, folder, rounds):
    """The codec's own speed is that of two threads, out of memory, and into memory that is there
    already or into new memory, as a load needs it."""
    print("| | codec, two threads | into new memory | ringload, warm | shares | ringload, cold | shares |\n"
          "|---|---|---|---|---|---|---|")
    for name in ("packed.npz", "packed.zt"):
        path = str(folder / name)
        own, new, warm, cold = [], [], [], []
        for _ in range(rounds):
            for times, fresh in ((own, "no"), (new, "yes")):
                ran = subprocess.run([bench_codec, path, "--threads", "2", "--fresh", fresh],
                                     capture_output=True, text=True)
                if ran.returncode != 0:
                    sys.exit(ran.stderr)
                times.append(float(ran.stdout.split()[0]))
            for state, times in (("warm", warm), ("cold", cold)):
                page_cache.bring_about(state, [path], (packed_mib << 20) + buffers_bytes)
                times.append(ringload_seconds(ringload, path)[0])
        share = lambda of, times: f"{statistics.median(of) / statistics.median(times):.2f}"
        shares = lambda times: f"{share(own, times)}, {share(new, times)}"
        print(f"| {name} | {spread(own)} | {spread(new)} | {spread(warm)} | {shares(warm)} | "
              f"{spread(cold)} | {shares(cold)} |")


# --- many tensors, and one that is long


def make_many(made, count):
    import numpy
    import torch

    small = {f"layers.{i}.weight": numpy.full((4,), i, numpy.float32) for i in range(count)}
    write_gguf(str(made["gguf"]), small)
    torch.save({name: torch.from_numpy(values) for name, values in small.items()}, made["pt"])
    numpy.savez(made["npz"], **small)


def many(ringload, folder, count):
    folder.mkdir(parents=True, exist_ok=True)
    made = {"gguf": folder / "many.gguf", "pt": folder / "many.pt", "npz": folder / "many.npz"}
    # In a process of its own: what a child has taken at most begins with what its parent has.
    child = os.fork()
    if child == 0:
        make_many(made, count)
        os._exit(0)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0:
        sys.exit("the files could not be made")
    print(f"| {count:,} tensors | bytes | `ringload ls`, least of 5 | processor time | most memory |\n|---|---|---|---|---|")
    for name, path in made.items():
        seconds, processor, memory = [], [], 0
        for _ in range(5):
            begin = time.perf_counter()
            child = subprocess.Popen([ringload, "ls", str(path)], stdout=subprocess.DEVNULL)
            _, status, used = os.wait4(child.pid, 0)
            seconds.append(time.perf_counter() - begin)
            processor.append(used.ru_utime + used.ru_stime)
            memory = max(memory, used.ru_maxrss)
            if status != 0:
                sys.exit(f"{path}: ringload ls failed")
        print(f"| {name} | {path.stat().st_size:,} | {min(seconds):.3f} s | {min(processor):.3f} s | {memory / 1024:.0f} MiB |")


def long(ringload, folder):
    import zipfile

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "long.npz"
    unit = bytes(random.Random(1).randbytes(1 << 20))
    units = 5 << 10
    header = io.BytesIO()
    from numpy.lib import format as npy

    npy.write_array_header_1_0(
        header, {"descr": "|u1", "fortran_order": False, "shape": (units << 20,)})
    expected = hashlib.sha256()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        with archive.open("a.npy", "w", force_zip64=True) as into:
            into.write(header.getvalue())
            for i in range(units):
                # Each is another, and deflate makes it smaller.
                piece = i.to_bytes(4, "little") * 1024 + unit[i % 1000:4096 + i % 1000] * 255
                piece = piece[: 1 << 20]
                into.write(piece)
                expected.update(piece)
    ran = subprocess.run([ringload, "sum", str(path), "--no-progress"], capture_output=True, text=True)
    found = ran.stdout.split()[0] if ran.returncode == 0 else ran.stderr
    print(f"{path.stat().st_size:,} bytes that become {units << 20:,}: "
          f"{'the same SHA-256' if found == expected.hexdigest() else found}")
    sys.exit(found != expected.hexdigest())


def main():
    if sys.argv[1:2] == ["once"]:
        load_once(*sys.argv[2:5])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=("make", "turns", "peers", "codecs", "many", "long"))
    parser.add_argument("arguments", nargs="+")
    parser.add_argument("--mib", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tensors", type=int, default=100_000)
    parser.add_argument("--only", default="")
    how = parser.parse_args()
    given = how.arguments
    if how.what == "make":
        make(pathlib.Path(given[0]), how.mib)
    elif how.what == "turns":
        only = set(filter(None, how.only.split(",")))
        turns(given[0], pathlib.Path(given[1]), given[2], how.rounds, only | {"safetensors"} if only else only)
    elif how.what == "peers":
        peers(given[0], pathlib.Path(given[1]), given[2], how.rounds)
    elif how.what == "codecs":
        codecs(given[0], given[1], pathlib.Path(given[2]), how.rounds)
    elif how.what == "many":
        many(given[0], pathlib.Path(given[1]), how.tensors)
    else:
        long(given[0], pathlib.Path(given[1]))


main()
