# SPDX-License-Identifier: Apache-2.0
"""Replaces ztensor.torch."""

import os
from typing import Any

from ... import _core
from .. import _shared
from ..safetensors import torch as _torch
from ..safetensors._serialize import memory_file
from ._reader import Reader
from ._writer import save_to


def _checked(tensors):
    kept = []
    try:
        _torch._specs({name: _laid_out(tensor) for name, tensor in tensors.items()}, kept)
    except RuntimeError as shared:
        raise ValueError(str(shared)) from None
    return dict(zip(tensors, kept))


def _laid_out(tensor):
    return tensor.contiguous() if hasattr(tensor, "contiguous") and not tensor.is_sparse else tensor


def save_file(
    tensors: dict[str, Any],
    filename: _shared.Path,
    metadata: dict[str, Any] | None = None,
    compression: bool | int = False,
) -> None:
    """Writes a .zt file with these tensors, and the metadata as its attributes."""
    checked = _checked(tensors) if isinstance(tensors, dict) else _torch._specs(tensors, [])
    inner = _core.ZtWriter(os.fspath(filename), {"sync": False})
    save_to(inner, checked, metadata, compression)


def save(
    tensors: dict[str, Any],
    metadata: dict[str, Any] | None = None,
    compression: bool | int = False,
) -> bytes:
    """Returns the bytes of such a file."""
    checked = _checked(tensors) if isinstance(tensors, dict) else _torch._specs(tensors, [])
    return save_to(_core.ZtWriter.in_memory({}), checked, metadata, compression)[1]


def load_file(filename: _shared.Path, device: Any = "cpu", copy: bool = False) -> dict[str, Any]:
    """Returns the tensors of a file of any format: copy-on-write views, or separate memory."""
    reader = Reader(filename)
    return reader.read_torch(reader.keys(), device=_shared.device_text(device), copy=copy)


def load(data: Any) -> dict[str, Any]:
    """Returns the tensors of a file's bytes."""
    with memory_file(data) as path:
        return load_file(path)


def save_model(
    model: Any,
    filename: _shared.Path,
    metadata: dict[str, Any] | None = None,
    force_contiguous: bool = True,
) -> None:
    """Writes the tensors of a module.

    One of several that share memory is written; metadata names the others.
    """
    state = model.state_dict()
    metadata = dict(metadata or {})
    for kept, others in _torch._remove_duplicate_names(state).items():
        for name in others:
            metadata.setdefault(name, kept)
            del state[name]
    save_file(state, filename, metadata=metadata)


def load_model(
    model: Any,
    filename: _shared.Path,
    strict: bool = True,
    device: Any = "cpu",
    copy: bool = False,
) -> tuple[list[str], list[str]]:
    """Loads a file into a module. Returns (missing names, unexpected names)."""
    missing, unexpected = _torch.fill_model(model, load_file(filename, device, copy), strict)
    return list(missing), unexpected
