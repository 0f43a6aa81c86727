#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""The same file into the same card by the safetensors package, beside `bench_gpu warm`: a row of its
table. Exit code 77: the package or PyTorch is not here.

    safetensors_load.py FILE.safetensors
"""

import os
import statistics
import sys
import time

try:
    import torch
    from safetensors.torch import load_file
except ImportError as missing:
    print(f"skipped: {missing}", file=sys.stderr)
    sys.exit(77)

path = sys.argv[1]
size = os.path.getsize(path)
seconds = []
for run in range(4):
    begin = time.perf_counter()
    tensors = load_file(path, device="cuda:0")
    torch.cuda.synchronize()
    if run > 0:
        seconds.append(time.perf_counter() - begin)
    del tensors
    torch.cuda.empty_cache()
taken = statistics.median(seconds)
name = f"{os.path.basename(path)} by the safetensors package"
print(f"| {name:<58} | {'3 .. 8 GB/s':<22} | {f'{size * 1e-9 / taken:.1f} GB/s {taken:.3f} s':<22} |")
