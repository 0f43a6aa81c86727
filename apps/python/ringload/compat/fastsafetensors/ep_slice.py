# SPDX-License-Identifier: Apache-2.0
"""Selects the experts of a rank, by predicates of tensor names."""

import os
import re
from collections.abc import Callable


def owned_expert_range(num_experts: int, ep_size: int, ep_rank: int) -> tuple[int, int]:
    """Returns the experts [first, last) of a rank, in contiguous blocks.

    The lowest ranks have one expert more.
    """
    if ep_size <= 0:
        raise ValueError(f"ep_size must be positive, got {ep_size}")
    if not 0 <= ep_rank < ep_size:
        raise ValueError(f"ep_rank {ep_rank} out of range for ep_size {ep_size}")
    each, more = divmod(num_experts, ep_size)
    first = ep_rank * each + min(ep_rank, more)
    return first, first + each + (1 if ep_rank < more else 0)


def expert_parallel_filter(
    num_experts: int,
    ep_size: int,
    ep_rank: int,
    pattern: re.Pattern[str] = re.compile(r"\.experts\.(\d+)\."),
) -> Callable[[str], bool]:
    """Returns a predicate that accepts the names of a rank's experts and of no expert."""
    first, last = owned_expert_range(num_experts, ep_size, ep_rank)

    def keep(name):
        found = pattern.search(name)
        return found is None or first <= int(found.group(1)) < last

    return keep


def expert_parallel_filter_from_env() -> Callable[[str], bool] | None:
    """Returns the predicate of FASTSAFETENSORS_EP_NUM_EXPERTS, _EP_SIZE and _EP_RANK, or None.

    FASTSAFETENSORS_EP_SLICE must be 1. Without _EP_SIZE and _EP_RANK, the size and rank of
    torch.distributed are used, or WORLD_SIZE and RANK.
    """

    def number(name, otherwise):
        return int(os.environ.get(name) or otherwise)

    experts = number("FASTSAFETENSORS_EP_NUM_EXPERTS", 0)
    if os.environ.get("FASTSAFETENSORS_EP_SLICE", "0") != "1" or experts <= 0:
        return None
    size, rank = number("FASTSAFETENSORS_EP_SIZE", 0), number("FASTSAFETENSORS_EP_RANK", -1)
    group = _distributed() if size <= 0 or rank < 0 else None
    if size <= 0:
        size = group.get_world_size() if group else number("WORLD_SIZE", 1)
    if rank < 0:
        rank = group.get_rank() if group else number("RANK", 0)
    return expert_parallel_filter(experts, size, rank) if size > 1 else None


def _distributed():
    try:
        from torch import distributed
    except ImportError:
        return None
    return distributed if distributed.is_available() and distributed.is_initialized() else None
