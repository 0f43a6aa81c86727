# SPDX-License-Identifier: Apache-2.0
"""Writes the .dist-info of the Python package for an installation without pip.

    python_metadata.py OUTPUT_FOLDER

The current folder has pyproject.toml. importlib.metadata reads the version and the entry points from
the .dist-info. The package nanobind-backend is left out, because the module is built without it.
"""

import pathlib
import shutil
import sys

from scikit_build_core.build import prepare_metadata_for_build_wheel


def main():
    output = pathlib.Path(sys.argv[1])
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    info = output / prepare_metadata_for_build_wheel(str(output))
    shutil.rmtree(info / "licenses")
    (info / "WHEEL").unlink()
    (info / "INSTALLER").write_text("debian\n")
    header, separator, text = (info / "METADATA").read_text().partition("\n\n")
    lines = [line for line in header.split("\n")
             if not line.startswith(("License-File:", "Requires-Dist: nanobind-backend"))]  # fmt: skip
    (info / "METADATA").write_text("\n".join(lines) + separator + text)


main()
