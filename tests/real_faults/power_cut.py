#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""power_cut.py RINGLOAD SAVE_TOOL: what a power cut would leave at each moment of a write.

After a cut a drive has what was flushed, and any part of what was not. So a file under its final name
is whole, or the old one, at each moment, if and only if all writes to it were flushed before it got
that name, nothing is written to it afterwards, and the folder is flushed before success is told. A
device that loses what was not flushed needs the kernel's device mapper; the order of the calls, as
strace sees them, needs none. io_uring is refused, for strace does not see the writes of a ring. A save
that is told not to flush must be found out, or this test sees nothing."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

CALLS = ("openat,pwrite64,pwritev,write,ftruncate,fallocate,copy_file_range,sendfile,fsync,fdatasync,"
         "rename,renameat2,linkat,unlink,unlinkat,io_uring_setup")


def skip(why):
    print("skipped: " + why)
    sys.exit(77)


def calls_of(trace):
    """(thread, begun, name, text) of each call, twice if it was interrupted by another thread's."""
    waiting = {}
    for line in trace.splitlines():
        found = re.match(r"(\d+) +(.*)", line)
        if not found:
            continue
        thread, text = found.groups()
        if text.startswith(("+++", "---")):
            continue
        resumed = re.match(r"<\.\.\. (\w+) resumed>(.*)", text)
        if resumed:
            begun = waiting.pop(thread, "")
            yield thread, False, resumed.group(1), begun + resumed.group(2)
            continue
        name = text.split("(", 1)[0]
        if text.endswith("<unfinished ...>"):
            waiting[thread] = text[:-len("<unfinished ...>")]
            yield thread, True, name, waiting[thread]
        else:
            yield thread, True, name, text
            yield thread, False, name, text


def quoted(text):
    return [each.encode().decode("unicode_escape") for each in re.findall(r'"((?:[^"\\]|\\.)*)"', text)]


class Drive:
    """Which files and folders have what was not flushed."""

    def __init__(self, folder):
        self.folder = folder
        self.files = {}  # descriptor -> the path as it was when the file was last used
        self.dirty = set()
        self.flushing = {}  # thread -> path, and whether something was written meanwhile
        self.published = set()
        self.problems = []
        self.writes = 0

    def wrote(self, path):
        self.writes += 1
        if path in self.published:
            self.problems.append(f"{path} was written to under its final name")
        self.dirty.add(path)
        for flush in self.flushing.values():
            if flush[0] == path:
                flush[1] = True

    def publish(self, path, target):
        below = [p for p in self.dirty if p == path or p.startswith(path + "/")]
        if below:
            self.problems.append(f"{target} appears with unflushed bytes of {', '.join(below)}")
        self.published.add(target)
        self.dirty.add(os.path.dirname(target))

    def see(self, thread, begun, name, text):
        used = re.match(r"\w+\((\d+)<([^>]*)>", text)
        path = used.group(2) if used else ""
        if used:
            self.files[used.group(1)] = path
        failed = not begun and re.search(r"\) += -1 ", text)
        if name in ("fsync", "fdatasync"):
            if begun:
                self.flushing[thread] = [path, False]
            else:
                of, written = self.flushing.pop(thread, [path, True])
                if not failed and not written:
                    self.dirty.discard(of)
        elif name in ("pwrite64", "pwritev", "write", "ftruncate", "fallocate", "copy_file_range"):
            if path.startswith(self.folder):
                self.wrote(path)
        elif begun or failed:
            return
        elif name in ("rename", "renameat2"):
            source, target = quoted(text)[:2]
            if target.startswith(self.folder):
                self.publish(source, target)
        elif name == "linkat":
            source, target = quoted(text)[:2]
            number = re.match(r"/proc/self/fd/(\d+)", source)
            self.publish(self.files.get(number.group(1), "") if number else source, target)

    def end(self):
        for path in self.published:
            if os.path.dirname(path) in self.dirty:
                self.problems.append(f"success was told before {path} was sure to be in its folder")
        if not self.published or not self.writes:
            self.problems.append("nothing appeared, or no write was seen")


