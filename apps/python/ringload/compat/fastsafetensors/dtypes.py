# SPDX-License-Identifier: Apache-2.0
"""The element types of safetensors files. The package refuses F6_E2M3 and F6_E3M2."""

import enum

element_bits = {
    "BOOL": 8, "F4": 4, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "I16": 16,
    "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "C64": 64, "F64": 64,
    "I64": 64, "U64": 64,
}  # fmt: skip

DType = enum.Enum("DType", {name: name for name in element_bits})
DType.__doc__ = "The element types of safetensors files."
