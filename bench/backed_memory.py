#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""backed_memory.py COMMAND...: runs a command while free memory stays with this virtual machine.

The kernel of a virtual machine may report free memory to the host, Linux every 2 s, and the host
takes this memory away. The next use of it takes 6 to 20 times as long, so times depend on when the
memory was last used, and "memory that is new" is much slower than on a real machine. Linux reports
free blocks of 4 MiB if page_reporting_order is 10. This program sets it so, fills nearly all free
memory, and frees every other 2 MiB: the free memory then has no block of 4 MiB. Afterwards, all is
as before. Needs root. Exit code: that of the command, or 77 if the kernel reports no memory.
"""

import mmap
import pathlib
import subprocess
import sys

ORDER = pathlib.Path("/sys/module/page_reporting/parameters/page_reporting_order")
HUGE = 2 << 20
LEFT = 1 << 30  # Free memory that stays for other programs while the memory is filled.


def free_bytes():
    lines = pathlib.Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemFree"))


def hold_every_other_page():
    """Returns memory, of which every other huge page is free."""
    size = (free_bytes() - LEFT) // HUGE * HUGE
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)
    for position in range(0, size, mmap.PAGESIZE):
        memory[position] = 1
    for position in range(0, size - HUGE, 2 * HUGE):
        memory.madvise(mmap.MADV_DONTNEED, position, HUGE)
    return memory


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: backed_memory.py COMMAND...")
    if not ORDER.exists():
        print("skipped: this kernel reports no free memory", file=sys.stderr)
        return 77
    before = ORDER.read_text()
    ORDER.write_text("10")
    try:
        with hold_every_other_page():
            return subprocess.run(sys.argv[1:]).returncode
    finally:
        ORDER.write_text(before)


if __name__ == "__main__":
    sys.exit(main())
