# SPDX-License-Identifier: Apache-2.0
"""The process group: messages to all ranks, and failures that reach all ranks.

If one rank does not enter a collective call of PyTorch, the other ranks wait forever. So each rank
reports its failures in the store of the group, and a waiting rank reads the store. A thread reads
the store, because a store whose process is stopped does not reply.
"""

import ctypes
import datetime
import secrets
import threading
import time

import torch
from torch import distributed

from .._errors import make, usage

_message_bytes = 4096
_poll_seconds = 0.1
# A rank checks again after a fiftieth of the time that it has waited.
_pause_min, _pause_max, _pause_share = 100e-6, 20e-3, 0.02
_grace_seconds = 3.0  # The longest wait for the reports of other ranks.


def _failed(text):
    return make("rank_failed", 0, text, "")


def _store_of(group):
    """Returns the store of the group, or None."""
    try:
        found = distributed.distributed_c10d._world.pg_map[group]
    except (AttributeError, KeyError):
        try:
            found = distributed.distributed_c10d._pg_map[group]
        except (AttributeError, KeyError):
            return None
    return found[1]


class _Reports:
    """The reports of failures of all ranks, which are keys of the group's store."""

    def __init__(self, store, rank, ranks, token):
        self._store = store
        self._rank = rank
        self._prefix = f"ringload/{token}/"
        self._ranks = ranks
        self._over = threading.Event()
        self._thread = None
        self.found = {}  # Keyed by rank. Only the thread writes it.

    def watch(self):
        if self._store is not None and self._thread is None:
            self._thread = threading.Thread(target=self._read, daemon=True)
            self._thread.start()

    def stop(self):
        self._over.set()

    def _read(self):
        missing = set(range(self._ranks)) - {self._rank}
        try:
            while missing and not self._over.is_set():
                for rank in sorted(missing):
                    key = f"{self._prefix}{rank}"
                    if self._has(key):
                        self.found[rank] = self._store.get(key).decode(errors="replace")
                        missing.discard(rank)
                self._over.wait(_poll_seconds)
        except Exception:  # The process of the store has ended, so its rank cannot report.
            return

    def _has(self, key):
        if hasattr(self._store, "check"):
            return self._store.check([key])
        try:  # PyTorch 1.
            self._store.wait([key], datetime.timedelta(milliseconds=20))
        except RuntimeError:
            return False
        return True

    def send(self, text, seconds):
        """Reports a failure of this rank. Waits at most `seconds` for the store."""
        if self._store is None:
            return
        key = f"{self._prefix}{self._rank}"

        def write():
            try:
                self._store.set(key, text[:_message_bytes])
            except Exception:
                return

        sender = threading.Thread(target=write, daemon=True)
        sender.start()
        sender.join(seconds)


# A report of a rank's own failure, or of a rank that lost the other ranks.
_own, _lost = "failed: ", "lost: "


