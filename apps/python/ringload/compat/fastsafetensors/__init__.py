# SPDX-License-Identifier: Apache-2.0
"""In place of the package fastsafetensors, for PyTorch.

    from ringload.compat.fastsafetensors import SafeTensorsFileLoader, fastsafe_open, ParallelLoader

Other than there: a file's ranges are read by whichever rank needs them, so nothing goes from rank
to rank, and ranks need not make the same calls; get_multi_cols keeps the order of its names;
`bbuf_size_kb`, `max_threads`, `nogds` and the like have no meaning, for the loader bounds itself.
AutoLoader knows the loader "base" only. ParallelSaver begins tensors at multiples of `header_align`
where that is a power of two, writes past the page cache, and holds what a `fill` of the caller's
encodes in memory until it is written.
"""

from .auto_loader import AutoLoader
from .config import LoaderConfig, load_config
from .ep_slice import (
    expert_parallel_filter,
    expert_parallel_filter_from_env,
    owned_expert_range,
)
from .loader import (
    BudgetInfeasibleError,
    FilesBufferOnDevice,
    ParallelLoader,
    SafeTensorsFileLoader,
    SingleGroup,
    TensorBase,
    fastsafe_open,
)
from .saver import ParallelSaver, ShardSetError, WriteEntry

__all__ = [
    "AutoLoader",
    "BudgetInfeasibleError",
    "FilesBufferOnDevice",
    "LoaderConfig",
    "ParallelLoader",
    "ParallelSaver",
    "SafeTensorsFileLoader",
    "ShardSetError",
    "SingleGroup",
    "TensorBase",
    "WriteEntry",
    "expert_parallel_filter",
    "expert_parallel_filter_from_env",
    "fastsafe_open",
    "load_config",
    "owned_expert_range",
]
