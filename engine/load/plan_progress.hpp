// SPDX-License-Identifier: Apache-2.0
#pragma once

// How far a plan has been carried out: which reads are to be made, which are in flight, and how
// many reads each tensor still misses. Knows reads, parts and tensors by their indices only. Not
// thread safe.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/work_list.hpp"

namespace ringload::inline v0::detail {

class plan_progress {
 public:
  struct range {
    std::uint32_t begin;
    std::uint32_t end;
  };

  static constexpr std::uint32_t no_stream = ~std::uint32_t{0};

  // Bytes of a tensor that come with some reads; or that come out of a stream, whose reads these
  // are.
  struct tensor_part {
    std::uint32_t tensor;
    range reads;
    std::uint32_t stream = no_stream;
  };

  // Tensor t consists of those parts in parts_of_tensor[t] that name it, which may be none. All
  // parts that need read r are in parts_of_read[r]; parts in it that do not need r are skipped.
  // Of a stream with several reads each is taken before the next, whoever asks for which. Reads are
  // taken in `order`, or, where that is empty, as they are numbered; those of each lane apart, if
  // there are several. `lane_of_read` is empty where there is one. A stream's have one.
  plan_progress(std::vector<range> parts_of_tensor, std::vector<tensor_part> parts,
                std::vector<range> parts_of_read, const std::vector<std::uint32_t>& order = {},
                std::vector<std::uint32_t> lane_of_read = {}, std::uint32_t lanes = 1);

  // ---- Reads ----

  // Moves those reads of the tensor that nobody has taken to the front. True if any read is there.
  bool prioritize(std::uint32_t tensor);
  std::optional<std::uint32_t> take_prioritized(std::uint32_t lane = 0) {
    return in_chain(reads_.take_prioritized(lane));
  }
  std::optional<std::uint32_t> take_next(std::uint32_t lane = 0) {
    return in_chain(reads_.take_next(lane));
  }
  // Whether there may be any to take.
  bool has_prioritized(std::uint32_t lane) const noexcept { return reads_.has_prioritized(lane); }
  bool has_next(std::uint32_t lane) const noexcept { return reads_.has_next(lane); }
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

  // The stream has been decoded, and its bytes are in place.
  template <class Complete>
  void decoded(std::uint32_t stream, const Complete& complete) {
    const auto [first, last] = std::ranges::equal_range(
        stream_parts_, stream, {}, [this](std::uint32_t p) { return parts_[p].stream; });
    for (auto p = first; p != last; ++p) {
      if (--missing_[parts_[*p].tensor] == 0) complete(parts_[*p].tensor);
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
    return parts_[part].stream == no_stream && reads.begin <= read && read < reads.end;
  }
  // Of a stream's reads that one which is next.
  std::optional<std::uint32_t> in_chain(std::optional<std::uint32_t> read) noexcept;

  const std::vector<range> parts_of_tensor_;
  const std::vector<tensor_part> parts_;
  const std::vector<range> parts_of_read_;
  std::vector<std::uint32_t> stream_parts_;  // Those of parts_ that have a stream, sorted by it.
  // By read: the chain it belongs to, whose reads follow each other. Empty: there is none.
  std::vector<std::uint32_t> chain_of_read_;
  std::vector<std::uint32_t> next_of_chain_;  // By chain.
  work_list reads_;
  std::vector<std::uint32_t> missing_;  // By tensor: reads and streams that its parts still need.
  std::vector<bool> loaded_;            // By tensor.
  std::vector<std::uint32_t> order_;    // Loaded tensors.
  std::size_t next_loaded_ = 0;         // Of order_.
};

}  // namespace ringload::inline v0::detail
