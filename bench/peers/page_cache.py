# SPDX-License-Identifier: Apache-2.0
"""What the page cache holds of a file: asked, and brought about. Linux, standard library."""

import ctypes
import errno
import mmap
import os
import time

_libc = ctypes.CDLL(None, use_errno=True)
_cachestat_number = 451  # The same on every architecture. From Linux 6.5 on.
_page_bytes = mmap.PAGESIZE
_evictions_max = 20
_warmings_max = 3
_madv_populate_write = 23
_touches_max = 4
_attempts_max = 5


class _Range(ctypes.Structure):
    _fields_ = [("offset", ctypes.c_uint64), ("bytes", ctypes.c_uint64)]


class _Cachestat(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_uint64)
        for name in ("cached", "dirty", "writeback", "evicted", "recently_evicted")
    ]


class WrongState(Exception):
    """The page cache is not as it was to be."""


def pages_of(path):
    return -(-os.path.getsize(path) // _page_bytes)


def pages_cached(path):
    """How many pages of the file are cached: by cachestat, or by mincore before Linux 6.5."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        whole = _Range(0, 0)  # No bytes: to the end of the file.
        found = _Cachestat()
        failed = _libc.syscall(
            ctypes.c_long(_cachestat_number),
            ctypes.c_int(descriptor),
            ctypes.byref(whole),
            ctypes.byref(found),
            ctypes.c_uint(0),
        )
        if not failed:
            return found.cached
        if ctypes.get_errno() != errno.ENOSYS:
            raise OSError(ctypes.get_errno(), "cachestat", path)
        return _pages_by_mincore(descriptor, os.path.getsize(path))
    finally:
        os.close(descriptor)


def _pages_by_mincore(descriptor, size):
    if size == 0:
        return 0
    with mmap.mmap(descriptor, size, access=mmap.ACCESS_COPY) as mapping:
        first = ctypes.c_ubyte.from_buffer(mapping)
        resident = (ctypes.c_ubyte * (-(-size // _page_bytes)))()
        address = ctypes.c_void_p(ctypes.addressof(first))
        failed = _libc.mincore(address, ctypes.c_size_t(size), resident)
        del first  # The mapping cannot be closed while something points into it.
        if failed:
            raise OSError(ctypes.get_errno(), "mincore")
        return sum(entry & 1 for entry in resident)


def make_cold(paths):
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fdatasync(descriptor)  # A dirty page cannot be dropped.
            for _ in range(_evictions_max):
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                if pages_cached(path) == 0:
                    break
                time.sleep(0.05)
        finally:
            os.close(descriptor)
    check("cold", paths)


def make_warm(paths):
    for _ in range(_warmings_max):
        # Reading the one file may have cost the other a few pages, or the file its own.
        missing = [path for path in paths if pages_cached(path) != pages_of(path)]
        if not missing:
            break
        for path in missing:
            _read_whole(path)
    check("warm", paths)


def _read_whole(path):
    block = bytearray(8 << 20)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        offset = 0
        while read := os.preadv(descriptor, [block], offset):
            offset += read
    finally:
        os.close(descriptor)


def check(state, paths):
    """Raises WrongState unless of all files no page is cached (cold), or every one is (warm)."""
    for path in paths:
        cached, wanted = pages_cached(path), 0 if state == "cold" else pages_of(path)
        if cached != wanted:
            raise WrongState(
                f"{path} is to be {state}, and {cached} of its {pages_of(path)} pages are cached"
            )


def bring_about(state, paths, memory_bytes):
    """All there is to do before a clock starts; again where pages came or went meanwhile."""
    for attempt in range(_attempts_max):
        try:
            (make_cold if state == "cold" else make_warm)(paths)
            return prepare(state, paths, memory_bytes)
        except WrongState:
            if attempt + 1 == _attempts_max:
                raise


def prepare(state, paths, memory_bytes):
    """The last thing before a clock starts: touches free memory, and checks the state."""
    touch_free_memory(memory_bytes)
    if state == "warm":
        make_warm(paths)  # Taking that memory may have cost the cache a few pages.
    check(state, paths)


def touch_free_memory(size):
    """Takes so much memory and gives it back, until that becomes no faster.

    A virtual machine may have handed its free memory to its host; bringing a page back is as slow
    as a slow drive. Whoever loads next gets pages that cost what they cost on metal.
    """
    before = _take_memory(size)
    for _ in range(_touches_max):
        now = _take_memory(size)
        if now > 0.7 * before:
            break
        before = now


def _take_memory(size):
    """The seconds it took."""
    begin = time.perf_counter()
    with mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        # Huge pages, so that what is free afterwards serves those who take either kind.
        memory.madvise(mmap.MADV_HUGEPAGE)
        try:
            memory.madvise(_madv_populate_write)
        except OSError:  # Before Linux 5.14.
            memory[::_page_bytes] = bytes(len(range(0, size, _page_bytes)))
    return time.perf_counter() - begin
