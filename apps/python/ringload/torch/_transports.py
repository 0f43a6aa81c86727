# SPDX-License-Identifier: Apache-2.0
"""Transports: how the ranks of a group receive the bytes that one of them has read.

A transport prepares the memory of a bucket and determines the reads of this rank. When all ranks
have read, the transport delivers the tensors of this rank.
"""

import mmap
import os

import torch

from .._convert import storage_of
from ._buckets import Reads, first_bytes, overlap, page, rows_of, view_of
from ._memory import mapped, new_memory


# Whole tensors are also copied if they are at most this part of their bucket: an eighth.
_copied_share = 8
# Smaller parts have memory of torch: their place in the mapping would leave a gap.
_aligned_bytes_min = 64 << 10
# The bytes that one all_gather brings to a rank. Gloo allocates as many for each call in progress.
_gathered_bytes = 32 << 20


def add_own(prepared, items, device):
    """Allocates memory for the parts that only this rank reads. Returns it by name.

    In host memory, the large parts of a bucket share one mapping of huge pages. A part that is
    unchanged from the file has the same offset in a page as in its file, so reads that bypass the
    page cache need no copy.
    """
    found, positions, nbytes = {}, {}, 0
    is_host = torch.device(device).type == "cpu"
    for item in items:
        part_bytes = item.local_nbytes()
        if not is_host or part_bytes < _aligned_bytes_min:
            found[item.name] = torch.empty(item.local_shape(), dtype=item.dtype, device=device)
            continue
        wanted = item.part_offset() if item.is_stored else 0
        nbytes += (wanted - nbytes) % page
        positions[item.name] = (nbytes, part_bytes)
        nbytes += part_bytes
    memory = new_memory(nbytes) if nbytes else None
    for item in items:
        if item.name in positions:
            first, part_bytes = positions[item.name]
            part = memory[first : first + part_bytes].view(item.dtype)
            found[item.name] = part.view(item.local_shape())
        first, count = item.ranges[0]
        reads = prepared.reads if item.is_own else prepared.cached_reads
        reads.add(item, found[item.name], item.cut.dim, first, count)
    return found


class _Prepared:
    """A bucket in memory, and the reads into it."""

    def __init__(self, bucket):
        self.bucket = bucket
        self.reads = Reads()
        self.own = {}
        self.cached_reads = Reads()  # The bytes that other ranks also read, through the page cache.
        self.mapped = None  # For MappedFiles: the files of the bucket.
        self.shared = None  # For SharedMemory: the memory that all ranks map.
        self.memory = None  # The bytes of the items with a position.
        self.shares = []
        self.part_bytes = 0  # For Collectives: an equal part of the memory for each rank.
        self.calls = []  # For Collectives: memory that the group's calls use.
        self.staged = []  # (item, bounds of the ranks' rows, this rank's rows).


