# SPDX-License-Identifier: Apache-2.0
"""The content of safetensors files, read from their headers."""

import math
import os
from typing import Any, List, NamedTuple, Optional, Tuple

import torch

from ..._convert import torch_dtype
from ..._errors import Error
from ..._loader import Loader
from . import _settings
from .file_streamer import check_paths
from .s3_utils import S3Credentials, folder_of, is_s3_path

__all__ = ["Offsets", "OpenFile", "SafetensorMetadata", "open_files", "prepare_request"]

_header_length_bytes = 8
_names = {
    "bool": "BOOL", "u8": "U8", "i8": "I8", "u16": "U16", "i16": "I16", "u32": "U32", "i32": "I32",
    "u64": "U64", "i64": "I64", "f16": "F16", "bf16": "BF16", "f32": "F32", "f64": "F64",
    "c64": "C64", "f8_e4m3": "F8_E4M3", "f8_e5m2": "F8_E5M2", "f8_e8m0": "F8_E8M0", "f4": "F4",
    "f6_e2m3": "F6_E2M3", "f6_e3m2": "F6_E3M2",
}  # fmt: skip


class Offsets:
    """The range of a tensor's bytes, counted from the end of the header."""

    def __init__(self, offsets: List[int]) -> None:
        self.start, self.end = offsets

    def get_diff(self) -> int:
        return self.end - self.start


class SafetensorMetadata:
    """One tensor: its name, its type and shape in the header, and its range."""

    def __init__(self, name: str, safetensorMetadata: Any) -> None:
        self.name = name
        self.shape: List[int] = safetensorMetadata["shape"]
        self.dtype: str = safetensorMetadata["dtype"]
        self.offsets = Offsets(safetensorMetadata["data_offsets"])
        self.get_storage_shape()

    def get_storage_shape(self) -> List[int]:
        """Returns the shape of the PyTorch tensor. An element of F4 has two values of a row."""
        if self.dtype != "F4":
            return list(self.shape)
        if not self.shape or self.shape[-1] % 2:
            raise ValueError(
                f"Corrupted Tensor '{self.name}': F4 of the shape {self.shape}, expected an even "
                "last dimension, because PyTorch packs two values into an element"
            )
        return [*self.shape[:-1], self.shape[-1] // 2]

    def get_bytesize(self) -> int:
        return self.offsets.get_diff()

    def get_item_count(self) -> int:
        return math.prod(self.get_storage_shape())

    def get_element_size(self) -> int:
        return torch.empty((), dtype=self.get_torch_dtype()).element_size()

    def get_torch_dtype(self) -> torch.dtype:
        name = next((ours for ours, theirs in _names.items() if theirs == self.dtype), self.dtype)
        return _torch_dtype(name, self.name)


def _torch_dtype(dtype: str, name: str) -> Any:
    try:
        if dtype in _names:
            return torch_dtype(dtype)
    except (Error, TypeError, ValueError):
        pass
    shown = _names.get(dtype, dtype.upper())
    raise ValueError(f"Unsupported dtype '{shown}' in tensor '{name}'")


class OpenFile(NamedTuple):
    """A file whose header was read."""

    path: str
    checkpoint: Any
    offset: int  # The offset of the first byte after the header.
    tensors: List[SafetensorMetadata]


def open_files(
    loader: Loader, paths: List[str], credentials: Optional[S3Credentials]
) -> List[OpenFile]:
    """Opens all files at once. Raises ValueError for a missing or invalid file."""
    check_paths(paths)
    for path in paths:
        if not is_s3_path(path) and not os.path.isfile(path):
            raise ValueError(f"Could not open '{path}': no file has this name")
    opening = [loader.open(path, strictness="reference") for path in paths]
    try:
        found = [operation.result() for operation in opening]
    except (Error, OSError) as failure:
        raise ValueError(str(failure)) from failure
    finally:
        for operation in opening:
            operation.cancel()
    return [_described(path, checkpoint, credentials) for path, checkpoint in zip(paths, found)]


def _described(path: str, checkpoint: Any, credentials: Optional[S3Credentials]) -> OpenFile:
    formats = {name for _, _, name in checkpoint.files}
    if formats - {"safetensors"}:
        raise ValueError(f"Corrupted File: '{path}' is not of the format safetensors")
    infos = sorted(checkpoint.infos(), key=lambda info: (info.offset, info.nbytes))
    offset = infos[0].offset if infos else _end_of_header(path, credentials)
    tensors = []
    for info in infos:
        _torch_dtype(info.dtype, info.name)
        first = info.offset - offset
        fields = {
            "shape": list(info.shape),
            "dtype": _names[info.dtype],
            "data_offsets": [first, first + info.nbytes],
        }
        tensors.append(SafetensorMetadata(info.name, fields))
    return OpenFile(path, checkpoint, offset, tensors)


def _end_of_header(path: str, credentials: Optional[S3Credentials]) -> int:
    """Returns the end of the header of a file without tensors."""
    if is_s3_path(path):
        folder, _, name = path.rpartition("/")
        text = folder_of(folder + "/", credentials).open(name).read(0, _header_length_bytes)
    else:
        with open(path, "rb") as file:
            text = file.read(_header_length_bytes)
    return _header_length_bytes + int.from_bytes(text, "little")


def loader_for(paths: List[str], device: str, credentials: Optional[S3Credentials]) -> Loader:
    is_remote = any(is_s3_path(path) for path in paths)
    remote = _settings.remote_options(credentials) if is_remote else False
    return Loader(device, remote=remote, hdf5=False, **_settings.loader_options())


def prepare_request(
    fs: Any,
    paths: List[str],
    s3_credentials: Optional[S3Credentials],
    discover_ranks: bool = True,
) -> List[Tuple[int, List[SafetensorMetadata], List[int]]]:
    """Returns, for each file, the start of the tensors, the tensors in order, and their sizes.

    discover_ranks: has no effect, because each rank reads the headers by itself.
    """
    with loader_for(paths, "cpu", s3_credentials) as loader:
        found = open_files(loader, paths, s3_credentials)
        return [
            (file.offset, file.tensors, [tensor.get_bytesize() for tensor in file.tensors])
            for file in found
        ]
