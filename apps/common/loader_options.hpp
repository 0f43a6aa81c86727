// SPDX-License-Identifier: Apache-2.0
#pragma once

// Command-line options of programs that load: device, dtype and limits. The defaults that help
// shows are the values that the targets have when the options are added.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <optional>
#include <ringload/dtype.hpp>
#include <ringload/options.hpp>
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

/// A list of them, with commas.
inline void add_devices(CLI::App& to, std::string& devices) {
  const auto take = [&devices](const std::string& text) {
    if (!are_device_names(text)) {
      refuse("--device", text, "is no list of host, auto, cuda, cuda:N with commas between");
    }
    devices = text;
  };
  to.add_option_function<std::string>("--device", take,
                                      "The device to load to: host, or cuda:N if this build has\n"
                                      "CUDA. auto: the first GPU, or host. Or several, as\n"
                                      "cuda:0,cuda:1: see --place. Default: " +
                                          devices)
      ->type_name("DEVICE[,...]");
}

inline void add_dtype(CLI::App& to, std::optional<dtype>& target) {
  add_choice<dtype>(to, "--dtype", target,
                    {{"f32", dtype::f32}, {"f16", dtype::f16}, {"bf16", dtype::bf16}},
                    "Convert tensors of F32, F16, BF16, F8_E4M3 and F8_E5M2 to this type.\n"
                    "Default: no conversion");
}

/// Where tensors lie: in memory, how it is divided, or in their files.
inline void add_memory(CLI::App& to, load_options& how) {
  to.add_flag_callback(
      "--mapped", [&how] { how.memory = tensor_memory::mapped; },
      "Use the tensors where they are in their files, mapped into memory: nothing\n"
      "is read or copied. On the host only. A file that is truncated meanwhile\n"
      "ends the program (SIGBUS)");
  CLI::Option* const mapped = to.get_option("--mapped");
  add_choice<on_unmappable>(to, "--unmappable", how.unmappable,
                            {{"refuse", on_unmappable::refuse}, {"copy", on_unmappable::copy}},
                            "What becomes of tensors that cannot be used where they are: that\n"
                            "are misaligned, compressed, converted, ... copy: they are loaded.\n"
                            "Default: refuse")
      ->needs(mapped);
  to.add_flag("--populate", how.populate, "Have threads bring in the pages of mapped tensors")
      ->needs(mapped);
  add_choice<allocation>(to, "--allocation", how.allocation,
                         {{"load", allocation::per_load},
                          {"file", allocation::per_file},
                          {"tensor", allocation::per_tensor}},
                         "What has memory of its own: the load as a whole, each file, or each\n"
                         "tensor. Default: load");
}

/// Loads through bounded memory, which is then not mapped.
inline void add_window(CLI::App& to, std::uint64_t& bytes, const std::string& what_is_done) {
  add_size(to, "--window", bytes,
           "Load through so much memory, tensor by tensor in the order of the files,\n" +
               what_is_done + "; 0: the whole at once. Default: 0");
  to.get_option("--window")->excludes(to.get_option("--mapped"));
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

inline void add_loader_options(CLI::App& to, loader_options& within) {
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
