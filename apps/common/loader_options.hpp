// SPDX-License-Identifier: Apache-2.0
#pragma once

// Command-line options for programs that load checkpoints: the device, the dtype, and limits of the
// loader. The default in the help text is the value that the target has when the option is added.

#include <CLI/CLI.hpp>
#include <bit>
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
    if (!is_device_name(text))
      refuse("--device", text, "is invalid, expected host, auto, cuda or cuda:N");
    device = text;
  };
  to.add_option_function<std::string>(
        "--device", take,
        "The device to load to: host, or cuda:N if this build has\n"
        "CUDA. auto: the first GPU, or host if there is none. Default: " +
            device)
      ->type_name("DEVICE");
}

/// Adds --device for a list of devices, separated by commas.
inline void add_devices(CLI::App& to, std::string& devices) {
  const auto take = [&devices](const std::string& text) {
    if (!are_device_names(text)) {
      refuse("--device", text,
             "is invalid, expected host, auto, cuda or cuda:N, separated by commas");
    }
    devices = text;
  };
  to.add_option_function<std::string>(
        "--device", take,
        "The device to load to: host, or cuda:N if this build has\n"
        "CUDA. auto: the first GPU, or host if there is none. Several devices are\n"
        "separated by commas: cuda:0,cuda:1 (see --place). Default: " +
            devices)
      ->type_name("DEVICE[,...]");
}

inline void add_dtype(CLI::App& to, std::optional<dtype>& target) {
  add_choice<dtype>(to, "--dtype", target,
                    {{"f32", dtype::f32}, {"f16", dtype::f16}, {"bf16", dtype::bf16}},
                    "Convert tensors of F64, F32, F16, BF16, F8_E4M3 and F8_E5M2 to this type.\n"
                    "Default: no conversion");
}

/// Adds options that choose whether the memory of tensors is allocated or mapped, and how it is
/// divided into allocations.
inline void add_memory(CLI::App& to, load_options& how) {
  to.add_flag_callback(
      "--mapped", [&how] { how.memory = tensor_memory::mapped; },
      "Map the files into memory instead of reading or copying tensors. Only for\n"
      "--device host. If a file is truncated while it is mapped, the program ends\n"
      "with SIGBUS");
  CLI::Option* const mapped = to.get_option("--mapped");
  add_choice<on_unmappable>(to, "--unmappable", how.unmappable,
                            {{"refuse", on_unmappable::refuse}, {"copy", on_unmappable::copy}},
                            "How to treat tensors that cannot be mapped, because they are\n"
                            "misaligned, compressed or converted. refuse: fail. copy: load them.\n"
                            "Default: refuse")
      ->needs(mapped);
  to.add_flag("--populate", how.populate,
              "Read the pages of mapped tensors into memory in advance, with threads")
      ->needs(mapped);
  add_choice<allocation>(
      to, "--allocation", how.allocation,
      {{"load", allocation::per_load},
       {"file", allocation::per_file},
       {"tensor", allocation::per_tensor}},
      "Allocate memory once for the whole load, once for each file, or once for\n"
      "each tensor. Default: load");
  to.add_option_function<std::string>(
        "--tensor-alignment",
        [&how](const std::string& text) {
          const auto bytes = parse_size(text);
          if (!bytes || *bytes > 4096 || !std::has_single_bit(*bytes)) {
            refuse("--tensor-alignment", text, "is invalid, expected a power of two up to 4K");
          }
          how.tensor_alignment = static_cast<std::uint32_t>(*bytes);
        },
        "Minimum alignment of the address of each tensor. Default: the alignment of\n"
        "its elements, and 256 on a GPU")
      ->type_name("SIZE");
}

/// Adds --window, for a load in bounded memory. A windowed load cannot map tensors.
inline void add_window(CLI::App& to, std::uint64_t& bytes, const std::string& use_of_tensors) {
  add_size(to, "--window", bytes,
           "Load tensor by tensor in the order of the files with this much memory,\n" +
               use_of_tensors + ". 0: load the whole checkpoint at once. Default: 0");
  to.get_option("--window")->excludes(to.get_option("--mapped"));
}

inline void add_engine(CLI::App& to, read_engine& engine) {
  add_choice<read_engine>(to, "--engine", engine,
                          {{"auto", read_engine::automatic},
                           {"ring", read_engine::ring},
                           {"threads", read_engine::threads}},
                          "ring: io_uring, or an error if it is not available.\n"
                          "threads: a pool of threads that call pread.\n"
                          "auto: io_uring if it is available, else threads. Default: auto");
}

inline void add_huge_pages(CLI::App& to, huge_pages& pages) {
  add_choice<huge_pages>(
      to, "--huge-pages", pages,
      {{"transparent", huge_pages::transparent},
       {"reserved", huge_pages::reserved},
       {"none", huge_pages::none}},
      "Page size of host memory. transparent: huge pages if the kernel has some.\n"
      "reserved: also the pages of vm.nr_hugepages for slots, if enough are free.\n"
      "none: small pages only. Default: transparent");
}

inline void add_gpu_direct(CLI::App& to, gpu_direct& how) {
  add_choice<gpu_direct>(to, "--gpu-direct", how,
                         {{"off", gpu_direct::off},
                          {"auto", gpu_direct::automatic},
                          {"required", gpu_direct::required}},
                         "Read from the drive directly into GPU memory (GPUDirect Storage).\n"
                         "auto: if it works, else through the host. required: fail if it does not\n"
                         "work. Default: off");
}

inline void add_loader_options(CLI::App& to, loader_options& options) {
  constexpr std::uint64_t number_max = std::numeric_limits<std::uint32_t>::max();
  add_number(to, "--slots", options.slots, number_max,
             "Number of read buffers, which is also the limit of reads at once:\n1 to 1024. "
             "0: automatic (16, up to 64 for a mount with a high latency,\nor 32 for each GPU up "
             "to 128). Default: " +
                 std::to_string(options.slots));
  add_size(to, "--slot-bytes", options.slot_bytes,
           "Size of each read buffer, a power of two from 64K to 64M. Default: " +
               binary_size(options.slot_bytes));
  add_size(to, "--bytes-in-flight", options.bytes_in_flight,
           "Limit of bytes that are read at once (queue depth in bytes).\n0: tuned while loading. "
           "Default: " +
               std::to_string(options.bytes_in_flight));
  add_size(to, "--bytes-per-second-max", options.bytes_per_second_max,
           "Limit of bytes that are read in a second. 0: no limit. Default: " +
               std::to_string(options.bytes_per_second_max));
  add_number(to, "--copy-threads", options.copy_threads, number_max,
             "Number of threads that copy from the page cache: 1 to 64. 0: automatic\n(3, or for "
             "GPUs half of the "
             "processors, 3 to 8 for each GPU). Default: " +
                 std::to_string(options.copy_threads));
  add_number(to, "--reader-threads", options.reader_threads, number_max,
             "Number of threads that read if io_uring is not used: 1 to 64. Default: " +
                 std::to_string(options.reader_threads));
  add_huge_pages(to, options.huge_pages);
  add_gpu_direct(to, options.gpu_direct);
}

}  // namespace ringload::tool
