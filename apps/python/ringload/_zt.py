# SPDX-License-Identifier: Apache-2.0
"""Saves .zt files with features of the writer: compression, digests, attributes."""

from . import _core
from ._errors import usage
from ._operation import reported
from ._progress import save_reporter
from ._results import Saved

of_writer = ("zstd_level", "digest")


def needs_writer(options):
    """Returns True if only the writer has these options. Otherwise, a save is faster."""
    metadata = options.get("metadata") or {}
    return any(options.get(key) not in (None, 0) for key in of_writer) or not all(
        isinstance(value, str) for value in metadata.values()
    )


def save(path, views, options, sizes, progress, store=None):
    """Returns an operation that writes dense tensors to a .zt file and returns a Saved."""
    options = {key: value for key, value in options.items() if value is not None}
    writing = {key: options.pop(key) for key in ("replace", "sync") if key in options}
    if store is not None:
        writing["store"] = store
    metadata = options.pop("metadata", None) or {}
    storing = {key: options.pop(key) for key in of_writer if key in options}
    if options:
        name = next(iter(options))
        raise usage(
            f"{name}: not an option of a .zt file with compression, a digest or typed metadata"
        )
    firsts = _core.first_of_same(views)
    total = sum(size for at, size in enumerate(sizes) if firsts[at] == at)
    writer = _core.ZtWriter(path, writing)
    report = save_reporter(progress, lambda: (writer.bytes_taken(), total))

    def steps():
        for key, value in metadata.items():
            try:
                setting = writer.set_attribute(key, value)
            except TypeError as failure:
                raise TypeError(f"metadata: the value of '{key}': {failure}") from None
            yield setting
        for at, (view, first) in enumerate(zip(views, firsts, strict=True)):
            if first == at:
                yield writer.add([view], storing)
            else:
                yield writer.add_alias(view[0], views[first][0])
        _, _, done = yield writer.finish()
        report()
        direct, writes, seconds = (done[key] for key in ("bytes_direct", "writes", "seconds"))
        return Saved([str(path)], done["nbytes"], direct, 0, writes, seconds, "", {})

    return reported(steps(), report)