def problems_of(command, folder, stdin=None):
    with tempfile.NamedTemporaryFile("r") as out:
        ran = subprocess.run(["strace", "-f", "-y", "-qq", "-s", "4096", "-e", "trace=" + CALLS,
                              "-e", "write=none", "-e", "inject=io_uring_setup:error=EPERM",
                              "-o", out.name, *command],
                             input=stdin, capture_output=True, text=True)
        if ran.returncode != 0:
            sys.exit(f"failed: {command}: {ran.stderr}")
        drive = Drive(str(folder))
        for call in calls_of(out.read()):
            drive.see(*call)
        drive.end()
        return drive.problems


def main():
    ringload, save_tool = map(os.path.abspath, sys.argv[1:3])
    if not shutil.which("strace"):
        skip("there is no strace here")
    if subprocess.run(["strace", "-f", "true"], capture_output=True).returncode != 0:
        skip("strace may not trace here")
    with tempfile.TemporaryDirectory(prefix="power-", dir=os.getcwd()) as work:
        work = pathlib.Path(work)
        tool = lambda *words: subprocess.run([ringload, *map(str, words)], check=True)
        for name, seed in ("model", 0), ("other", 1):
            tool("make", work / f"{name}.safetensors", "--bytes", "8M", "--shape", "llama", "--seed", seed,
                 "--no-progress")
        tool("convert", work / "model.safetensors", work / "whole.zt", "--no-progress")
        listed = subprocess.run([ringload, "sum", work / "whole.zt"], check=True, capture_output=True,
                                text=True).stdout
        names = [line.split("  ", 1)[1] for line in listed.splitlines()]
        tool("remove", work / "whole.zt", *names[3:], "-o", work / "three.zt")
        tool("remove", work / "whole.zt", *names[:3], "-o", work / "others.zt")
        place = work / "in"
        memory = work / "memory"
        memory.write_bytes(os.urandom(6 << 20))
        tensors = "".join(f"F32 {1 + i * 1000001} 250000 = t{i}\n" for i in range(5))
        save = [save_tool, memory]
        cases = {
            "convert to safetensors": (None, [ringload, "convert", work / "model.safetensors",
                                              place / "t.safetensors"]),
            "convert to .zt": (None, [ringload, "convert", work / "model.safetensors", place / "t.zt",
                                      "--zstd", "1"]),
            "convert to shards": (None, [ringload, "convert", work / "model.safetensors", place / "t",
                                         "--shard-bytes", "2M"]),
            "append": ("three.zt", [ringload, "append", place / "t.zt", "--from", work / "others.zt"]),
            "remove": (None, [ringload, "remove", work / "whole.zt", names[0], "-o", place / "t.zt"]),
            "replace": ("whole.zt", [ringload, "replace", place / "t.zt", names[0], "--from",
                                     work / "other.safetensors"]),
            "save": (None, [*save, place / "t.safetensors"]),
            "save over another": ("model.safetensors", [*save, place / "t.safetensors"]),
            "save of shards": (None, [*save, place / "t", "--shard-bytes", "2000000"]),
        }
        for name, (before, command) in cases.items():
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            if before:
                shutil.copy(work / before, place / ("t" + pathlib.Path(before).suffix))
            found = problems_of(list(map(str, command)), place, tensors)
            if found:
                sys.exit(f"failed: {name}: " + "; ".join(found))
        unflushed = problems_of(list(map(str, [*save, place / "u.safetensors", "--no-sync"])),
                                place, tensors)
        if not any("unflushed" in each for each in unflushed):
            sys.exit(f"failed: a save without flushing was not found out: {unflushed}")
    print(f"{len(cases)} ways of writing: what appears was flushed before")


main()
