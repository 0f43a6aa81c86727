# SPDX-License-Identifier: Apache-2.0
"""In place of the package fastsafetensors, for PyTorch.

    from ringload.compat.fastsafetensors import SafeTensorsFileLoader, fastsafe_open, ParallelLoader

Other than there: a file's ranges are read by whichever rank needs them, so nothing goes from rank
to rank, and ranks need not make the same calls; get_multi_cols keeps the order of its names;
`bbuf_size_kb`, `max_threads`, `set_numa` and the like have no meaning, for the loader bounds
itself. GPUDirect Storage is not used: nogds=False, the default, gives one UserWarning and reads as
nogds=True does. AutoLoader knows the loader "base" only, and refuses "3fs". SafeTensorsMetadata has
the header, not get_tensors. A budget of memory is met by loading parts of files; queue_size is
reduced for it without a message.
ParallelSaver begins tensors at multiples of `header_align` where that is a power of two, writes
past the page cache, and holds what a `fill` of the caller's encodes in memory until it is written.
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
