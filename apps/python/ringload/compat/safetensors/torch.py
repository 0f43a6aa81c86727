# SPDX-License-Identifier: Apache-2.0
"""Replaces safetensors.torch."""

import os
from collections.abc import Mapping
from typing import Any

import torch

from ..._convert import storage_of
from .. import _shared
from ._errors import SafetensorError, as_theirs, check_packed
from ._open import safe_open
from ._serialize import TensorSpec, loaded, serialize, serialize_file


# --- Which tensors share memory


def storage_ptr(tensor: Any) -> int:
    """Returns the address of the storage that the tensor views, or 0 without a storage."""
    try:
        return storage_of(tensor).data_ptr()
    except (NotImplementedError, RuntimeError):
        return 0


def storage_size(tensor: Any) -> int:
    """Returns the bytes of that storage."""
    try:
        return storage_of(tensor).nbytes()
    except (NotImplementedError, RuntimeError):
        return tensor.nelement() * tensor.element_size()


def _end_ptr(tensor):
    """Returns the address after the last element."""
    if tensor.nelement() == 0:
        return tensor.data_ptr()
    last = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride()))
    return tensor.data_ptr() + (last + 1) * tensor.element_size()


def _is_complete(tensor):
    """Returns True if the tensor covers its whole storage."""
    begins = tensor.data_ptr() == storage_ptr(tensor)
    return begins and tensor.nelement() * tensor.element_size() == storage_size(tensor)


def _overlapping(names, state_dict):
    """Returns the names in sets of overlapping tensors, in the order of memory."""
    places = sorted((state_dict[n].data_ptr(), _end_ptr(state_dict[n]), n) for n in names)
    groups = []
    end = None
    for begin, stop, name in places:
        if end is None or begin >= end:
            groups.append(set())
        groups[-1].add(name)
        end = stop
    return groups


def _find_shared_tensors(state_dict):
    """Returns sets of names whose tensors share memory. Other tensors have a set of one name."""
    by_storage = {}
    for name, tensor in state_dict.items():
        if tensor.device.type == "meta" or storage_ptr(tensor) == 0 or storage_size(tensor) == 0:
            continue
        key = (tensor.device, storage_ptr(tensor), storage_size(tensor))
        by_storage.setdefault(key, set()).add(name)
    groups = []
    for names in by_storage.values():
        groups += [names] if len(names) == 1 else _overlapping(names, state_dict)
    return groups


def _remove_duplicate_names(state_dict, *, preferred_names=None, discard_names=None):
    """Returns {the kept name: the other names of its memory}."""
    preferred = set(preferred_names or ())
    discarded = set(discard_names or ())
    removed = {}
    for names in _find_shared_tensors(state_dict):
        whole = {name for name in names if _is_complete(state_dict[name])}
        if not whole:
            raise RuntimeError(
                f"None of {sorted(names)}, which share memory, covers the whole of their storage: "
                "refusing to save or load what would take much more room than needed"
            )
        kept = min(whole & preferred or whole - discarded or whole)
        others = sorted(names - {kept})
        if others:
            removed[kept] = others
    return removed


# --- Saving


def _name_of(dtype):
    return str(dtype).rpartition(".")[2]


def _check_memory(name, tensor):
    """Raises SafetensorError for a tensor in host memory whose storage lacks its elements.

    FSDP resizes storages to 0, and tensors such as FakeTensor and DTensor have no storage.
    """
    needed = tensor.nelement() * tensor.element_size()
    begin = tensor.storage_offset() * tensor.element_size()
    if needed and (not storage_ptr(tensor) or begin + needed > storage_size(tensor)):
        raise SafetensorError(
            f"the tensor `{name}` ({type(tensor).__name__} {list(tensor.shape)}) has no memory: "
            f"expected a storage of {begin + needed} bytes"
        )


