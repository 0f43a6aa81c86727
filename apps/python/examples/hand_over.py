# SPDX-License-Identifier: Apache-2.0
"""Hands the tensors of a file to NumPy, PyTorch and JAX, and shows that nothing is copied.

python hand_over.py model.safetensors
"""

import sys

import ringload


def main(path):
    model = ringload.load(path)
    name, tensor = max(model.items(), key=lambda item: item[1].nbytes)
    print(f"{name}: {tensor.dtype} {tensor.shape}, {tensor.nbytes} bytes at {tensor.data_ptr:#x}")

    array = tensor.numpy()
    print(f"NumPy   {array.dtype} at {array.__array_interface__['data'][0]:#x}")
    try:
        taken = tensor.torch()
        print(f"PyTorch {taken.dtype} at {taken.data_ptr():#x}")
    except ImportError:
        print("PyTorch is not here")
    try:
        taken = tensor.jax()
        print(f"JAX     {taken.dtype} at {taken.unsafe_buffer_pointer():#x}")
    except ImportError:
        print("JAX is not here")


if __name__ == "__main__":
    main(sys.argv[1])
