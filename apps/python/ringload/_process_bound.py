# SPDX-License-Identifier: Apache-2.0
"""Objects that exist in one process only, and refuse to be pickled or copied."""


class ProcessBound:
    """Base class of objects with threads, files or memory of this process."""

    __slots__ = ()

    _instead = ""  # The text names the object to send instead.

    def __reduce_ex__(self, protocol):
        name = type(self).__name__
        article = "an" if name[0] in "AEIOU" else "a"
        raise TypeError(f"{article} {name} cannot be pickled or copied: {self._instead}")
