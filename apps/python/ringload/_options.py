# SPDX-License-Identifier: Apache-2.0
"""Converts sources, selections and options of the caller to the library's form."""

from . import _core
from ._errors import usage
from ._names import dtype_name, path_text, size
from ._tensor_info import TensorInfo

_sizes = frozenset(
    "slot_bytes bytes_in_flight bytes_per_second_max arena_bytes_max cached_bytes shard_bytes "
    "chunk_bytes whole_bytes_max".split()
)


def with_sizes(options):
    """Returns the options with sizes such as "2GiB" as numbers of bytes."""
    return {key: size(value, key) if key in _sizes else value for key, value in options.items()}


def load_options(options):
    """Returns the options of a load in the library's form."""
    given = dict(options)
    if "dtype" in given:
        given["dtype"] = dtype_name(given["dtype"])
    verify = given.get("verify")
    if verify is not None:
        given["verify"] = dict(verify) if hasattr(verify, "items") else path_text(verify)
        if given["verify"] == "":
            raise usage(
                "verify: '' is invalid, expected 'if_present', 'require', the path of a checksum "
                "list, or the digests of a Saved"
            )
    if given.get("nameless") is not None:
        given["nameless"] = dtype_names(given["nameless"])
    return given


def dtype_names(dtypes):
    if isinstance(dtypes, str):
        raise TypeError(f"nameless must be a list of types, not the str '{dtypes}'")
    return [dtype_name(dtype) for dtype in dtypes]


def is_list(source):
    return isinstance(source, (list, tuple))


def source_text(source):
    """Returns the name of a source, or a list of names."""
    if is_list(source):
        return [path_text(part) for part in source]
    return path_text(source)


def selection_of(select, opened):
    """Returns a Selection for a Selection, one or several globs, or a predicate over `opened`."""
    if select is None or isinstance(select, _core.Selection):
        return select
    selection = _core.Selection()
    if callable(select):
        infos = (TensorInfo(fields) for fields in opened.infos())
        return selection.names([info.name for info in infos if select(info)])
    try:
        globs = [select] if isinstance(select, str) else list(select)
    except TypeError:
        raise TypeError(
            "select must be a glob, a list of globs, a Selection or a function of a TensorInfo, "
            f"not {type(select).__name__}"
        ) from None
    if not globs:
        return selection.names([])  # An empty list selects no tensor.
    for glob in globs:
        if not isinstance(glob, str):
            raise TypeError(f"a glob of select must be a str, not {type(glob).__name__} {glob!r}")
        selection.matching(glob)
    return selection
