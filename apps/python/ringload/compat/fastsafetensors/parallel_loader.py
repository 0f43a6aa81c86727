# SPDX-License-Identifier: Apache-2.0
"""ParallelLoader: the tensors of many files, one after the other."""

import collections
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ... import _core
from ..._convert import torch_of
from .. import _shared
from . import chunk_plan, loader
from .common import owner


class ParallelLoader:
    """Yields (name, tensor) pairs of many files. The next files are read meanwhile.

    Tensors may be kept. queue_size + 2 files are in memory or being read (one file if queue_size is
    -1). With max_batch_bytes or device_memory_budget, parts of files of bounded size are read
    instead, and the tensors are copies, unless borrowed_tensors is set because no tensor is kept.
    The constructor raises BudgetInfeasibleError if the budget is too small.
    """

    def __init__(
        self,
        pg: Any,
        hf_weights_files: Sequence[str],
        max_concurrent_producers: int = 1,
        queue_size: int = 0,
        use_tqdm_on_load: bool = True,
        device: Any = "cpu",
        bbuf_size_kb: int = 16384,
        max_threads: int = 16,
        nogds: bool = False,
        set_numa: bool = True,
        debug_log: bool = False,
        framework: str = "pytorch",
        tensor_filter: Callable[[str], bool] | None = None,
        all_local: bool = False,
        max_batch_bytes: int | None = None,
        use_chunk_budget_as_allocation_size: bool = False,
        device_memory_budget: int | None = None,
        accumulate_resident: bool = True,
        resident_tensor: Callable[[str], bool] | None = None,
        use_fgds: bool = False,
        borrowed_tensors: bool = False,
        **kwargs: Any,
    ) -> None:
        if max_concurrent_producers != 1:
            raise ValueError("max_concurrent_producers must be 1")
        if resident_tensor is not None and not accumulate_resident:
            raise ValueError("resident_tensor requires accumulate_resident=True")
        if borrowed_tensors and accumulate_resident:
            raise ValueError("borrowed_tensors requires accumulate_resident=False")
        is_bounded = max_batch_bytes is not None or device_memory_budget is not None
        if use_chunk_budget_as_allocation_size and not is_bounded:
            raise ValueError(
                "use_chunk_budget_as_allocation_size requires max_batch_bytes or "
                "device_memory_budget"
            )
        loader.check_framework(framework)
        loader.warn_of_gds(nogds, use_fgds)
        self._device = _shared.device_text(device)
        on = self._device if _shared.has_direct(self._device) else "cpu"
        self._loader = _shared.loader(on, owner=owner)
        self._files = list(hf_weights_files)
        self._depth = max(1, queue_size + 2)
        self._filter = tensor_filter
        self._copies = is_bounded and not borrowed_tensors
        self._shows = use_tqdm_on_load and (pg is None or pg.rank() == 0)
        self._running = collections.deque()
        self._closed = False
        self._chunks = None
        if is_bounded:
            is_resident = resident_tensor or (lambda name: accumulate_resident)
            opening = [self._loader.open(path, strictness="reference") for path in self._files]
            opened = [operation.result() for operation in opening]
            for path, checkpoint in zip(self._files, opened):
                loader.check_types(path, checkpoint.infos(), tensor_filter)
            files = [
                chunk_plan.file_sizes(path, checkpoint, tensor_filter, is_resident)
                for path, checkpoint in zip(self._files, opened)
            ]
            drops_copies = self._copies and any(
                file.resident_bytes < sum(file.tensors.values()) for file in files
            )
            self._chunks, self._depth = chunk_plan.plan(
                files, self._depth, max_batch_bytes, device_memory_budget, int(drops_copies)
            )

    def iterate_weights(self) -> Iterator[tuple[str, Any]]:
        """Yields the tensors in the order of the files, and of each file's bytes.

        So all ranks get them in the same order.
        """
        self._check_open()
        found = self._file_by_file() if self._chunks is None else self._chunk_by_chunk()
        for name, tensor in self._shown(found):
            made = torch_of(tensor)
            del tensor
            if self._device != "cpu" and not made.is_cuda:
                made = made.to(self._device)
            elif self._copies:
                made = made.clone()
            yield name, made
            del made
            self._check_open()

    def _check_open(self):
        if self._closed:
            raise RuntimeError("the loader is closed")

    def _file_by_file(self):
        keep = self._filter
        select = None if keep is None else (lambda info: keep(info.name))
        left, begun = collections.deque(self._files), collections.deque()
        while left or begun:
            while left and len(begun) < self._depth:
                begun.append(left.popleft())
                starting = self._loader.start(begun[-1], select=select, strictness="reference")
                self._running.append(starting)
            load = self._running[0] = self._running[0].result()
            infos = load.infos()
            loader.check_types(begun.popleft(), infos)
            yield from self._in_file_order(load, [info.name for info in infos])
            del load
            self._running.popleft()

    @staticmethod
    def _in_file_order(load, names):
        arrived = {}
        for name in names:
            while name not in arrived:
                other, tensor = next(load)
                arrived[other] = tensor
                del tensor
            yield name, arrived.pop(name)

    def _chunk_by_chunk(self):
        left = collections.deque(self._chunks)
        while left or self._running:
            while left and len(self._running) < self._depth:
                checkpoint, names = left.popleft()
                wanted = _core.Selection().names(names)
                load = checkpoint.load(wanted, strictness="reference")
                self._running.append((load, names))
            yield from self._tensors_of(*self._running[0])
            self._running.popleft()

    @staticmethod
    def _tensors_of(load, names):
        model = load.result()
        for name in names:
            yield name, model[name]

    def _shown(self, pairs):
        if not self._shows:
            return pairs
        try:
            from tqdm import tqdm
        except ImportError:
            return pairs
        return tqdm(pairs, desc="Loading safetensors")

    def close(self) -> None:
        self._closed = True
        for running in self._running:
            operation = running[0] if isinstance(running, tuple) else running
            operation.cancel()
        self._running.clear()
        if self._chunks is not None:
            self._chunks = []  # The chunks have the open files.
