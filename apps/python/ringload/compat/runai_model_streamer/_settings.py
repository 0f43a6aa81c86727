# SPDX-License-Identifier: Apache-2.0
"""The environment variables of Run:ai's streamer as options of a loader."""

import os
from typing import Any

from .s3_utils import S3Credentials

default_memory_limit = 40_000_000_000
default_buffers = 18
default_threads = 16
_slot_bytes_min, _slot_bytes_max = 2 << 20, 64 << 20
_slots_max = 1024


class RunaiStreamerMemoryLimitException(Exception):
    """A tensor is larger than RUNAI_STREAMER_MEMORY_LIMIT."""


def _positive(name: str) -> int | None:
    text = os.environ.get(name)
    if not text:
        return None
    number = int(text)
    if number < 1:
        raise ValueError(f"{name} must be a positive integer, not {text}")
    return number


def threads() -> int:
    return min(_positive("RUNAI_STREAMER_CONCURRENCY") or default_threads, _slots_max)


def loader_options() -> dict[str, Any]:
    """Returns the number and size of slots. Unset variables leave the loader's defaults."""
    options: dict[str, Any] = {}
    slots = _positive("RUNAI_STREAMER_CONCURRENCY")
    if slots is not None:
        options["slots"] = min(slots, _slots_max)
    chunk = _positive("RUNAI_STREAMER_CHUNK_BYTESIZE")
    if chunk is not None:
        power = 1 << (chunk.bit_length() - 1)
        options["slot_bytes"] = min(max(power, _slot_bytes_min), _slot_bytes_max)
    return options


def remote_options(credentials: S3Credentials | None) -> dict[str, Any]:
    """Returns options for s3://. Missing settings are found as for other loads of ringload."""
    options: dict[str, Any] = {}
    given = credentials or S3Credentials()
    endpoint = (
        given.endpoint
        or os.environ.get("RUNAI_STREAMER_OVERRIDE_ENDPOINT_URL")
        or os.environ.get("RUNAI_STREAMER_S3_ENDPOINT")
    )
    found = {
        "access_key_id": given.access_key_id,
        "secret_access_key": given.secret_access_key,
        "session_token": given.session_token,
        "region": given.region_name,
        "s3_endpoint": endpoint,
        "connections": _positive("RUNAI_STREAMER_CONCURRENCY"),
    }
    options.update({key: value for key, value in found.items() if value})
    virtual = os.environ.get("RUNAI_STREAMER_S3_USE_VIRTUAL_ADDRESSING")
    if virtual is not None:
        options["path_style"] = virtual == "0"
    if os.environ.get("RUNAI_STREAMER_S3_UNSIGNED") == "1":
        options["anonymous"] = True
    return options


def memory_limit() -> int:
    """Returns the limit in bytes: -1 for no limit, 0 for one tensor at a time."""
    text = os.environ.get("RUNAI_STREAMER_MEMORY_LIMIT")
    return default_memory_limit if text is None else int(text)


def ring_of(sizes: list[int], limit: int) -> tuple[int, int]:
    """Returns (bytes of a buffer, number of buffers) for tensors of these sizes.

    A buffer is as large as the largest tensor, and all buffers together stay within the limit.
    """
    largest = max(sizes, default=0)
    if limit == 0:
        return largest, 1
    budget = sum(sizes)
    if limit > 0:
        if limit < largest:
            raise RunaiStreamerMemoryLimitException(
                f"RUNAI_STREAMER_MEMORY_LIMIT: {limit} bytes are less than the largest tensor has, "
                f"{largest}"
            )
        budget = min(limit, budget)
    wanted = _positive("RUNAI_STREAMER_RING_BUFFERS") or default_buffers
    buffer_bytes = max(largest, budget // wanted)
    return buffer_bytes, max(1, min(wanted, budget // max(buffer_bytes, 1)))
