// SPDX-License-Identifier: Apache-2.0

// Probes the machine: io_uring and registered memory, huge pages, the GPU.

#include <dlfcn.h>
#include <fmt/format.h>
#include <liburing.h>
#include <sys/resource.h>

#include <array>
#include <filesystem>
#include <ringload/options.hpp>

#include "base/checked.hpp"
#include "base/mapping.hpp"
#include "io/ring/setup.hpp"
#include "machine.hpp"
#include "probe_report.hpp"
#include "size.hpp"

namespace ringload::bench {

namespace {

namespace fs = std::filesystem;

// The total size of the slots of a loader with default options.
const std::uint64_t slots_bytes =
    chosen_options({}, device_kind::host).slots * loader_options().slot_bytes;

struct setup_flag {
  const char* name;
  unsigned flags;
  const char* since;
};

constexpr std::array<setup_flag, 8> setup_flags = {{
    {"IOPOLL", 1U << 0, "5.1"},
    {"SQPOLL", 1U << 1, "5.1; without privilege 5.11"},
    {"CLAMP", 1U << 4, "5.6"},
    {"SUBMIT_ALL", 1U << 7, "5.18"},
    {"COOP_TASKRUN", 1U << 8, "5.19"},
    {"SINGLE_ISSUER", 1U << 12, "6.0"},
    {"SINGLE_ISSUER, DEFER_TASKRUN", (1U << 12) | (1U << 13), "6.1"},
    {"NO_SQARRAY", 1U << 16, "6.6"},
}};

std::string limit_text(::rlim_t value) {
  return value == RLIM_INFINITY ? "unlimited" : tool::both_sizes(value);
}

}  // namespace

void probe_ring(findings& results) {
  ::io_uring ring = {};
  const auto made = set_up(ring, 8);
  if (!made) {
    const std::string why = message_of(made.error());
    const bool by_setting = why.find("io_uring_disabled") != std::string::npos;
    results.push_back({"io_uring", "a ring", verdict::bad, why,
                       by_setting
                           ? "as root: sysctl kernel.io_uring_disabled=0. Until then loads use "
                             "threads, which reach a drive's rate too, at more processor time"
                           : "in a container: allow io_uring_setup, io_uring_enter and "
                             "io_uring_register in its seccomp profile. Until then loads use "
                             "threads"});
    return;
  }
  ::io_uring_queue_exit(&ring);
  results.push_back({"io_uring", "a ring", verdict::good, "the loader would use " + made->flags});
  for (const setup_flag& one : setup_flags) {
    ::io_uring_params params = {};
    params.flags = one.flags;
    const int failed = ::io_uring_queue_init_params(8, &ring, &params);
    if (failed == 0) {
      ::io_uring_queue_exit(&ring);
      results.push_back({"io_uring", one.name, verdict::good, "accepted"});
    } else {
      results.push_back({"io_uring", one.name, verdict::note,
                         fmt::format("refused: {}; in Linux since {}",
                                     system_code(-failed).message(), one.since)});
    }
  }
}

// Registers larger and larger regions until the kernel refuses one.
void probe_registration(findings& results) {
  ::io_uring ring = {};
  if (!set_up(ring, 8)) return;
  constexpr std::uint64_t largest = std::uint64_t{256} << 20;
  std::uint64_t accepted = 0;
  int refused = 0;
  for (std::uint64_t bytes = std::uint64_t{1} << 20; bytes <= largest; bytes *= 4) {
    auto memory = mapping::make(bytes, page_kind::transparent);
    if (!memory) break;
    const ::iovec all = {memory->data(), bytes};
    refused = -::io_uring_register_buffers(&ring, &all, 1);
    if (refused != 0) break;
    accepted = bytes;
    ::io_uring_unregister_buffers(&ring);
  }
  ::io_uring_queue_exit(&ring);
  ::rlimit limit = {};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  const std::string most = "RLIMIT_MEMLOCK is " + limit_text(limit.rlim_cur);
  if (accepted >= slots_bytes) {
    results.push_back({"io_uring", "registered buffers", verdict::good,
                       tool::binary_size(accepted) + " were accepted; " + most});
  } else {
    results.push_back(
        {"io_uring", "registered buffers", verdict::note,
         fmt::format("more than {} is refused: {}; {}", tool::binary_size(accepted),
                     system_code(refused).message(), most),
         fmt::format("raise it (ulimit -l, LimitMEMLOCK=, --ulimit memlock=): registering "
                     "{} of slots saves processor time, not seconds",
                     tool::binary_size(slots_bytes))});
  }
}

namespace {

void probe_reserved_pages(findings& results) {
  const std::string folder =
      fmt::format("/sys/kernel/mm/hugepages/hugepages-{}kB/", huge_page_bytes >> 10);
  const auto reserved = tool::parse_number(first_line(folder + "nr_hugepages"));
  if (!reserved) {
    results.push_back({"memory", "hugetlb pages", verdict::note, "this kernel has none"});
    return;
  }
  const std::uint64_t needed = round_up(slots_bytes, huge_page_bytes) / huge_page_bytes;
  const std::uint64_t free_pages =
      tool::parse_number(first_line(folder + "free_hugepages")).value_or(0);
  const bool enough = free_pages >= needed;
  results.push_back(
      {"memory", "hugetlb pages", enough ? verdict::good : verdict::note,
       fmt::format("{} of {} reserved are free; with --huge-pages reserved the loader's "
                   "slots take {} or none",
                   free_pages, *reserved, needed),
       enough ? ""
              : fmt::format("not needed where transparent ones are to be had; as root: "
                            "sysctl vm.nr_hugepages={} for the loader's slots",
                            *reserved - free_pages + needed)});
}

}  // namespace

void probe_memory(findings& results) {
  probe_reserved_pages(results);
  const std::string mode = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
  auto memory = mapping::make(slots_bytes, page_kind::transparent);
  const bool huge =
      memory && !populate(memory->span()) && kind_of(memory->span()) == page_kind::transparent;
  results.push_back(
      {"memory", "transparent huge pages", huge ? verdict::good : verdict::bad,
       fmt::format("{} {} them; mode {}", tool::binary_size(slots_bytes),
                   huge ? "got" : "did not get", mode),
       huge ? ""
            : "as root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled; small "
              "pages cost direct reads up to 2.6 times the bandwidth"});
}

void probe_gpu(findings& results) {
  std::error_code failed;
  const std::string version = first_line("/proc/driver/nvidia/version");
  std::size_t cards = 0;
  for (fs::directory_iterator at("/proc/driver/nvidia/gpus", failed), end; !failed && at != end;
       at.increment(failed)) {
    const fs::path information = at->path() / "information";
    const std::string model = first_line(information.string());
    results.push_back({"gpu", at->path().filename().string(), verdict::good, model});
    ++cards;
  }
  // The library that the CUDA runtime loads. A container may lack the library of the loaded driver.
  void* library = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  const bool usable = library != nullptr;
  if (usable) ::dlclose(library);
  if (version.empty() && cards == 0 && !usable) {
    results.push_back(
        {"gpu", "driver", verdict::note, "no NVIDIA driver here", "loads go into host memory"});
    return;
  }
  results.push_back({"gpu", "driver", usable ? verdict::good : verdict::bad,
                     version.empty() ? "its version is not told" : version,
                     usable ? ""
                            : "libcuda.so.1 cannot be loaded: in a container, run it with the GPU "
                              "(--gpus all)"});
}

}  // namespace ringload::bench
