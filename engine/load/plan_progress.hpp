// SPDX-License-Identifier: Apache-2.0
#pragma once

// The progress of a plan: the remaining reads, the reads in flight, and the number of missing reads
// of each tensor. Reads, parts and tensors are represented by their indices. Not thread safe.

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

  // Bytes of a tensor that are read by `reads`, or that are decoded from a stream that is read by
  // `reads`.
  struct tensor_part {
    std::uint32_t tensor;
    range reads;
    std::uint32_t stream = no_stream;
  };

  // Tensor t consists of the parts in parts_of_tensor[t] whose `tensor` is t. A tensor may have no
  // part. parts_of_read[r] contains all parts that need read r. Other parts in parts_of_read[r] are
  // skipped. The reads of a stream are always taken in stream order. All other reads are taken in
  // `order`, or in the order of their numbers if `order` is empty. Each lane has its own order.
  // `lane_of_read` is empty if there is a single lane. All reads of a stream have the same lane.
  plan_progress(std::vector<range> parts_of_tensor, std::vector<tensor_part> parts,
                std::vector<range> parts_of_read, const std::vector<std::uint32_t>& order = {},
                std::vector<std::uint32_t> lane_of_read = {}, std::uint32_t lanes = 1);

  // ---- Reads ----

  // Moves the untaken reads of the tensor to the front. Returns true if a prioritized read exists.
  bool prioritize(std::uint32_t tensor);
  std::optional<std::uint32_t> take_prioritized(std::uint32_t lane = 0) {
    return in_chain(reads_.take_prioritized(lane));
  }
  std::optional<std::uint32_t> take_next(std::uint32_t lane = 0) {
    return in_chain(reads_.take_next(lane));
  }
  // Return true if a read may be available.
  bool has_prioritized(std::uint32_t lane) const noexcept { return reads_.has_prioritized(lane); }
  bool has_next(std::uint32_t lane) const noexcept { return reads_.has_next(lane); }
  // A taken read is in flight until end_read(), even if the read fails.
  void end_read() noexcept { reads_.done(); }
  std::uint32_t in_flight() const noexcept { return reads_.in_progress(); }

  // The bytes of the read are in place. Calls `complete(tensor)` for each tensor that now has all
  // its bytes. Must be called once for each read.
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

  // The tensor has all its bytes, and its check has ended. Must be called once for each tensor.
  void set_loaded(std::uint32_t tensor);
  bool is_loaded(std::uint32_t tensor) const noexcept { return loaded_[tensor]; }
  bool all_loaded() const noexcept { return order_.size() == missing_.size(); }
  // Returns each loaded tensor once, in the order of set_loaded().
  std::optional<std::uint32_t> take_loaded() noexcept;

 private:
  bool needs(std::uint32_t part, std::uint32_t read) const noexcept {
    const range reads = parts_[part].reads;
    return parts_[part].stream == no_stream && reads.begin <= read && read < reads.end;
  }
  // Replaces a read of a stream with the next read of the same stream.
  std::optional<std::uint32_t> in_chain(std::optional<std::uint32_t> read) noexcept;

  const std::vector<range> parts_of_tensor_;
  const std::vector<tensor_part> parts_;
  const std::vector<range> parts_of_read_;
  std::vector<std::uint32_t>
      stream_parts_;  // Indices of the parts with a stream, sorted by stream.
  // Indexed by read: the chain of the read. A chain is the reads of a stream. Empty: no chains.
  std::vector<std::uint32_t> chain_of_read_;
  std::vector<std::uint32_t> next_of_chain_;  // Indexed by chain.
  work_list reads_;
  std::vector<std::uint32_t> missing_;  // Indexed by tensor: missing reads and streams.
  std::vector<bool> loaded_;            // Indexed by tensor.
  std::vector<std::uint32_t> order_;    // Loaded tensors, in order.
  std::size_t next_loaded_ = 0;         // Index into order_.
};

}  // namespace ringload::inline v0::detail
