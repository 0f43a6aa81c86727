// SPDX-License-Identifier: Apache-2.0
#pragma once

// Command-line options of programs that load: device, dtype and limits. The defaults that help
// shows are the values that the targets have when the options are added.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <optional>
#include <ringload/dtype.hpp>
#include <ringload/limits.hpp>
#include <string>

#include "device.hpp"
#include "options.hpp"
#include "size.hpp"

namespace ringload::tool {

inline void add_device(CLI::App& to, std::string& device) {
  const auto take = [&device](const std::string& text) {
    if (!is_device_name(text)) refuse("--device", text, "is none of host, auto, cuda, cuda:N");
    device = text;
  };
  to.add_option_function<std::string>("--device", take,
                                      "The device to load to: host, or cuda:N if this build has\n"
                                      "CUDA. auto: the first GPU, or host. Default: " +
                                          device)
      ->type_name("DEVICE");
}

inline void add_dtype(CLI::App& to, std::optional<dtype>& target) {
  add_choice<dtype>(to, "--dtype", target,
                    {{"f32", dtype::f32}, {"f16", dtype::f16}, {"bf16", dtype::bf16}},
                    "Convert tensors of F32, F16, BF16, F8_E4M3 and F8_E5M2 to this type.\n"
                    "Default: no conversion");
}

inline void add_engine(CLI::App& to, read_engine& engine) {
  add_choice<read_engine>(to, "--engine", engine,
                          {{"auto", read_engine::automatic},
                           {"ring", read_engine::ring},
                           {"threads", read_engine::threads}},
                          "ring: io_uring, or an error where it is not available.\n"
                          "threads: a pool of threads that call pread.\n"
                          "auto: io_uring where available, else threads. Default: auto");
}

inline void add_huge_pages(CLI::App& to, huge_pages& pages) {
  add_choice<huge_pages>(to, "--huge-pages", pages,
                         {{"transparent", huge_pages::transparent},
                          {"reserved", huge_pages::reserved},
                          {"none", huge_pages::none}},
                         "Pages of host memory. transparent: huge ones where the kernel has some.\n"
                         "reserved: for slots, vm.nr_hugepages' ones, if enough are free.\n"
                         "none: small ones only. Default: transparent");
}

inline void add_limits(CLI::App& to, limits& within) {
  constexpr std::uint64_t most = std::numeric_limits<std::uint32_t>::max();
  add_number(to, "--slots", within.slots, most,
             "Pinned buffers, and the most reads at once: 1 to 1024; 0: 16, or 32\nfor a GPU. "
             "Default: " +
                 std::to_string(within.slots));
  add_size(
      to, "--slot-bytes", within.slot_bytes,
      "Size of each, a power of two from 64K to 64M. Default: " + binary_size(within.slot_bytes));
  add_size(to, "--bytes-in-flight", within.bytes_in_flight,
           "The queue depth in bytes; 0: tuned while loading.\nDefault: " +
               std::to_string(within.bytes_in_flight));
  add_number(to, "--copy-threads", within.copy_threads, most,
             "Threads that copy out of the page cache: 1 to 64; 0: 3, or for a GPU\nhalf of the "
             "processors, 3 to 8. Default: " +
                 std::to_string(within.copy_threads));
  add_number(to, "--reader-threads", within.reader_threads, most,
             "Threads that read where io_uring is not available: 1 to 64. Default: " +
                 std::to_string(within.reader_threads));
  add_huge_pages(to, within.huge_pages);
}

}  // namespace ringload::tool
