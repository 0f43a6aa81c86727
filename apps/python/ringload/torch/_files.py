# SPDX-License-Identifier: Apache-2.0
"""The identity of the local files that a rank has opened."""

import itertools
import os
import stat

from .._errors import make
from .._options import source_text

_near_max = 4096  # The most files whose identities are taken before an open.
_small_max = 64 << 20


def identity_of(status):
    """Returns values that differ if a file was replaced or modified."""
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns]


def _identities_of(checkpoint):
    """Returns the identity of each file of the checkpoint. A file of a network source has None."""
    found = []
    for path, _, _ in checkpoint.files:
        try:
            status = os.stat(path)
        except (OSError, ValueError):
            found.append(None)
            continue
        found.append(identity_of(status) if stat.S_ISREG(status.st_mode) else None)
    return found


def identities_near(source):
    """Returns the identities of the files in the folders of a source, keyed by path.

    The value is None for an entry that is not a regular file. The dictionary is empty if the source
    is not local.
    """
    found = {}
    try:
        parts = [source] if isinstance(source, (str, os.PathLike)) else source
        parts = [os.fspath(part) for part in parts]
        are_folders = [stat.S_ISDIR(os.stat(part).st_mode) for part in parts]
        folders = {
            part if is_folder else os.path.dirname(part)
            for part, is_folder in zip(parts, are_folders)
        }
        for folder in folders:
            with os.scandir(folder or ".") as entries:
                for entry in itertools.islice(entries, _near_max - len(found)):
                    status = os.stat(entry.path)
                    is_file = stat.S_ISREG(status.st_mode)
                    path = os.path.join(folder, entry.name)
                    found[path] = identity_of(status) if is_file else None
    except (OSError, TypeError, ValueError):
        pass
    return found


def are_small(near):
    """Returns True if the files have few bytes together, so that a loader needs few buffers.

    Returns False if an entry is a folder, because the folder may contain more files.
    """
    if not 0 < len(near) < _near_max or None in near.values():
        return False
    return sum(size for _, _, size, _ in near.values()) <= _small_max


def open_local(near, open_checkpoint):
    """Opens a checkpoint. Returns it, and the identities of its files.

    near: the result of identities_near() from before the open.

    The engine does not tell which file it has opened. If the file at a path has the same identity
    before and after the open, the open has opened this file. If the paths are not known before the
    open, the checkpoint is opened a second time.
    """
    checkpoint = open_checkpoint()
    paths, identities = checkpoint.files, _identities_of(checkpoint)
    # Files of the network have no identity, and a file may enter the cache of the hub meanwhile.
    if None in identities or all(
        near.get(path) == identity for (path, _, _), identity in zip(paths, identities)
    ):
        return checkpoint, identities
    checkpoint = open_checkpoint()
    if checkpoint.files != paths or _identities_of(checkpoint) != identities:
        place = paths[0][0]
        text = f"{place}: the files were changed while they were opened"
        raise make("changed_file", 0, text, place)
    return checkpoint, identities


def scope_of(source, identities):
    """Returns a value that is the same on ranks for which the source names the same local files.

    If a file is not local, the value is the same on no other rank.
    """
    try:
        if None not in identities:
            with open("/proc/sys/kernel/random/boot_id") as file:
                boot = file.read().strip()
            return [boot, os.readlink("/proc/self/ns/mnt"), os.getcwd(), source_text(source)]
    except OSError:
        pass  # Without /proc or a working directory, the files are not compared.
    return [os.getpid(), os.urandom(16).hex()]
