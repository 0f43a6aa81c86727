# SPDX-License-Identifier: Apache-2.0
"""The identity of the local files that a rank has opened."""

import itertools
import os
import stat

from .._errors import make
from .._options import source_text

_near_max = 4096  # The most files whose identities are taken before an open.


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


def _identities_near(source):
    """Returns the identities of the files in the folders of a source, keyed by path."""
    found = {}
    try:
        parts = [source] if isinstance(source, (str, os.PathLike)) else source
        parts = [os.fspath(part) for part in parts]
        folders = {part if os.path.isdir(part) else os.path.dirname(part) for part in parts}
        for folder in folders:
            with os.scandir(folder or ".") as entries:
                for entry in itertools.islice(entries, _near_max - len(found)):
                    found[os.path.join(folder, entry.name)] = identity_of(os.stat(entry.path))
    except (OSError, TypeError, ValueError):
        pass
    return found


def open_local(source, open_checkpoint):
    """Opens a checkpoint. Returns it, and the identities of its files.

    The engine does not tell which file it has opened. If the file at a path has the same identity
    before and after the open, the open has opened this file. If the paths are not known before the
    open, the checkpoint is opened a second time.
    """
    near = _identities_near(source)
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
