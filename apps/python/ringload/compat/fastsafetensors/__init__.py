# SPDX-License-Identifier: Apache-2.0
"""Replaces the package fastsafetensors, for PyTorch.

    from ringload.compat.fastsafetensors import SafeTensorsFileLoader, fastsafe_open, ParallelLoader

Differences from the package: each rank reads the ranges that it needs, so nothing is sent between
ranks, and ranks need not make the same calls. get_multi_cols keeps the order of its names.
`bbuf_size_kb`, `max_threads`, `set_numa` and similar parameters have no effect, because the loader
has its own limits. GPUDirect Storage is not used: nogds=False, the default, issues one UserWarning
and reads like nogds=True. AutoLoader supports only the loader "base", and refuses "3fs".
SafeTensorsMetadata has the header, but not get_tensors. To keep a memory budget, parts of files are
loaded, and queue_size is reduced without a message. ParallelSaver aligns tensors to `header_align`
if it is a power of two, bypasses the page cache, and keeps the output of a `fill` function in
memory until it is written.
"""

from .auto_loader import AutoLoader
from .chunk_plan import BudgetInfeasibleError
from .common import (
    SafeTensorsMetadata,
    SingleGroup,
    TensorFrame,
    get_device_numa_node,
    live_allocation_bytes,
    live_allocation_count,
)
from .config import LoaderConfig, load_config
from .ep_slice import (
    expert_parallel_filter,
    expert_parallel_filter_from_env,
    owned_expert_range,
)
from .loader import FilesBufferOnDevice, SafeTensorsFileLoader, TensorBase, fastsafe_open
from .parallel_loader import ParallelLoader
from .saver import ParallelSaver, ShardSetError, WriteEntry

__all__ = [
    "AutoLoader",
    "BudgetInfeasibleError",
    "FilesBufferOnDevice",
    "LoaderConfig",
    "ParallelLoader",
    "ParallelSaver",
    "SafeTensorsFileLoader",
    "SafeTensorsMetadata",
    "ShardSetError",
    "SingleGroup",
    "TensorBase",
    "TensorFrame",
    "WriteEntry",
    "expert_parallel_filter",
    "expert_parallel_filter_from_env",
    "fastsafe_open",
    "get_device_numa_node",
    "live_allocation_bytes",
    "live_allocation_count",
    "load_config",
    "owned_expert_range",
]
