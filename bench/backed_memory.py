#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""backed_memory.py COMMAND...: runs a command while the host takes no memory of this machine.

The kernel of a virtual machine may report free memory to the host. Linux does so every 2 s. The
host then takes this memory, and its next use takes more than 8 times as long. So the time of a
program depends on the time since the memory was last used, and new memory is slower than on a real
machine.

With page_reporting_order 10, Linux reports only free blocks of 4 MiB or more. This program sets the
order to 10, fills nearly all free memory, and then frees every other 2 MiB, so hardly any free
block has 4 MiB. At the end, the order is as before. Needs root. Exit code: that of the command, or
77 without running the command if the kernel reports no memory.
"""

import ctypes
import mmap
import pathlib
import signal
import subprocess
import sys

ORDER = pathlib.Path("/sys/module/page_reporting/parameters/page_reporting_order")
HUGE_PAGE = 2 << 20
UNFILLED = 1 << 30  # Bytes that stay free for other programs while the memory is filled.


def free_bytes():
    lines = pathlib.Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemFree"))


def address_of(memory):
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def hold_every_other_page():
    """Fills nearly all free memory, then frees every other huge page. Returns the memory."""
    size = (free_bytes() - UNFILLED) // HUGE_PAGE * HUGE_PAGE
    if size <= 0:
        sys.exit(f"backed_memory.py: {free_bytes()} bytes of memory are free, too few")
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)
    for position in range(0, size, mmap.PAGESIZE):
        memory[position] = 1
    first = -address_of(memory) % HUGE_PAGE
    for position in range(first, size - HUGE_PAGE, 2 * HUGE_PAGE):
        memory.madvise(mmap.MADV_DONTNEED, position, HUGE_PAGE)
    return memory


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: backed_memory.py COMMAND...")
    order = ORDER.read_text().strip() if ORDER.exists() else "-1"
    if order == "-1":
        print("skipped: this kernel reports no free memory to a host", file=sys.stderr)
        return 77
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    ORDER.write_text("10")
    try:
        with hold_every_other_page():
            code = subprocess.run(sys.argv[1:]).returncode
            return code if code >= 0 else 128 - code
    finally:
        ORDER.write_text(order)


if __name__ == "__main__":
    sys.exit(main())
