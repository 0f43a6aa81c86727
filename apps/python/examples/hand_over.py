# SPDX-License-Identifier: Apache-2.0
"""Hands a tensor of a file to NumPy, PyTorch and JAX, and prints the address that each has.

The addresses are the same, because nothing is copied. JAX alone copies, if the address is no
multiple of 64.

python hand_over.py model.safetensors
"""

import sys

import ringload


def main(path: str) -> None:
    model = ringload.load(path)
    name, tensor = max(model.items(), key=lambda item: item[1].nbytes)
    print(f"{name}: {tensor.dtype} {tensor.shape}, {tensor.nbytes} bytes at {tensor.data_ptr:#x}")

    try:
        array = tensor.numpy()
        print(f"NumPy   {array.dtype} at {array.__array_interface__['data'][0]:#x}")
    except ImportError:
        print("NumPy is not here")
    try:
        taken = tensor.torch()
        print(f"PyTorch {taken.dtype} at {taken.data_ptr():#x}")
    except ImportError:
        print("PyTorch is not here")
    try:
        shared = tensor.jax()
        print(f"JAX     {shared.dtype} at {shared.unsafe_buffer_pointer():#x}")
    except ImportError:
        print("JAX is not here")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python hand_over.py model.safetensors")
    main(sys.argv[1])
