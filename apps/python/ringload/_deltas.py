# SPDX-License-Identifier: Apache-2.0
"""Deltas and version folders: the next version of a model, all of it or nothing."""

import collections
import os
import re

from . import _core
from ._destinations import Destinations
from ._errors import Error, usage
from ._names import path_text
from ._operation import Operation, one_step, waited_for

SavedDelta = collections.namedtuple(
    "SavedDelta",
    "nbytes tensors_unchanged tensors_sparse tensors_dense tensors_whole tensors_removed elements "
    "elements_changed seconds",
)
Updated = collections.namedtuple(
    "Updated", "tensors_changed bytes_changed elements_changed seconds"
)
Version = collections.namedtuple("Version", "number model")
_delta_name = re.compile(r"v(0|[1-9][0-9]*)\.delta\.zt")
_weight_version = re.compile(r"weight_v[0-9]{6,}")  # A folder.
_Files = collections.namedtuple("_Files", "number full delta")


def apply(model, delta, check_unchanged):
    """Implements Model.apply(). Waits for the end."""
    from ._loader import Loader

    with Loader() as loader:
        return waited_for(loader.apply(model, delta, check_unchanged=check_unchanged))


def save_delta(engine, path, base, following, options):
    """Returns an operation that returns a SavedDelta."""

    def steps():
        return SavedDelta(**(yield engine.save_delta(path, base, following, options)))

    return Operation(steps())


def update(engine, tensors, delta, check_unchanged):
    """Returns an operation that returns an Updated."""
    into = Destinations(tensors)
    fields = into.fields(list)
    into.require_in_place()

    def steps():
        into.wait_for_pytorch()
        updating = engine.update(fields, delta, check_unchanged)
        try:
            done = Updated(**(yield updating))
        except Error as failure:
            if failure.kind == "not_restored":
                into.note_write()
            raise
        into.note_write()
        return done

    return Operation(steps())


def load_version(engine, folder, version):
    """Returns an operation that returns the Model of a version."""
    if isinstance(version, bool):
        raise TypeError(f"version must be an integer or None, not bool {version}")
    return one_step(lambda: engine.load_version(path_text(folder), version))


def is_version_folder(source):
    """Returns True if the source is a local folder with a delta, or a folder like weight_v000007."""
    if not isinstance(source, (str, bytes, os.PathLike)) or not os.path.isdir(source):
        return False
    folder = os.fsdecode(source)
    return any(
        _delta_name.fullmatch(name)
        or (_weight_version.fullmatch(name) and os.path.isdir(os.path.join(folder, name)))
        for name in os.listdir(folder)
    )


def refuse_options(options):
    """Raises an error for options of a load. They have no effect on the deltas of a version."""
    for name, value in options.items():
        if value is not None:
            raise usage(f"{name}: a version folder takes no option of a load")


def refuse_version_folder(source):
    """Raises an error for a version folder: its full version is not the newest version."""
    if is_version_folder(source):
        raise usage(
            f"{path_text(source)}: a version folder, of full versions and deltas: load() and "
            "load_version() load a version, and this function needs the path of one file"
        )


async def _versions_in(folder):
    """Returns the folder's versions by number. A folder that does not exist has no versions."""
    import asyncio

    def list_files():
        try:
            return {files[0]: _Files(*files) for files in _core.list_versions(folder)}
        except FileNotFoundError:
            return {}

    return await asyncio.get_running_loop().run_in_executor(None, list_files)


async def _fill_version(loader, folder, files, number, tensors):
    """Fills the tensors with a full version, and applies its deltas up to version `number`."""
    full = max((one for one in files if one <= number and files[one].full), default=None)
    deltas = [] if full is None else [files.get(one) for one in range(full + 1, number + 1)]
    if full is None or not all(found is not None and found.delta for found in deltas):
        await loader.load_version(folder, number)  # Raises an error that names the missing link.
    await loader.fill(files[full].full, tensors, unexpected="error")
    for found in deltas:
        await loader.update(tensors, found.delta)


async def follow(loader, folder, period, into):
    """Yields the versions of a folder as they appear. See Loader.follow."""
    import asyncio

    folder = path_text(folder)
    number = model = None
    while True:
        files = await _versions_in(folder)
        newest = max(files, default=None)
        if newest is None or (number is not None and newest <= number):
            await asyncio.sleep(period)
            continue
        following = None if number is None else files.get(number + 1)
        if following is None or not following.delta:
            # This is the first version, or a full version after a gap.
            if into is None:
                model = await loader.load_version(folder, newest)
            else:
                await _fill_version(loader, folder, files, newest, into)
            number = newest
        else:
            if into is None:
                model = await loader.apply(model, following.delta)
            else:
                await loader.update(into, following.delta)
            number += 1
        yield Version(number, model)
