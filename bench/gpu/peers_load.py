#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""What InstantTensor and fastsafetensors take for a checkpoint from memory into the first GPU, where
their wheels are installed. Writes rows of bench/gpu.sh's table.

    peers_load.py FILE.safetensors
"""

import os
import sys
import time

os.environ.setdefault("USE_CUFILE", "0")

try:
    import torch
except ImportError:
    print("| other loaders | | skipped: no torch |")
    sys.exit(0)


def instanttensor(path):
    from instanttensor import safe_open
    with safe_open([path], framework="pt", device=0) as opened:
        tensors = {name: tensor.clone() for name, tensor in opened.tensors()}
    return tensors


def fastsafetensors(path):
    from fastsafetensors import SafeTensorsFileLoader, SingleGroup
    loader = SafeTensorsFileLoader(SingleGroup(), torch.device("cuda:0"), nogds=True)
    loader.add_filenames({0: [path]})
    buffers = loader.copy_files_to_device()
    return {name: buffers.get_tensor(name) for name in buffers.key_to_rank_lidx}


def main():
    path = sys.argv[1]
    size = os.path.getsize(path)
    torch.zeros(1, device="cuda:0")
    for name, load in (("InstantTensor", instanttensor), ("fastsafetensors", fastsafetensors)):
        times = []
        try:
            for _ in range(3):
                begin = time.monotonic()
                tensors = load(path)
                torch.cuda.synchronize()
                times.append(time.monotonic() - begin)
                del tensors
        except Exception as failed:  # A peer's failure is a row, not the end of the table.
            print(f"| {name} | | {type(failed).__name__}: {str(failed).splitlines()[0][:80]} |")
            continue
        seconds = sorted(times)[1]
        print(f"| {name} | | {size * 1e-9 / seconds:.1f} GB/s {seconds:.3f} s |", flush=True)


main()
