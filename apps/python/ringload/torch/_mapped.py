# SPDX-License-Identifier: Apache-2.0
"""The transport of mapped files: ranks of one machine share the page cache.

Each rank reads its share of the bytes into the page cache. Then all ranks map the whole tensors.
"""

import ctypes
import errno
import mmap
import os
import threading

from .._errors import make
from ._buckets import Rows, shares_of
from ._files import identity_of
from ._memory import mapped
from ._transports import SharedMemory

_page = mmap.PAGESIZE
_populate_read = 22  # MADV_POPULATE_READ of Linux 5.14.
_step_bytes = 64 << 20  # Between two steps, the thread checks for a cancellation.
_libc = ctypes.CDLL(None, use_errno=True)
_libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


class _LocalFile:
    """A file that stays open, so that all buckets map the same version."""

    def __init__(self, path, identity):
        self.path = path
        self._identity = identity
        self.descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self.check_unchanged()
        except BaseException:
            self.close()
            raise

    def check_unchanged(self):
        """Raises an error if the file is not the version that the ranks have agreed on."""
        found = identity_of(os.fstat(self.descriptor))
        if found == self._identity:
            return
        if found[:2] != self._identity[:2]:
            reason = "the file was replaced after it was opened"
        elif found[2] < self._identity[2]:
            reason = "the file became shorter"
        else:
            reason = "the file was modified after it was opened"
        raise make("changed_file", 0, f"{self.path}: {reason}", self.path)

    def close(self):
        if self.descriptor >= 0:
            os.close(self.descriptor)
        self.descriptor = -1


class _MappedFile:
    """A private view of a range of a file."""

    def __init__(self, file, items):
        first = min(item.info.offset for item in items)
        end = max(item.info.offset + item.nbytes for item in items)
        self.file = file
        self._base = first // _page * _page
        file.check_unchanged()
        self._memory = mapped(file.descriptor, end - self._base, mmap.MAP_PRIVATE, self._base)

    def bytes_of(self, rows):
        """Returns the bytes of these rows."""
        first = rows.item.info.offset - self._base + rows.first * rows.item.row_bytes
        return self._memory[first : first + rows.count * rows.item.row_bytes]

    def populate(self, first, end):
        """Reads the pages of these addresses into the page cache."""
        start = first // _page * _page
        if _libc.madvise(start, end - start, _populate_read) == 0:
            return
        number = ctypes.get_errno()
        if number == errno.EINVAL:  # An older kernel.
            offset = first - self._memory.data_ptr()
            self._memory[offset : offset + end - first : _page].sum()
        elif number == errno.EFAULT:
            path = self.file.path
            raise make("changed_file", 0, f"{path}: the file became shorter", path)
        else:
            raise OSError(number, os.strerror(number), self.file.path)


class _Populating:
    """Reads into the page cache in a thread. It has the interface of an operation."""

    def __init__(self, runs):
        self._runs = runs
        self._is_cancelled = False
        self._failure = None
        self.stats = {"bytes": sum(end - first for _, first, end in runs)}
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        try:
            for file, first, end in self._runs:
                for start in range(first, end, _step_bytes):
                    if self._is_cancelled:
                        return
                    file.populate(start, min(start + _step_bytes, end))
        except Exception as failure:
            self._failure = failure

    def cancel(self):
        self._is_cancelled = True

    def exception(self):
        self._thread.join()
        return self._failure

    def result(self):
        failure = self.exception()
        if failure is not None:
            raise failure
        return self


class MappedFiles(SharedMemory):
    """Whole tensors are views of the files. Each rank reads its part of a divided tensor.

    A part that is not contiguous in the file is read through the page cache, so the drive reads
    each byte once.
    """

    name = "mapped"

    def __init__(self, group, checkpoint, identities):
        super().__init__(group, "cpu", shares_page_cache=True)
        self._files = []
        try:
            for (path, _, _), identity in zip(checkpoint.files, identities, strict=True):
                self._files.append(_LocalFile(path, identity))
        except BaseException:
            self.close()
            raise

    def shares(self, item):
        return not item.is_mappable and super().shares(item)

    def prepare(self, bucket, notes):
        prepared = super().prepare(bucket, notes)
        by_file = {}
        for item in bucket.items:
            if item.is_mappable:
                by_file.setdefault(item.info.file, []).append(item)
        prepared.mapped = {
            number: _MappedFile(self._files[number], items) for number, items in by_file.items()
        }
        return prepared

    def more_reads(self, prepared):
        """Returns an operation that reads this rank's share of the mapped files, or None."""
        mapped = [item for item in prepared.bucket.items if item.is_mappable]
        runs = []
        for one in shares_of(mapped, self._group.size)[self._group.rank]:
            file = prepared.mapped[one.item.info.file]
            content = file.bytes_of(one)
            first, end = content.data_ptr(), content.data_ptr() + content.numel()
            if runs and runs[-1][0] is file and 0 <= first - runs[-1][2] <= _page:
                runs[-1] = (file, runs[-1][1], end)
            else:
                runs.append((file, first, end))
        return _Populating(runs) if runs else None

    def deliver(self, prepared):
        found = super().deliver(prepared)
        for item in prepared.bucket.items:
            if item.is_mappable:
                content = prepared.mapped[item.info.file].bytes_of(Rows(item, 0, item.rows))
                found[item.name] = content.view(item.dtype).view(item.shape)
        for view in prepared.mapped.values():
            view.file.check_unchanged()
        return found

    def close(self):
        super().close()
        for file in self._files:
            file.close()
