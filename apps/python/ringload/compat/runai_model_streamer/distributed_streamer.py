# SPDX-License-Identifier: Apache-2.0
"""Ranks that read together: their group, and raw ranges of files."""

import datetime
import os
import socket
from typing import Any, Iterator, List, Optional, Tuple

import torch
from torch import distributed

from .file_streamer import FileChunks, FileStreamer
from .s3_utils import S3Credentials

__all__ = ["DistributedStreamer", "Ranks"]

default_timeout_seconds = 600


def timeout_seconds() -> int:
    return int(os.environ.get("RUNAI_STREAMER_DIST_TIMEOUT") or default_timeout_seconds)


def reads_together(is_distributed: bool, device: str) -> bool:
    """Returns True if ranks share the reads: if requested, and if ranks and backend allow it."""
    if not is_distributed:
        return False
    mode = os.environ.get("RUNAI_STREAMER_DIST", "auto")
    if mode not in ("0", "1", "auto"):
        raise ValueError(f"Invalid value for RUNAI_STREAMER_DIST: {mode}")
    if mode == "0" or not distributed.is_available() or not distributed.is_initialized():
        return False
    if distributed.get_world_size() < 2:
        return False
    backend = str(distributed.get_backend())
    if backend == "nccl":
        return device != "cpu"
    return backend == "gloo" and device == "cpu" and mode == "1"


class Ranks:
    """The group of the ranks of this host, or of all ranks with RUNAI_STREAMER_DIST_GLOBAL=1."""

    def __init__(self) -> None:
        self._group: Any = None

    def group(self) -> Any:
        """Creates the group at the first call, which all ranks make together."""
        if self._group is None:
            timeout = datetime.timedelta(seconds=timeout_seconds())
            everybody = list(range(distributed.get_world_size()))
            if os.environ.get("RUNAI_STREAMER_DIST_GLOBAL", "0") == "1":
                self._group = distributed.new_group(everybody, timeout=timeout)
            else:
                self._group = self._group_of_host(everybody, timeout)
        return self._group

    def _group_of_host(self, everybody: List[int], timeout: datetime.timedelta) -> Any:
        finding = distributed.new_group(everybody, timeout=timeout)
        hosts: List[Any] = [None] * len(everybody)
        distributed.all_gather_object(hosts, socket.gethostname(), group=finding)
        distributed.destroy_process_group(finding)
        found = None
        for host in sorted(set(hosts)):  # All ranks create all groups, in the same order.
            ranks = [rank for rank in everybody if hosts[rank] == host]
            group = distributed.new_group(ranks, timeout=timeout)
            if distributed.get_rank() in ranks:
                found = group
        return found

    def close(self, failed: bool) -> None:
        if self._group is not None:
            try:
                if not failed:
                    distributed.barrier(group=self._group)
            finally:
                distributed.destroy_process_group(self._group)
                self._group = None


class DistributedStreamer:
    """A FileStreamer of this rank. Raw ranges are not divided among ranks."""

    def __init__(self) -> None:
        self.file_streamer = FileStreamer()
        self.is_distributed = False

    def __enter__(self) -> "DistributedStreamer":
        self.file_streamer.__enter__()
        return self

    def __exit__(self, *failure: object) -> None:
        self.file_streamer.__exit__(*failure)

    def get_group_size(self) -> int:
        if not distributed.is_available() or not distributed.is_initialized():
            return 1
        return distributed.get_world_size()

    def stream_files(
        self,
        file_stream_requests: List[FileChunks],
        credentials: Optional[S3Credentials],
        device: Any,
        is_distributed: bool,
        owned: bool = True,
        discover_ranks: bool = True,
    ) -> None:
        """Begins to read. get_chunks() yields the ranges.

        discover_ranks: has no effect, because each rank reads its ranges by itself.
        """
        self.file_streamer.stream_files(file_stream_requests, credentials, device, owned=owned)

    def get_chunks(self) -> Iterator[Tuple[int, int, torch.Tensor]]:
        yield from self.file_streamer.get_chunks()
