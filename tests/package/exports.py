# SPDX-License-Identifier: Apache-2.0
"""Fails if a component uses a function of another library that a shared library would hide.

    exports.py ARCHIVE...

Each archive has the objects of one library. The objects are the same in a static and in a shared
build, but only the programs of a shared build fail to link.
"""

import pathlib
import subprocess
import sys


def symbols_of(archive):
    """The symbols that the archive defines, with their visibility, and those that it needs."""
    command = ["readelf", "--syms", "--wide", str(archive)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    defined, needed = {}, set()
    for line in output.splitlines():
        fields = line.split()
        if len(fields) < 8 or fields[4] not in ("GLOBAL", "WEAK"):
            continue
        visibility, section, name = fields[5:8]
        if section != "UND":
            defined[name] = visibility
        elif fields[4] == "GLOBAL":
            needed.add(name)
    return defined, needed - set(defined)


def main():
    libraries = {pathlib.Path(path).stem: symbols_of(path) for path in sys.argv[1:]}
    complaints = []
    for user, (_, needed) in libraries.items():
        for owner, (defined, _) in libraries.items():
            complaints += [f"{user} uses {name}, which {owner} does not export"
                           for name in sorted(needed) if defined.get(name) == "HIDDEN"]  # fmt: skip
    for complaint in complaints:
        text = subprocess.run(["c++filt"], input=complaint, capture_output=True, text=True).stdout
        print(text or complaint)
    if not any(defined for defined, _ in libraries.values()):
        sys.exit("exports.py: the archives have no symbols")
    print(f"{len(libraries)} libraries, {len(complaints)} complaints")
    sys.exit(bool(complaints))


main()
