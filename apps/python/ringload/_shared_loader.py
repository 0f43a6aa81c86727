# SPDX-License-Identifier: Apache-2.0
"""A loader that loads of small files share, because its creation takes longer than the load.

The loader has few buffers and so keeps little memory. It is closed at the end of the interpreter,
and before a fork if no load uses it. So a program that has loaded a small file forks without
threads of ringload.
"""

import os
import stat
import threading
from contextlib import contextmanager

from ._loader import Loader
from ._remote import scheme_of

file_bytes_max = 4 << 20
_limits = {"slots": 4, "slot_bytes": 1 << 20, "copy_threads": 1}

_lock = threading.Lock()
_loader = None
_users = 0


def is_small(source):
    """Returns True if this is a small local file that is the whole checkpoint."""
    if not isinstance(source, (str, bytes, os.PathLike)):
        return False
    try:
        name = os.fsdecode(source)
        status = os.stat(name)
    except (OSError, ValueError):
        return False
    if name.endswith(".json") or "-of-" in name or scheme_of(name) is not None:
        return False  # The source is an index, a part of several, or an address.
    return stat.S_ISREG(status.st_mode) and status.st_size <= file_bytes_max


@contextmanager
def shared_loader():
    """Yields the loader, which stays open until the block ends."""
    global _loader, _users
    with _lock:
        if _loader is None or _loader.closed:
            _loader = Loader(remote=False, **_limits)
        loader = _loader
        _users += 1
    try:
        yield loader
    finally:
        with _lock:
            _users -= 1


def _before_fork():
    global _loader
    _lock.acquire()
    if _loader is not None and _users == 0:
        _loader.close()
        _loader = None


def _after_fork_in_child():
    global _loader, _users
    _loader = None
    _users = 0
    _lock.release()


os.register_at_fork(
    before=_before_fork, after_in_parent=_lock.release, after_in_child=_after_fork_in_child
)
