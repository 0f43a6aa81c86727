# SPDX-License-Identifier: Apache-2.0
"""The results of a fill and of a save."""

import collections

Filled = collections.namedtuple("Filled", "missing unexpected stats")
_Saved = collections.namedtuple(
    "Saved", "files nbytes bytes_direct bytes_unstaged writes seconds route_reason digests"
)


class Saved(_Saved):
    """The result of a save. `verify` of a load takes its `digests`."""

    __slots__ = ()

    @property
    def checksums(self):
        """Returns the digests as the text of a checksum list, with one line for each tensor."""
        return "".join(f"{line}\n" for line in self.digests.values())
