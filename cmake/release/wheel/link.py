# SPDX-License-Identifier: Apache-2.0
"""Links for an older glibc and libstdc++ than those of this machine: a linker launcher of CMake.

    link.py COMPILER ARGUMENT...

The objects are those of this machine's g++. zig links them against glibc of RINGLOAD_GLIBC (2.28),
whose symbols it knows for each version. libstdc++ is that of g++ 8: exceptions pass between the module
and other libraries, which must share it. Its newer functions are taken from the static library, and
the newer ones of glibc from old_glibc.c. A symbol that nothing has then is an error: a shared library
may have undefined symbols, so the linker says nothing.
"""

import os
import pathlib
import re
import subprocess
import sys

here = pathlib.Path(__file__).resolve().parent
glibc = os.environ.get("RINGLOAD_GLIBC", "2.28")
libstdcxx = ("GLIBCXX_3.4.25", "CXXABI_1.3.11")
# Found when the module is loaded: the interpreter, and the package nanobind-backend.
expected = re.compile(r"_?Py|nb_|nanobind")


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def path_of(compiler, file):
    return os.path.realpath(output_of(compiler, f"-print-file-name={file}").strip())


def symbols(option, file):
    lines = output_of("nm", "--dynamic", option, file).splitlines()
    return {line.split()[-1] for line in lines if " w " not in line}


def members_that_define(archive):
    """The member of the archive for each symbol that it defines."""
    found = {}
    for line in output_of("nm", "--print-file-name", "--defined-only", archive).splitlines():
        place, kind, name = line.rsplit(None, 2)
        if kind in "TDBRVWui":
            found.setdefault(name, place.split(":")[1])
    return found


def static_forms(arguments):
    """The static library where this machine has one, and the shared library otherwise."""
    for argument in arguments:
        archive = re.sub(r"\.so$", ".a", argument)
        # The program that parses HDF5 never uses the driver for S3, which needs libcurl.
        is_library = argument.startswith("/usr/lib/") and argument.endswith(".so")
        yield archive if is_library and os.path.exists(archive) else argument


def main():
    compiler, *arguments = sys.argv[1:]
    output = arguments[arguments.index("-o") + 1]
    work = pathlib.Path(output + ".link").resolve()
    work.mkdir(parents=True, exist_ok=True)
    is_module = "-shared" in arguments

    stub = work / "stub-libstdc++.so"
    library = path_of(compiler, "libstdc++.so.6")
    soname = work / "libstdc++.so.6"
    soname.unlink(missing_ok=True)
    soname.symlink_to(library)
    output_of(sys.executable, str(here / "stub_library.py"), str(soname), str(stub), *libstdcxx)
    for name in ("old_glibc", "no_curl"):
        output_of("gcc", "-O2", "-fPIC", "-fvisibility=hidden", "-c", str(here / f"{name}.c"), "-o",
                  str(work / f"{name}.o"))  # fmt: skip
    (work / "exports.map").write_text("{ global: PyInit_*; local: *; };\n")

    arguments = list(static_forms(arguments))
    more = [str(work / "old_glibc.o")]
    if any("hdf5" in argument and argument.endswith(".a") and argument.startswith("/usr/")
           for argument in arguments):  # fmt: skip
        root = "/usr/lib/x86_64-linux-gnu/"
        more += [str(work / "no_curl.o")]
        more += [root + name for name in ("libsz.a", "libaec.a", "libz.a", "libcrypto.a")]
    if is_module:
        more += [f"-Wl,--version-script={work}/exports.map"]
    archive = path_of(compiler, "libstdc++.a")
    more += [str(stub) if is_module else archive]  # No exception leaves a program.
    more += [path_of(compiler, "libgcc_s.so.1"), "-lm", "-lpthread", "-ldl"]
    command = [sys.executable, "-m", "ziglang", "cc", "-target", f"x86_64-linux-gnu.{glibc}",
               *arguments, "-Wl,--allow-shlib-undefined", *more]  # fmt: skip

    members = members_that_define(archive)
    taken = set()
    while True:
        subprocess.run(command + sorted(str(work / member) for member in taken), check=True)
        needed = [line.split()[1] for line in output_of("objdump", "-p", output).splitlines()
                  if "NEEDED" in line]  # fmt: skip
        missing = {name for name in symbols("--undefined-only", output) if "@" not in name}
        for name in needed:
            if not re.match(r"lib(stdc|c|m|gcc_s|pthread|dl)[.+]|ld-", name):
                defined = symbols("--defined-only", path_of(compiler, name))
                missing -= {symbol.partition("@")[0] for symbol in defined}
        missing = {name for name in missing if not expected.match(name)}
        if not missing:
            return
        new = {members[name] for name in missing if name in members} - taken
        if not new:
            sys.exit(f"link.py: {output}: nothing defines " + ", ".join(sorted(missing)))
        subprocess.run(["ar", "x", archive, *sorted(new)], check=True, cwd=work)
        taken |= new


main()
