// SPDX-License-Identifier: Apache-2.0
#pragma once

// The text of uring-bench's manual page in addition to the options. A test parses every example.

#include "manual.hpp"

namespace ringload::bench {

inline constexpr tool::example examples[] = {
    {"uring-bench probe /data", "Show what the kernel and the drive of this path support."},
    {"uring-bench run model.safetensors --block 2M --depth 8",
     "Read a file with eight reads of 2 MiB in flight."},
    {"uring-bench run /dev/nvme0n1 --rw randread --bs 4k --iodepth 64 --numjobs 4 --direct 1",
     "The same kind of measurement, with the option names of fio."},
    {"uring-bench sweep /data/big.bin --html sweep.html",
     "Measure sizes and depths, and draw them as a page."},
    {"uring-bench stages ./llama", "Find what limits a load: the drive, the copies or the loader."},
    {"uring-bench tune ./llama", "Find better limits than the defaults."},
};

inline constexpr tool::manual_extras manual_text = {
    .summary = "measure how fast files and checkpoints can be read",
    .environment = {},
    .examples = examples,
    .see_also = "ringload(1), fio(1), io_uring(7)",
};

}  // namespace ringload::bench