class RankGroup:
    """The use of a process group by one load. All ranks make the same calls in the same order."""

    def __init__(self, group, timeout, device):
        self.rank = distributed.get_rank(group)
        if self.rank < 0:
            raise usage("process_group: this process is not a rank of the group")
        self.size = distributed.get_world_size(group)
        self._group = group
        # The wait for reports of other ranks ends at the time limit.
        self._grace = min(_grace_seconds, timeout / 4)
        self._timeout = timeout - self._grace
        self._device = device
        self._reports = None

    def meet(self, message):
        """Exchanges the first messages, as gather() does. After it, failures are reported."""
        token = secrets.token_hex(8).encode()
        all_messages = self.gather(token + message, "to begin the load")
        token = all_messages[0][: len(token)].decode(errors="replace")
        self._reports = _Reports(_store_of(self._group), self.rank, self.size, token)
        return [each[len(token) :] for each in all_messages]

    def gather(self, message, purpose):
        """Returns the messages of all ranks, each of at most some kilobytes."""
        message = message[: _message_bytes - 4]
        content = len(message).to_bytes(4, "little") + message
        content = bytearray(content.ljust(_message_bytes, b"\0") * self.size)
        sent = torch.frombuffer(content, dtype=torch.uint8).to(self._device)
        found = torch.empty_like(sent)
        # One step. The all_gather of Gloo is a ring, which takes a step for each rank.
        sizes = [_message_bytes] * self.size
        self.wait([self.begin_exchange(found, sent, sizes, sizes)], purpose)
        found = found.cpu()
        content = ctypes.string_at(found.data_ptr(), found.numel())
        texts = [content[i : i + _message_bytes] for i in range(0, len(content), _message_bytes)]
        return [text[4 : 4 + int.from_bytes(text[:4], "little")] for text in texts]

    def agree(self, failure, purpose, note=b""):
        """Raises on all ranks if one of them has failed. Returns the notes of all ranks."""
        text = b"" if failure is None else (str(failure) or type(failure).__name__).encode(
            errors="backslashreplace"
        )
        messages = self.gather(bytes([failure is not None]) + (text or note), purpose)
        if failure is not None:
            raise failure
        for rank, message in enumerate(messages):
            if message[:1] != b"\0":
                raise _failed(f"rank {rank}: {message[1:].decode(errors='replace')}")
        return [message[1:] for message in messages]

    def begin_gather(self, parts):
        """Begins to fill the parts of all ranks, of equal size, of which this rank has its own."""
        return self._begin(distributed.all_gather, parts, parts[self.rank])

    def begin_exchange(self, received, sent, received_bytes, sent_bytes):
        """Begins an exchange in which each rank sends a range of bytes to each other rank."""
        return self._begin(
            distributed.all_to_all_single, received, sent, received_bytes, sent_bytes
        )

    def _begin(self, call, *arguments):
        try:
            return call(*arguments, group=self._group, async_op=True)
        except (RuntimeError, ValueError) as failure:
            raise self._lost_rank(str(failure)) from failure

    def wait(self, works, purpose):
        """Waits for begun calls. Raises RankFailedError if another rank cannot take part."""
        began = time.monotonic()
        for work in works:
            while not work.is_completed():
                waited = time.monotonic() - began
                if waited > _poll_seconds:
                    self._check_reports()
                if waited > self._timeout:
                    raise self._lost_rank(f"it waited {self._timeout:.3g} s {purpose}")
                time.sleep(min(max(_pause_min, waited * _pause_share), _pause_max))
            try:
                work.wait(datetime.timedelta(seconds=self._timeout))
            except (RuntimeError, ValueError) as failure:
                text = str(failure).partition("\n")[0]
                raise self._lost_rank(f"{text}, while it waited {purpose}") from failure

    def _check_reports(self):
        if self._reports is None:
            return
        self._reports.watch()
        for rank, text in sorted(self._reports.found.items()):
            if text.startswith(_own):
                raise _failed(f"rank {rank}: {text[len(_own) :]}")

    def _lost_rank(self, reason):
        """Returns the error of a rank that lost the other ranks, with their reports if any."""
        if self._reports is None:
            return _failed(f"rank {self.rank}: {reason}")
        until = time.monotonic() + self._grace
        self._reports.watch()
        self._reports.send(_lost + reason, self._grace)
        others = set(range(self.size)) - {self.rank}
        while time.monotonic() < until:
            found = dict(self._reports.found)
            own = [rank for rank, text in sorted(found.items()) if text.startswith(_own)]
            if own:
                return _failed(f"rank {own[0]}: {found[own[0]][len(_own) :]}")
            if found.keys() >= others:
                break
            time.sleep(_poll_seconds)
        silent = sorted(others - self._reports.found.keys())
        if not silent or len(silent) == len(others):
            return _failed(f"the ranks have lost each other: rank {self.rank}: {reason}")
        ranks = ", ".join(str(rank) for rank in silent)
        return _failed(
            f"rank{'s' if len(silent) > 1 else ''} {ranks}: ended, hangs, or makes another "
            f"call: rank {self.rank}: {reason}"
        )

    def report(self, failure):
        """Reports to the other ranks that this rank ends its part of the load."""
        if self._reports is not None and not getattr(failure, "kind", "") == "rank_failed":
            text = str(failure) or type(failure).__name__
            self._reports.send(_own + text, self._grace)

    def end(self):
        if self._reports is not None:
            self._reports.stop()
