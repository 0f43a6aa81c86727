# SPDX-License-Identifier: Apache-2.0
"""Decides which tensors are loaded together, so that a load stays within its memory."""

import collections

# `resident_bytes` of a file stay in memory after its tensors were consumed.
FileSizes = collections.namedtuple("FileSizes", "path checkpoint tensors resident_bytes")
Chunk = collections.namedtuple("Chunk", "checkpoint names")


class BudgetInfeasibleError(ValueError):
    """A tensor does not fit into the allowed memory."""


def file_sizes(path, checkpoint, keep_tensor, is_resident):
    """Returns the bytes of each kept tensor, and the bytes of the resident tensors."""
    tensors = {
        info.name: info.nbytes
        for info in checkpoint.infos()
        if keep_tensor is None or keep_tensor(info.name)
    }
    resident = sum(nbytes for name, nbytes in tensors.items() if is_resident(name))
    return FileSizes(path, checkpoint, tensors, resident)


def plan(files, depth, batch_bytes, budget, copies):
    """Returns (chunks, depth): the chunks in order, and the number of chunks that load at once.

    At most `depth` chunks are in memory, plus `copies` (0 or 1) chunks for a copy that its consumer
    will drop. With `budget`, the depth is reduced until these chunks and the resident tensors fit.
    Raises BudgetInfeasibleError if even one chunk at a time does not fit.
    """
    while True:
        limits = _limits(files, depth + copies, batch_bytes, budget)
        found = _too_large(files, limits)
        if found is None:
            break
        if depth == 1:
            raise _infeasible(*found, depth + copies, batch_bytes, budget)
        depth -= 1
    chunks = []
    for file, limit in zip(files, limits):
        chunks += _chunks(file, limit)
    return chunks, depth


def _limits(files, buffers, batch_bytes, budget):
    """Returns the bytes of a chunk of each file, without the resident bytes after the file."""
    limits, resident = [], 0
    for file in files:
        resident += file.resident_bytes
        bounds = [] if budget is None else [(budget - resident) // buffers]
        limits.append(min(bounds if batch_bytes is None else [*bounds, batch_bytes]))
    return limits


def _too_large(files, limits):
    """Returns (file, tensor, limit) for the largest excess, or None if each tensor fits."""
    missing = [
        (nbytes - limit, file, name, limit)
        for file, limit in zip(files, limits)
        for name, nbytes in file.tensors.items()
        if nbytes > limit
    ]
    return max(missing, key=lambda found: found[0])[1:] if missing else None


def _infeasible(file, name, limit, buffers, batch_bytes, budget):
    nbytes = file.tensors[name]
    if batch_bytes is not None and nbytes > batch_bytes:
        reason = f"more than max_batch_bytes={batch_bytes}"
    else:
        missing = buffers * (nbytes - limit)
        reason = (
            f"and with what is resident by then, device_memory_budget={budget} is about {missing} "
            "bytes too small"
        )
    return BudgetInfeasibleError(f"{file.path}: tensor '{name}' has {nbytes} bytes, {reason}")


def _chunks(file, limit):
    """Yields the tensors of a file in order, as many at once as the limit allows."""
    chunks, names, sum_bytes = [], [], 0
    for name, nbytes in file.tensors.items():
        if names and sum_bytes + nbytes > limit:
            chunks.append(Chunk(file.checkpoint, names))
            names, sum_bytes = [], 0
        names.append(name)
        sum_bytes += nbytes
    if names:
        chunks.append(Chunk(file.checkpoint, names))
    return chunks