class Collectives:
    """Uses the backend of the group.

    For whole tensors, an exchange first moves the bytes by which the shares of the ranks differ,
    so that each rank has an equal part of the bucket. all_gather then brings the parts to all ranks.
    So every rank sends as much as every other, and the bytes of the bucket at most twice. The
    broadcasts of Gloo are trees, whose root sends all bytes several times. Divided tensors take
    exchanges.
    """

    name = "group"

    def __init__(self, group, device):
        self._group = group
        self._device = device

    def announce(self, bucket):
        """Returns a message for the other ranks, which is sent before the bucket is prepared."""
        return b""

    def prepare(self, bucket, _notes):
        prepared = _Prepared(bucket)
        bucket.lay_out([item for item in bucket.items if item.cut is None])
        # On all ranks, the first byte is at the start of a page.
        prepared.part_bytes = -(-bucket.nbytes // self._group.size)
        nbytes = prepared.part_bytes * self._group.size
        room = torch.empty(nbytes + 4096, dtype=torch.uint8, device=self._device)
        begin = -room.data_ptr() % 4096
        prepared.memory = room[begin : begin + nbytes]
        prepared.shares = bucket.shares(self._group.size)
        for rows in prepared.shares[self._group.rank]:
            prepared.reads.add_rows(rows, view_of(prepared.memory, rows.item))
        own = [item for item in bucket.items if item.cut is not None and item.is_own]
        prepared.own = add_own(prepared, own, self._device)
        for item in bucket.items:
            if item.cut is not None and not item.is_own and item.nbytes:
                self._stage(prepared, item)
            elif item.cut is not None and not item.nbytes:  # No rank has bytes to send.
                prepared.own[item.name] = torch.empty(
                    item.local_shape(), dtype=item.dtype, device=self._device
                )
        return prepared

    def _stage(self, prepared, item):
        """Each rank reads some rows of the tensor, and sends a part of them to each other rank."""
        ranks, rank = self._group.size, self._group.rank
        bounds = [item.rows * r // ranks for r in range(ranks + 1)]
        if not item.is_splittable or item.split_dim == item.cut.dim:
            reader = sum(item.name.encode()) % ranks
            bounds = [0] * (reader + 1) + [item.rows] * (ranks - reader)
        shape = list(item.shape)
        shape[item.split_dim] = bounds[rank + 1] - bounds[rank]
        rows = torch.empty(shape, dtype=item.dtype, device=self._device)
        prepared.reads.add(item, rows, item.split_dim, bounds[rank], shape[item.split_dim])
        prepared.staged.append((item, bounds, rows))

    def more_reads(self, prepared):
        """Returns another operation that must end before the bucket is delivered, or None."""
        return None

    def begin(self, prepared):
        """Returns the calls of the group that must end before gather()."""
        works = []
        if prepared.part_bytes and self._group.size > 1:
            works.append(self._begin_leveling(prepared))
        prepared.exchange = self._begin_exchange(prepared, works) if prepared.staged else None
        return works

    def _begin_leveling(self, prepared):
        """Begins the exchange after which each rank has its equal part of the bucket."""
        ranks, rank, size = self._group.size, self._group.rank, prepared.part_bytes
        firsts = first_bytes(prepared.shares, size * ranks)
        # The shares of the ranks, and their parts, in the order of the memory.
        shares = list(zip(firsts, firsts[1:]))
        parts = [(r * size, (r + 1) * size) for r in range(ranks)]
        content = prepared.memory[firsts[rank] : firsts[rank + 1]].clone()
        prepared.calls.append(content)
        return self._group.begin_exchange(
            prepared.memory[rank * size : (rank + 1) * size],
            content,
            [overlap(*share, *parts[rank]) for share in shares],
            [overlap(*shares[rank], *part) for part in parts],
        )

    def gather(self, prepared):
        """Returns the calls of the group that bring the bucket to all ranks."""
        works, ranks, size = [], self._group.size, prepared.part_bytes
        prepared.calls.clear()
        if ranks == 1:
            return works
        step = max(1, _gathered_bytes // ranks)
        for first in range(0, size, step):
            end = min(first + step, size)
            parts = [prepared.memory[r * size + first : r * size + end] for r in range(ranks)]
            works.append(self._group.begin_gather(parts))
        return works

    def _begin_exchange(self, prepared, works):
        ranks, rank = self._group.size, self._group.rank
        sent, sent_bytes = [], []
        for to in range(ranks):
            parts = [item.part(rows, to).contiguous().view(-1).view(torch.uint8)
                     for item, _, rows in prepared.staged if rows.numel()]  # fmt: skip
            sent.extend(parts)
            sent_bytes.append(sum(part.numel() for part in parts))
        received_bytes = [
            sum(_block(item, bounds, source, rank)[1] for item, bounds, _ in prepared.staged)
            for source in range(ranks)
        ]
        received = torch.empty(sum(received_bytes), dtype=torch.uint8, device=self._device)
        content = torch.cat(sent) if sent else received[:0]
        works.append(self._group.begin_exchange(received, content, received_bytes, sent_bytes))
        return received, content

    def deliver(self, prepared):
        """Returns the tensors of this rank by name."""
        found = dict(prepared.own)
        for item in prepared.bucket.laid_out:
            found[item.name] = view_of(prepared.memory, item)
        if prepared.staged:
            self._unpack(prepared, found)
        return found

    def drop(self, prepared):
        """Releases a bucket that is not delivered."""

    def close(self):
        """Called after the last bucket, or after a failure."""

    def _unpack(self, prepared, found):
        received, _ = prepared.exchange
        for item, _, _ in prepared.staged:
            found[item.name] = torch.empty(
                item.local_shape(), dtype=item.dtype, device=self._device
            )
        position = 0
        for source in range(self._group.size):
            for item, bounds, _ in prepared.staged:
                shape, nbytes = _block(item, bounds, source, self._group.rank)
                # A copy, because the position may not be aligned for the element type.
                block = received[position : position + nbytes].clone()
                position += nbytes
                first, count = bounds[source], bounds[source + 1] - bounds[source]
                if item.split_dim == item.cut.dim and nbytes:
                    found[item.name].copy_(block.view(item.dtype).view(shape))
                elif nbytes:
                    into = found[item.name].narrow(item.split_dim, first, count)
                    into.copy_(block.view(item.dtype).view(shape))


def _block(item, bounds, source, rank):
    """Returns the shape and bytes of the part for `rank` of the rows that `source` has read."""
    shape = list(item.local_shape(rank))
    if item.split_dim != item.cut.dim:
        shape[item.split_dim] = bounds[source + 1] - bounds[source]
    elif bounds[source] == bounds[source + 1]:
        shape[item.split_dim] = 0
    count = 1
    for size in shape:
        count *= size
    return shape, count * torch.empty((), dtype=item.dtype).element_size()


class SharedMemory:
    """Uses memory that all ranks of a machine map. A rank's tensors are private to the rank.

    If all files are on the machine, a rank reads a part that is one range of a dimension through
    the page cache: the ranks share the page cache, so the drive reads each byte once. Other
    divided tensors are copied out of the memory of their bucket. So the memory can be used again
    for the bucket after the next: when a rank has read the next bucket, all ranks have copied. The
    pages are populated only once.
    """

    name = "shared_memory"

    def __init__(self, group, device, shares_page_cache=False):
        self._group = group
        self._device = device
        self._shares_page_cache = shares_page_cache
        self._kept = [None, None]  # The memory of buckets, used in turns.
        self._turn = 0
        self._count = 0  # The number of memories that rank 0 has created.
        self._announced = None  # The bucket whose memory rank 0 has created last.

    def reads_alone(self, item):
        """Returns True if each rank reads its part of the tensor into separate memory."""
        return item.is_slice if self._shares_page_cache else item.is_own

    def shares(self, item):
        """Returns True if the tensor is in the memory that all ranks map."""
        return not self.reads_alone(item)

    def announce(self, bucket):
        bucket.lay_out([item for item in bucket.items if self.shares(item)])
        whole = sum(item.nbytes for item in bucket.laid_out if item.cut is None)
        bucket.is_copied = whole * _copied_share <= bucket.nbytes
        self._turn = 1 - self._turn
        if self._group.rank != 0 or bucket.nbytes == 0:
            return b""
        kept = self._kept[self._turn]
        if bucket.is_copied and kept is not None and kept.nbytes >= bucket.nbytes:
            return kept.note
        self._count += 1
        file = os.memfd_create("ringload", os.MFD_CLOEXEC)
        # The first tensor of another bucket may begin at any offset in its page.
        os.ftruncate(file, (bucket.nbytes // mmap.PAGESIZE + 2) * mmap.PAGESIZE)
        bucket.file = file
        self._announced = bucket
        return f"{os.getpid()} {file} {_identity_of(file)} {self._count}".encode()

    def prepare(self, bucket, notes):
        prepared = _Prepared(bucket)
        if bucket.nbytes:
            prepared.shared = self._open(bucket, notes[0])
            prepared.memory = prepared.shared.memory[: bucket.nbytes]
            prepared.shares = bucket.shares(self._group.size)
            for rows in prepared.shares[self._group.rank]:
                prepared.reads.add_rows(rows, view_of(prepared.memory, rows.item))
        own = [item for item in bucket.items if self.reads_alone(item)]
        prepared.own = add_own(prepared, own, self._device)
        return prepared

    def _open(self, bucket, note):
        kept = self._kept[self._turn]
        if bucket.is_copied and kept is not None and kept.note == note:
            return kept
        if self._group.rank == 0:
            file, bucket.file = bucket.file, None
        else:
            file = _open_announced(note)
        try:
            shared = _Shared(file, note)
        except BaseException:
            os.close(file)
            raise
        if shared.nbytes < bucket.nbytes:
            shared.close()
            raise OSError("the memory of rank 0 is smaller than expected")
        if bucket.is_copied:
            if kept is not None:
                kept.close()
            self._kept[self._turn] = shared
        return shared

    def more_reads(self, prepared):
        return None

    def begin(self, prepared):
        return []

    def gather(self, prepared):
        return []

    def deliver(self, prepared):
        found = dict(prepared.own)
        if prepared.shared is None:  # A bucket without bytes has no memory.
            for item in prepared.bucket.laid_out:
                found[item.name] = torch.empty(
                    item.local_shape(), dtype=item.dtype, device=self._device
                )
            return found
        memory = prepared.memory
        if not prepared.bucket.is_copied:
            prepared.memory = None
            try:
                memory = prepared.shared.private()
            finally:
                self.drop(prepared)
        for item in prepared.bucket.laid_out:
            tensor = view_of(memory, item)
            if item.cut is not None:
                tensor = item.part(tensor, self._group.rank)
            is_view = storage_of(tensor).data_ptr() == storage_of(memory).data_ptr()
            is_kept = item.cut is None and not prepared.bucket.is_copied
            found[item.name] = tensor.clone() if is_view and not is_kept else tensor
        return found

    def drop(self, prepared):
        if prepared.shared is not None and not prepared.bucket.is_copied:
            prepared.shared.close()
        prepared.shared = None

    def close(self):
        """Releases the memory that is kept for later buckets."""
        for shared in self._kept:
            if shared is not None:
                shared.close()
        self._kept = [None, None]
        announced, self._announced = self._announced, None
        if announced is not None and announced.file is not None:  # It was not prepared.
            os.close(announced.file)
            announced.file = None


def _identity_of(file):
    status = os.fstat(file)
    return f"{status.st_dev}:{status.st_ino}"


def _open_announced(note):
    """Opens the memory that rank 0 has announced. Raises OSError if rank 0 has closed it."""
    process, number, identity, _ = note.decode().split()
    # If rank 0 has closed the memory, the descriptor may be another file, which must not change.
    file = os.open(f"/proc/{process}/fd/{number}", os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY)
    if _identity_of(file) != identity:
        os.close(file)
        raise OSError("rank 0 has closed the memory of its load")
    return file


class _Shared:
    """Memory that all ranks map."""

    def __init__(self, file, note):
        self.note = note
        self.nbytes = os.fstat(file).st_size
        self.memory = mapped(file, self.nbytes, mmap.MAP_SHARED)
        self._file = file

    def private(self):
        """Returns a view whose pages become private to this rank when it writes to them."""
        return mapped(self._file, self.nbytes, mmap.MAP_PRIVATE)

    def close(self):
        """Closes the mapping. The memory lives as long as a tensor views it."""
        if self._file >= 0:
            os.close(self._file)
        self._file, self.memory = -1, None


def machine_of_process():
    """Returns a text that is the same for processes that can map each other's memory."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            boot = file.read().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')} {os.getuid()}"
    except OSError:
        return ""