def _specs(tensors, kept):
    if not isinstance(tensors, dict):
        raise ValueError(f"Expected a dict of [str, torch.Tensor] but received {type(tensors)}")
    _shared.check_names(tensors)
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor):
            raise ValueError(
                f"Key `{name}` is invalid, expected torch.Tensor but received {type(tensor)}"
            )
    sparse = [name for name, tensor in tensors.items() if tensor.layout != torch.strided]
    if sparse:
        raise ValueError(f"these tensors are sparse, which the format has no way to say: {sparse}")
    shared = [names for names in _find_shared_tensors(tensors) if len(names) > 1]
    if shared:
        raise RuntimeError(
            f"Some tensors share memory, and would be written more than once: {shared}. "
            "save_model() writes such a model"
        )
    found = {}
    for name, tensor in tensors.items():
        if not tensor.is_contiguous():
            raise ValueError(
                f"the tensor `{name}` is not contiguous: call `.contiguous()` on it before saving"
            )
        tensor = tensor.detach()
        if tensor.device.type != "cpu":
            tensor = tensor.to("cpu")
        if tensor.is_conj() or tensor.is_neg():
            tensor = tensor.resolve_conj().resolve_neg().contiguous()
        _check_memory(name, tensor)
        kept.append(tensor)
        found[name] = TensorSpec(
            dtype=_name_of(tensor.dtype),
            shape=tensor.shape,
            data_ptr=tensor.data_ptr(),
            data_len=tensor.nelement() * tensor.element_size(),
        )
    return found


def save(tensors: Mapping[str, Any], metadata: Mapping[str, str] | None = None) -> bytes:
    """Returns the bytes of a file with these tensors."""
    kept = []
    return serialize(_specs(tensors, kept), metadata=metadata)


def save_file(
    tensors: Mapping[str, Any],
    filename: _shared.Path,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Writes a file with these tensors, which must be contiguous and share no memory."""
    kept = []
    serialize_file(_specs(tensors, kept), filename, metadata=metadata)


def save_model(
    model: Any,
    filename: _shared.Path,
    metadata: Mapping[str, str] | None = None,
    force_contiguous: bool = True,
) -> None:
    """Writes the tensors of a module.

    One of several that share memory is written; metadata names the others.
    """
    state = model.state_dict()
    metadata = dict(metadata or {})
    for kept, others in _remove_duplicate_names(state).items():
        for name in others:
            metadata.setdefault(name, kept)
            del state[name]
    if force_contiguous:
        state = {name: tensor.contiguous() for name, tensor in state.items()}
    try:
        save_file(state, filename, metadata=metadata or None)
    except ValueError as failure:
        hint = "Or use save_model(..., force_contiguous=True), which lays tensors out anew."
        raise ValueError(f"{failure} {hint}") from None


# --- Loading


def load(data: Any) -> dict[str, Any]:
    """Returns the tensors of a file's bytes."""
    model = loaded(data)
    check_packed(model.values())
    return model.torch()


def load_file(
    filename: _shared.Path, device: Any = "cpu", *, backend: str = "mmap"
) -> dict[str, Any]:
    """Returns the tensors of a file, in separate memory on that device."""
    device = _shared.device_text(device)
    on = device if _shared.has_direct(device) else "cpu"
    with as_theirs(os.fspath(filename)):
        model = _shared.loader(on).load(filename, strictness="reference").result()
        check_packed(model.values())
        found = model.torch()
    return found if on == device else {name: found[name].to(device) for name in found}


def load_model(
    model: Any,
    filename: _shared.Path,
    strict: bool = True,
    device: Any = "cpu",
    *,
    backend: str = "mmap",
) -> tuple[set[str], list[str]]:
    """Loads a file into a module. Returns (missing names, unexpected names)."""
    return fill_model(model, load_file(filename, device=device), strict)


def fill_model(model: Any, state: Mapping[str, Any], strict: bool) -> tuple[set[str], list[str]]:
    """Copies tensors into a module, in which several names may share memory."""
    removed = _remove_duplicate_names(model.state_dict(), preferred_names=state.keys())
    missing, unexpected = model.load_state_dict(state, strict=False)
    missing, unexpected = set(missing), list(unexpected)
    for others in removed.values():
        for name in others:
            if name in missing:  # The name shares the memory of a loaded tensor.
                missing.remove(name)
            else:
                unexpected.append(name)
    if strict and (missing or unexpected):
        lines = [f"Error(s) in loading state_dict for {type(model).__name__}:"]
        for what, names in (("Missing", missing), ("Unexpected", unexpected)):
            if names:
                listed = ", ".join(f'"{name}"' for name in sorted(names))
                lines.append(f"    {what} key(s) in state_dict: {listed}")
        raise RuntimeError("\n".join(lines))
    return missing, unexpected
