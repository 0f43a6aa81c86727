// SPDX-License-Identifier: Apache-2.0
#pragma once

// The I/O buffers ("slots") of a loader: one address range, divided into slots of equal size. Each
// slot is populated separately. A slot has one user at a time: a worker of the engine, or a second
// read (see runtime/worker.hpp and runtime/second_reads.hpp). Therefore slots need no locks and no
// reference counts.

#include <cstdint>
#include <memory>
#include <ringload/options.hpp>
#include <span>
#include <string>

#include "base/mapping.hpp"

namespace ringload::inline v0 {

class slots {
 public:
  slots() = default;

  // Maps exactly `count * slot_bytes` bytes without populating a page. The value of `pages` means:
  //   - none: small pages
  //   - reserved: hugetlb pages. If too few are free, or if the slot size is not a multiple of the
  //     page size: transparent huge pages
  //   - any other value: transparent huge pages
  static result<slots> make(std::uint32_t count, std::uint64_t slot_bytes, huge_pages pages);

  std::span<std::byte> at(std::uint32_t slot) const noexcept {
    return memory().subspan(slot * slot_bytes_, slot_bytes_);
  }
  std::span<std::byte> memory() const noexcept {
    return region_ ? region_->span() : std::span<std::byte>();
  }
  std::shared_ptr<const void> owner() const noexcept { return region_; }
  std::uint64_t slot_bytes() const noexcept { return slot_bytes_; }

  // Populates one slot. If make() has mapped hugetlb pages, the kernel may refuse to populate these
  // pages, for example because of a control group. The slot then receives transparent huge pages,
  // and the function returns the reason. In all other cases, returns an empty string. Several slots
  // may be populated at the same time.
  result<std::string> populate(std::uint32_t slot) const;

  // Returns the reason if reserved pages were requested but make() did not map them. Returns an
  // empty string in all other cases, also if populate() later replaces the reserved pages.
  const std::string& not_reserved_reason() const noexcept { return not_reserved_reason_; }

 private:
  slots(mapping region, std::uint64_t slot_bytes, bool reserved, std::string not_reserved_reason)
      : region_(std::make_shared<const mapping>(std::move(region))),
        slot_bytes_(slot_bytes),
        reserved_(reserved),
        not_reserved_reason_(std::move(not_reserved_reason)) {}

  std::shared_ptr<const mapping> region_;
  std::uint64_t slot_bytes_ = 0;
  bool reserved_ = false;  // True if the memory was mapped with reserved pages.
  std::string not_reserved_reason_;
};

}  // namespace ringload::inline v0
