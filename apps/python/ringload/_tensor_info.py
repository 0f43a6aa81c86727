# SPDX-License-Identifier: Apache-2.0
"""The description of one tensor of a checkpoint."""


class TensorInfo:
    """One tensor of a checkpoint: its type, its shape, and the position of its bytes."""

    __slots__ = ("name", "dtype", "shape", "file", "offset", "nbytes", "encoding", "stored_bytes",
                 "type", "original_shape", "digest", "attributes")  # fmt: skip

    def __init__(self, fields):
        for name, value in fields.items():
            setattr(self, name, value)

    def __repr__(self):
        return f"<ringload.TensorInfo '{self.name}' {self.dtype} {self.shape}>"
