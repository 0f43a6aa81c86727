# SPDX-License-Identifier: Apache-2.0
"""The results of a fill and of a save."""

import collections

Filled = collections.namedtuple("Filled", "missing unexpected stats")
_Saved = collections.namedtuple(
    "Saved", "files nbytes bytes_direct bytes_straight writes seconds route_reason digests"
)


class Saved(_Saved):
    """The result of a save. `digests` of one is what `verify` of a load takes."""

    __slots__ = ()

    @property
    def manifest(self):
        """The digests as the text of a manifest, a line for each tensor, to be kept in a file."""
        return "".join(f"{line}\n" for line in self.digests.values())
