// SPDX-License-Identifier: Apache-2.0
#pragma once

// How far a plan has been carried out: which reads are to be made, which are in flight, and how
// many reads each tensor still misses. Knows reads, parts and tensors by their indices only. Not
// thread safe.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "pipeline/work_list.hpp"

namespace ringload::inline v0::detail {

class plan_progress {
 public:
  struct range {
    std::uint32_t begin;
    std::uint32_t end;
  };

  // Bytes of a tensor that come with some reads.
  struct tensor_part {
    std::uint32_t tensor;
    range reads;
  };

  // Tensor t consists of those parts in parts_of_tensor[t] that name it, which may be none. All
  // parts that need read r are in parts_of_read[r]; parts in it that do not need r are skipped.
  plan_progress(std::vector<range> parts_of_tensor, std::vector<tensor_part> parts,
                std::vector<range> parts_of_read);

  // ---- Reads ----

  // Moves those reads of the tensor that nobody has taken to the front. True if any read is there.
  bool prioritize(std::uint32_t tensor);
  std::optional<std::uint32_t> take_prioritized() { return reads_.take_prioritized(); }
  std::optional<std::uint32_t> take_next() { return reads_.take_next(); }
  // A taken read is in flight until end_read(), whatever came of it.
  void end_read() noexcept { reads_.done(); }
  std::uint32_t in_flight() const noexcept { return reads_.in_progress(); }

  // The bytes of the read are in place: calls `complete(tensor)` for each tensor that missed
  // nothing else. Once for each read.
  template <class Complete>
  void arrived(std::uint32_t read, const Complete& complete) {
    const range parts = parts_of_read_[read];
    for (std::uint32_t p = parts.begin; p < parts.end; ++p) {
      const std::uint32_t tensor = parts_[p].tensor;
      if (needs(p, read) && --missing_[tensor] == 0) complete(tensor);
    }
  }

  // ---- Tensors ----

  std::uint32_t tensors() const noexcept { return static_cast<std::uint32_t>(missing_.size()); }
  bool has_all_bytes(std::uint32_t tensor) const noexcept { return missing_[tensor] == 0; }

  // The tensor has all its bytes, and whatever else is asked of them is done. Once for each.
  void set_loaded(std::uint32_t tensor);
  bool is_loaded(std::uint32_t tensor) const noexcept { return loaded_[tensor]; }
  bool all_loaded() const noexcept { return order_.size() == missing_.size(); }
  // Each loaded tensor once, in the order of set_loaded().
  std::optional<std::uint32_t> take_loaded() noexcept;

 private:
  bool needs(std::uint32_t part, std::uint32_t read) const noexcept {
    const range reads = parts_[part].reads;
    return reads.begin <= read && read < reads.end;
  }

  const std::vector<range> parts_of_tensor_;
  const std::vector<tensor_part> parts_;
  const std::vector<range> parts_of_read_;
  work_list reads_;
  std::vector<std::uint32_t> missing_;  // By tensor: reads that its parts still need.
  std::vector<bool> loaded_;            // By tensor.
  std::vector<std::uint32_t> order_;    // Loaded tensors.
  std::size_t next_loaded_ = 0;         // Of order_.
};

}  // namespace ringload::inline v0::detail
