# SPDX-License-Identifier: Apache-2.0
"""Compiles the tools against the newest fmt, which other distributions and vcpkg have.

    newest_fmt.py BUILD WORK COMPILER

The sources and their options are those of BUILD/compile_commands.json. No code is generated. Exits
with 77 if the newest fmt cannot be had: pip downloads it in the package cmeel-fmt.
"""

import json
import multiprocessing.pool
import pathlib
import re
import shlex
import subprocess
import sys
import zipfile


def fetch_fmt(work):
    """The folder with the headers of fmt."""
    work.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "-q", "download", "--no-deps", "-d", str(work), "cmeel-fmt"]
    if subprocess.run(command).returncode != 0:
        print("skipped: pip cannot download the newest fmt")
        sys.exit(77)
    package = max(work.glob("cmeel_fmt-*.whl"), key=lambda path: path.stat().st_mtime)
    with zipfile.ZipFile(package) as archive:
        archive.extractall(work / "fmt")
    return work / "fmt" / "cmeel.prefix" / "include"


def commands(build, compiler, headers):
    """A command for each source of the tools, once."""
    seen = set()
    for entry in json.loads((build / "compile_commands.json").read_text()):
        source = entry["file"]
        is_tool = re.search(r"/apps/(common|ringload|uring-bench)/", source)
        if not is_tool or "/tests/" in source or source in seen:
            continue
        seen.add(source)
        options = [option for option in shlex.split(entry["command"])
                   if re.match(r"-(D|I|std=)", option)]  # fmt: skip
        options += ["-isystem", str(headers), "-fsyntax-only"]
        yield source, entry["directory"], [compiler, *options, source]


def main():
    build, work = map(pathlib.Path, sys.argv[1:3])
    headers = fetch_fmt(work)
    jobs = list(commands(build, sys.argv[3], headers))
    if not jobs:
        sys.exit("newest_fmt.py: the build has no tools")

    def run(job):
        source, folder, command = job
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        return source, done

    failed = 0
    for source, done in multiprocessing.pool.ThreadPool().imap(run, jobs):
        if done.returncode != 0:
            failed += 1
            print(f"{source}:\n{done.stderr}")
    version = re.search(r"FMT_VERSION (\d+)", (headers / "fmt" / "base.h").read_text())[1]
    print(f"{len(jobs)} sources of the tools, fmt {int(version) // 10000}: {failed} failed")
    sys.exit(failed != 0)


main()
