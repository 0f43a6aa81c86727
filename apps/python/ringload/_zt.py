# SPDX-License-Identifier: Apache-2.0
"""Saving .zt files, by the library's writer."""

import json

from . import _core
from ._operation import Operation


def save(path, views, options):
    """An operation that writes dense tensors to a .zt file. Gives a Saved."""
    from ._loader import Saved

    writing = {key: options.pop(key) for key in ("replace", "sync") if key in options}
    metadata = options.pop("metadata", None) or {}
    storing = {key: options.pop(key) for key in ("zstd_level", "digest") if key in options}
    if options:
        raise ValueError(f"saving .zt has no option {next(iter(options))}")

    def steps():
        writer = _core.ZtWriter(path, writing)
        for key, value in metadata.items():
            yield writer.set_attribute(key, json.dumps(value))
        for view in views:
            yield writer.add([view], storing)
        nbytes, _ = yield writer.finish()
        return Saved([path], nbytes, 0, 0, 0, 0.0, "", {})

    return Operation(steps())
