# SPDX-License-Identifier: Apache-2.0
"""Loads one checkpoint on all ranks of a torch.distributed process group.

    from ringload.torch import load

    state = load("Qwen/Qwen3-8B", process_group=group)                        # all on every rank
    state = load("Qwen/Qwen3-8B", process_group=group, plan=model.tp_plan)    # a part on each

Each rank reads a part of the bytes once. The other ranks receive it through the backend of the
group, or through memory that all ranks map, if they are on one machine and load to host memory.
"""

from ._shards import load_shards
from ._stream import Stream, load, stream

__all__ = ["Stream", "load", "load_shards", "stream"]
