// SPDX-License-Identifier: Apache-2.0
#include "read_buffer.hpp"

#include <algorithm>
#include <fstream>
#include <string>

#include "failure.hpp"
#include "size.hpp"

namespace ringload::bench {

namespace {

std::uint64_t meminfo_bytes(const std::string& wanted) {
  std::ifstream meminfo("/proc/meminfo");
  std::string key;
  std::uint64_t number = 0;
  std::string unit;
  while (meminfo >> key >> number) {
    std::getline(meminfo, unit);
    if (key == wanted + ":") return unit.find("kB") != std::string::npos ? number * 1024 : number;
  }
  return 0;
}

// Fails if too little memory is available. Otherwise the machine would swap or the OOM killer run.
void check_memory(std::uint64_t bytes, page_kind pages, destination into) {
  if (pages == page_kind::hugetlb) {
    const std::uint64_t free_pages = meminfo_bytes("HugePages_Free");
    const std::uint64_t needed = (bytes + huge_page_bytes - 1) / huge_page_bytes;
    if (needed <= free_pages) return;
    fail("--pages hugetlb",
         tool::counted(needed, "page") + " of 2 MiB are needed and " + tool::grouped(free_pages) +
             " are free; as root: sysctl vm.nr_hugepages=" + std::to_string(needed));
  }
  const std::uint64_t available = meminfo_bytes("MemAvailable");
  if (available > 0 && bytes > available / 10 * 9) {
    const char* const advice = into == destination::slots
                                   ? "smaller blocks or fewer reads in flight need less"
                                   : "--bytes reads less of the target";
    fail("memory", tool::both_sizes(bytes) + " are needed and " + tool::both_sizes(available) +
                       " are available; " + advice);
  }
}

}  // namespace

mapping& read_buffer::take(std::uint64_t bytes, page_kind pages, destination into) {
  // A smaller region would have no huge page.
  const std::uint64_t whole = std::max(bytes, huge_page_bytes);
  const bool fits = kept_.bytes() >= whole && kept_.bytes() <= whole + whole / 4 + huge_page_bytes;
  if (into != destination::fresh && !fresh_ && asked_ == pages && fits) return kept_;
  give_back();
  check_memory(whole, pages, into);
  auto made = mapping::make(whole, pages);
  if (!made) fail("memory", message_of(made.error()));
  kept_ = std::move(*made);
  asked_ = pages;
  fresh_ = into == destination::fresh;
  if (fresh_) return kept_;
  if (const auto failed = populate(kept_.span())) {
    give_back();
    fail("memory", tool::both_sizes(whole) + ": " + failed.message());
  }
  return kept_;
}

}  // namespace ringload::bench
