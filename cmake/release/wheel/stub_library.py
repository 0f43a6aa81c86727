# SPDX-License-Identifier: Apache-2.0
"""Writes a library to link with that has the symbols of an older version of a shared library.

    stub_library.py LIBRARY OUTPUT VERSION...

OUTPUT has the name of LIBRARY (its SONAME) and those of its symbols whose version is at most one of
the VERSIONs, such as GLIBCXX_3.4.25. What a program needs beyond these is then taken from a static
library, or is an error of the linker. OUTPUT has no code: it cannot be run.
"""

import pathlib
import re
import subprocess
import sys
import tempfile


def number(version):
    return tuple(int(part) for part in re.findall(r"\d+", version))


def is_old(version, newest):
    prefix = version.rpartition("_")[0]
    limit = newest.get(prefix)
    return limit is not None and number(version) <= limit


def symbols_of(library, newest):
    """(name, version, is_default, kind, size) of each symbol that is old enough."""
    command = ["readelf", "--dyn-syms", "--wide", library]
    for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines():
        fields = line.split()
        if len(fields) < 8 or fields[6] == "UND" or "@" not in fields[7]:
            continue
        name, _, version = fields[7].partition("@")
        is_default = version.startswith("@")
        version = version.lstrip("@")
        if fields[3] != "OBJECT" or name != version:  # The versions themselves are listed too.
            if is_old(version, newest):
                size = int(fields[2], 0)
                yield name, version, is_default, fields[3], size


def main():
    library, output, *versions = sys.argv[1:]
    newest = {version.rpartition("_")[0]: number(version) for version in versions}
    assembler, in_version = [".text"], {}
    for index, (name, version, is_default, kind, size) in enumerate(symbols_of(library, newest)):
        label = f"symbol_{index}"
        type_name = {"OBJECT": "object", "TLS": "tls_object"}.get(kind, "function")
        section = ".section .tbss,\"awT\",@nobits" if kind == "TLS" else (
            ".bss" if kind == "OBJECT" else ".text")  # fmt: skip
        assembler += [section, f".globl {label}", f".type {label}, @{type_name}", f"{label}:",
                      f".size {label}, {size}", f".skip {max(size, 1) if kind != 'FUNC' else 1}",
                      f".symver {label}, {name}{'@@' if is_default else '@'}{version}, remove"]  # fmt: skip
        in_version.setdefault(version, []).append(name)
    script = "".join(f"{version} {{ }};\n" for version in sorted(in_version, key=number))
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "stub.s").write_text("\n".join(assembler) + "\n")
        (folder / "stub.map").write_text(script)
        soname = pathlib.Path(library).name
        subprocess.run(["gcc", "-shared", "-nostdlib", f"-Wl,-soname,{soname}",
                        f"-Wl,--version-script={folder}/stub.map", "-o", output,
                        str(folder / "stub.s")], check=True)  # fmt: skip


main()
