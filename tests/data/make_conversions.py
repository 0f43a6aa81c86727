# SPDX-License-Identifier: Apache-2.0
"""Writes torch/conversions.txt: single elements before and after PyTorch's copy_ on the CPU.

Needs PyTorch 2.14 or newer, which makes what is too large for f8_e4m3 448 and not NaN. Each line
is: type, bits, type, bits. Left out is where copy_ is not what fills do, or is not one
thing: floating to integer out of range, and NaN (undefined in C++); integer to integer out of range
(copy_ wraps); and values that copy_ rounds twice, to f32 and then to 8 or 16 bits.
"""

import pathlib

import torch

TYPES = {
    "BOOL": torch.bool, "I8": torch.int8, "U8": torch.uint8, "I16": torch.int16,
    "U16": torch.uint16, "I32": torch.int32, "U32": torch.uint32, "I64": torch.int64,
    "U64": torch.uint64, "F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32,
    "F64": torch.float64, "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2,
}
FLOATS = {"F16", "BF16", "F32", "F64", "F8_E4M3", "F8_E5M2"}
NARROW = {"F16", "BF16", "F8_E4M3", "F8_E5M2"}
NAN = float("nan")
INF = float("inf")
NUMBERS = [
    0.0, -0.0, 0.25, 0.5, -0.5, 0.99, 1.0, -1.0, 1.5, -1.5, 2.5, -2.5, 17.0, 19.0, 127.0, 127.9,
    -128.0, -128.9, 255.0, 255.5, 300.0, 448.0, 464.0, -464.0, 465.0, 57344.0, 61439.0, 61440.0, 65504.0,
    65519.0, 65520.0, -65520.0, 32767.5, 65535.0, 2.0**24 + 1, 2.0**31 - 1, 2.0**31, 2.0**32 - 1,
    2.0**53 - 1, 2.0**53, 3.0e38, 3.4028236e38, 1e300, 1e-320, 2.0**-9, 2.0**-10, 1.5 * 2.0**-10,
    2.0**-16, 2.0**-17, 1.5 * 2.0**-17, 2.0**-24, 2.0**-25, 2.0**-133, 2.0**-134, 2.0**-149,
    1.0009765625, 1.00048828125, 1.00146484375, 1.00390625, 1.01171875, 1.0625, 1.1875, 1.125, 1.375,
    INF, -INF, NAN,
]
INTEGERS = [
    0, 1, 2, -1, 17, 19, 25, 27, 127, 128, -128, 255, 256, 257, 259, 464, -464, 2047, 2049, 2051, 32767,
    -32768, 65519, 65520, 65535, 2**24 + 1, 2**24 + 3, 2**31 - 1, -(2**31), 2**32 - 1, 2**53 + 1, 2**53 + 3,
    2**63 - 1, -(2**63), 2**64 - 1, 2**64 - 1024, 2**64 - 1025,
]


def bits(tensor):
    return int.from_bytes(bytes(tensor.reshape(1).view(torch.uint8).tolist()), "little")


def limits(name):
    return (0, 1) if name == "BOOL" else (torch.iinfo(TYPES[name]).min, torch.iinfo(TYPES[name]).max)


def elements(name):
    if name in FLOATS:
        for number in NUMBERS:
            yield torch.tensor([number], dtype=torch.float64).to(TYPES[name])
        return
    low, high = limits(name)
    for number in INTEGERS:
        if low <= number <= high:
            raw = (number & (2**64 - 1)).to_bytes(8, "little")[: TYPES[name].itemsize]
            yield torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(TYPES[name])


def exact(element, name):
    if name not in FLOATS:
        raw = bits(element)
        low, _ = limits(name)
        return raw - (1 << 8 * TYPES[name].itemsize) if low < 0 and raw >> (8 * TYPES[name].itemsize - 1) else raw
    return element.to(torch.float64).item()


def is_compared(element, source, target):
    value = exact(element, source)
    special = value != value or value in (INF, -INF)
    if target == "BOOL":
        return True
    if target not in FLOATS:
        low, high = limits(target)
        return not special and low <= int(value) <= high
    if target in NARROW and source in ("F64", "I64", "U64", "I32", "U32") and not special:
        single = element.to(torch.float32)
        if single.to(torch.float64).item() != value or abs(value) > 2**53:
            return False
    return True


def main():
    lines = []
    for source in TYPES:
        for target in TYPES:
            if source == target:
                continue
            seen = set()
            for element in elements(source):
                if bits(element) in seen or not is_compared(element, source, target):
                    continue
                seen.add(bits(element))
                made = torch.empty(1, dtype=TYPES[target]).copy_(element)
                lines.append(f"{source} {bits(element):x} {target} {bits(made):x}\n")
    path = pathlib.Path(__file__).parent / "torch" / "conversions.txt"
    path.write_text("".join(lines))


main()
