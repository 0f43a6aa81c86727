#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""indexed_deltas.py RINGLOAD DISK_DELTA LOCAL_CHECKPOINT FOLDER [--mib N] [--versions N]

Deltas with an index, beside the Python code of slime and of its patch for SGLang, in both
directions and for each encoding and checksum. DISK_DELTA is slime's file slime/utils/disk_delta.py.
LOCAL_CHECKPOINT is the file that slime's patch adds to SGLang:
python/sglang/srt/weight_sync/local_checkpoint.py. Needs numpy, safetensors, zstandard, xxhash and
blake3.

  slime to ringload   slime's functions encode the versions, `ringload apply` applies them
  ringload to SGLang  `ringload delta --indexed` makes the deltas, SGLang's pull() applies them

Every tensor of the last version must have the right bytes. Ends with 1 if one has not.
"""

import argparse
import importlib.util
import json
import pathlib
import shutil
import subprocess
import sys
import time

import numpy as np
import safetensors.numpy
import zstandard


def module_at(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def make_versions(folder, mib, count):
    """Full versions of 16-bit weights, of which about 2 % change in each step."""
    random = np.random.default_rng(36)
    size = mib * 2**20 // 2 // 8
    weights = {f"layer.{i}": random.integers(0, 2**16, size, np.uint16) for i in range(8)}
    weights["scale"] = random.random(7).astype(np.float32)
    versions = []
    for number in range(count + 1):
        if number > 0:
            weights = {name: values.copy() for name, values in weights.items()}
            for name in list(weights)[:-2]:
                changed = random.integers(0, size, size // 50)
                weights[name][changed] ^= 1
        path = folder / f"full{number}"
        path.mkdir()
        safetensors.numpy.save_file(weights, path / "model.safetensors")
        versions.append(weights)
    return versions


def publish_by_slime(disk_delta, run, versions, encoding, checksum):
    """The steps of slime's trainer, which needs Megatron, around its encoding functions."""
    for number in range(1, len(versions)):
        delta, digests = {}, {}
        for name, values in versions[number].items():
            new = values.view(np.uint8)
            old = versions[number - 1][name].view(np.uint8)
            changed = new != old
            if not changed.any():
                continue
            difference = new ^ old if encoding == "xor" else disk_delta.overwrite_encode(new, changed)
            frame = zstandard.ZstdCompressor(level=1).compress(difference.tobytes())
            delta[name] = np.frombuffer(frame, np.uint8)
            digests[name] = disk_delta.checksum(checksum, new)
        folder = run / f"weight_v{number:06d}"
        folder.mkdir(parents=True)
        safetensors.numpy.save_file(delta, folder / "model-00000-of-00001.safetensors", digests)
        index = {
            "metadata": {
                "version": f"{number:06d}",
                "base_version": f"{number - 1:06d}",
                "delta_encoding": encoding,
                "compression_format": "zstd",
                "checksum_format": checksum,
            },
            "weight_map": dict.fromkeys(delta, "model-00000-of-00001.safetensors"),
        }
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def is_equal(path, wanted):
    found = safetensors.numpy.load_file(path)
    return found.keys() == wanted.keys() and all(
        found[name].tobytes() == wanted[name].tobytes() for name in wanted
    )


def run_tool(*arguments):
    done = subprocess.run([str(a) for a in arguments], capture_output=True, text=True)
    return done.returncode, done.stderr.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("ringload")
    parser.add_argument("disk_delta")
    parser.add_argument("local_checkpoint")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--mib", type=int, default=64)
    parser.add_argument("--versions", type=int, default=4)
    options = parser.parse_args()
    disk_delta = module_at(options.disk_delta, "disk_delta")
    local_checkpoint = module_at(options.local_checkpoint, "local_checkpoint")

    work = options.folder
    work.mkdir(parents=True)
    versions = make_versions(work, options.mib, options.versions)
    base, last = work / "full0" / "model.safetensors", versions[-1]
    numbers = range(1, options.versions + 1)
    failed = 0
    print(f"{options.mib} MiB, {options.versions} versions\n")
    print("| from, to | encoding | checksum | s to encode | s to apply | result |")
    print("|---|---|---|---|---|---|")

    def report(way, encoding, checksum, encoded, applied, text, is_right):
        nonlocal failed
        failed += not is_right
        print(f"| {way} | {encoding} | {checksum} | {encoded:.3f} | {applied:.3f} | {text} |")

    for encoding in ("xor", "overwrite"):
        for checksum in ("xxh3-128", "adler32", "blake3"):
            run = work / f"slime-{encoding}-{checksum}"
            begin = time.monotonic()
            publish_by_slime(disk_delta, run, versions, encoding, checksum)
            middle = time.monotonic()
            result = work / "applied.safetensors"
            result.unlink(missing_ok=True)
            code, text = run_tool(options.ringload, "apply", base,
                                  *(run / f"weight_v{n:06d}" for n in numbers), "-o", result)  # fmt: skip
            end = time.monotonic()
            if checksum == "blake3":  # ringload must refuse it by name, and write nothing.
                is_right = code == 1 and "blake3" in text and not result.exists()
                text = f"refused: {text}" if is_right else "WRONG"
            else:
                is_right = code == 0 and is_equal(result, last)
                text = "equal" if is_right else f"WRONG {text}"
            report("slime, ringload", encoding, checksum, middle - begin, end - middle, text, is_right)

            if checksum == "blake3":
                continue
            run = work / f"ringload-{encoding}-{checksum}"
            run.mkdir()
            begin = time.monotonic()
            for n in numbers:
                code, text = run_tool(options.ringload, "delta", work / f"full{n - 1}",
                                      work / f"full{n}", "-o", run / f"weight_v{n:06d}",
                                      "--indexed", encoding, "--checksum", checksum)  # fmt: skip
                if code != 0:
                    sys.exit(text)
            middle = time.monotonic()
            local = work / "local"
            shutil.rmtree(local, ignore_errors=True)
            local_checkpoint.pull(str(local), str(work / "full0"), str(run), options.versions)
            end = time.monotonic()
            is_right = is_equal(local / "model.safetensors", last)
            report("ringload, SGLang", encoding, checksum, middle - begin, end - middle,
                   "equal" if is_right else "WRONG", is_right)  # fmt: skip
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
