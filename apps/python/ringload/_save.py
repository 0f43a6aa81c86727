# SPDX-License-Identifier: Apache-2.0
"""Saves of existing tensors."""

from . import _convert, _core, _zt
from ._errors import usage
from ._names import dtype_name, is_utf8, shown
from ._operation import reported
from ._options import with_sizes
from ._progress import save_reporter
from ._results import Saved


def _is_zt(path, options):
    """Returns True if the format is .zt, by the same rule as the library."""
    if options.get("format") in (None, "by_name"):
        return path.endswith(".zt")
    return options["format"] == "zt"


def _checked_metadata(metadata, is_zt):
    """Returns the metadata as a dictionary. Only .zt takes values that are not texts."""
    expected = "a dict with keys of str" if is_zt else "a dict of str to str"
    if not hasattr(metadata, "items"):
        raise TypeError(f"metadata must be {expected}, not {shown(metadata)}")
    metadata = dict(metadata)
    for key, value in metadata.items():
        if not isinstance(key, str):
            raise TypeError(f"metadata: a key must be a str, not {shown(key)}")
        if not is_utf8(key):
            raise usage(f"metadata: a key must be UTF-8 text, not {key!r}")
        if not is_zt and not isinstance(value, str):
            raise TypeError(f"metadata: the value of '{key}' must be a str, not {shown(value)}")
    return metadata


def _check_types(model):
    """Raises an error if a save would drop the type of a tensor, as of quantised blocks."""
    for name, kind in model._undescribed_types.items():
        raise usage(
            f"tensor '{name}': a save would keep its bytes without their type {kind}: convert the "
            "file with 'ringload convert', or load quantised blocks of GGUF with dtype=\"f32\""
        )


def save(engine, path, tensors, options, progress, store=None):
    """Returns an operation that returns a Saved. See Loader.save().

    store: the store of an address, or None for a path.
    """
    own_texts = None
    if isinstance(tensors, _core.Model):
        _check_types(tensors)
    if options.get("metadata") is None and isinstance(tensors, _core.Model):
        options["metadata"] = tensors.metadata
        own_texts = tensors._metadata_texts
    elif options.get("metadata") is not None:
        options["metadata"] = _checked_metadata(options["metadata"], _is_zt(path, options))
    tensors = dict(_convert.items_of(tensors))
    views = _convert.exported_all(tensors)
    if _is_zt(path, options):
        if _zt.needs_writer(options):
            options.pop("format", None)
            sizes = [getattr(one, "nbytes", 0) for one in tensors.values()]
            return _zt.save(path, views, options, sizes, progress, store)
        options = {key: value for key, value in options.items() if key not in _zt.of_writer}
    elif options.pop("zstd_level", None) not in (None, 0):
        raise usage("zstd_level can be used only for the format .zt")
    if own_texts is not None and not _is_zt(path, options):  # Only .zt has other types.
        options["metadata"] = own_texts
    given = with_sizes(options)
    if given.get("dtype") is not None:
        given["dtype"] = dtype_name(given["dtype"])
    given["progress"] = so_far = _core.SaveProgress()
    report = save_reporter(progress, lambda: (so_far.bytes, so_far.bytes_total))

    def steps():
        done = yield engine.save(path, views, given)
        report()
        return Saved(**done)

    return reported(steps(), report)
