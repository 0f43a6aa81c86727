# SPDX-License-Identifier: Apache-2.0
"""The program that parses HDF5 files in a separate process."""

import os
import shutil

from . import _core
from ._errors import usage
from ._names import optional_bool

_name = "ringload-hdf5-parse"


def _find():
    beside = os.path.join(os.path.dirname(__file__), _name)
    return beside if os.access(beside, os.X_OK) else shutil.which(_name)


def parser_program(hdf5):
    """Returns the path of the program, or None if HDF5 files are not read.

    hdf5: None uses the program if it exists, True requires it, and False does not use it.
    """
    optional_bool(hdf5, "hdf5")
    if hdf5 is False or (hdf5 is None and not _core.has_hdf5):
        return None
    if not _core.has_hdf5:
        raise usage("hdf5=True: this ringload was built without libhdf5")
    program = _find()
    if program is None and hdf5:
        raise usage(f"hdf5=True needs the program {_name}, which is not installed")
    return program
