// SPDX-License-Identifier: Apache-2.0
#pragma once

// Tracks the progress of a plan: which reads are left, how many reads are in flight, and which
// tensors have all their bytes. Reads, parts and tensors are identified by their indices. Not
// thread-safe.

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

  // A part of a tensor, and the reads that fetch its bytes. If `stream` is set, the reads fetch a
  // compressed stream, from which the part is decoded.
  struct tensor_part {
    std::uint32_t tensor;
    range reads;
    std::uint32_t stream = no_stream;
  };

  // Tensor t consists of the parts in the range parts_of_tensor[t] whose `tensor` is t. A tensor
  // may have no parts. The range parts_of_read[r] contains all parts that need read r. The range
  // may also contain other parts, which are skipped.
  //
  // The reads of a stream are taken in stream order. All other reads are taken in the sequence
  // `order`, or by ascending index if `order` is empty. Each drive has its own sequence.
  // `drive_of_read` is empty if there is one drive. All reads of a stream must be from the same
  // drive.
  plan_progress(std::vector<range> parts_of_tensor, std::vector<tensor_part> parts,
                std::vector<range> parts_of_read, const std::vector<std::uint32_t>& order = {},
                std::vector<std::uint32_t> drive_of_read = {}, std::uint32_t drives = 1);

  // ---- Reads ----

  // Makes take_prioritized() return the remaining reads of a tensor. If the result is
  // false, no prioritized read is left. If the result is true, a prioritized read may be left.
  bool prioritize(std::uint32_t tensor);
  std::optional<std::uint32_t> take_prioritized(std::uint32_t drive = 0) {
    return in_chain(reads_.take_prioritized(drive));
  }
  std::optional<std::uint32_t> take_next(std::uint32_t drive = 0) {
    return in_chain(reads_.take_next(drive));
  }
  // If has_prioritized() returns false, take_prioritized() has no read left for the drive. If
  // has_next() returns false, take_next() has no read left for the drive. If the result is true, a
  // read may be left.
  bool has_prioritized(std::uint32_t drive) const noexcept { return reads_.has_prioritized(drive); }
  bool has_next(std::uint32_t drive) const noexcept { return reads_.has_next(drive); }
  // Must be called when a taken read has ended, even if the read failed. The read is in flight
  // until then.
  void end_read() noexcept { reads_.done(); }
  std::uint32_t in_flight() const noexcept { return reads_.in_progress(); }

  // Must be called once for each read, when its bytes are in their destinations. Calls
  // `complete(tensor)` for each tensor that now has all its bytes.
  template <class Complete>
  void set_read_complete(std::uint32_t read, const Complete& complete) {
    const range parts = parts_of_read_[read];
    for (std::uint32_t p = parts.begin; p < parts.end; ++p) {
      const std::uint32_t tensor = parts_[p].tensor;
      if (needs(p, read) && --missing_[tensor] == 0) complete(tensor);
    }
  }

  // Must be called when the stream has been decoded and the decoded bytes are in the tensors. Calls
  // `complete(tensor)` for each tensor that now has all its bytes.
  template <class Complete>
  void set_decoded(std::uint32_t stream, const Complete& complete) {
    const auto [first, last] = std::ranges::equal_range(
        stream_parts_, stream, {}, [this](std::uint32_t p) { return parts_[p].stream; });
    for (auto p = first; p != last; ++p) {
      if (--missing_[parts_[*p].tensor] == 0) complete(parts_[*p].tensor);
    }
  }

  // ---- Tensors ----

  std::uint32_t tensors() const noexcept { return static_cast<std::uint32_t>(missing_.size()); }
  bool has_all_bytes(std::uint32_t tensor) const noexcept { return missing_[tensor] == 0; }

  // Must be called once for each tensor, when the tensor has all its bytes and its check has ended.
  void set_loaded(std::uint32_t tensor);
  bool is_loaded(std::uint32_t tensor) const noexcept { return loaded_[tensor]; }
  bool all_loaded() const noexcept { return order_.size() == missing_.size(); }
  // Returns the next loaded tensor in the order of the calls of set_loaded(). Each tensor is
  // returned once.
  std::optional<std::uint32_t> take_loaded() noexcept;

 private:
  bool needs(std::uint32_t part, std::uint32_t read) const noexcept {
    const range reads = parts_[part].reads;
    return parts_[part].stream == no_stream && reads.begin <= read && read < reads.end;
  }
  std::optional<std::uint32_t> in_chain(std::optional<std::uint32_t> read) noexcept;

  const std::vector<range> parts_of_tensor_;
  const std::vector<tensor_part> parts_;
  const std::vector<range> parts_of_read_;
  // Indices of the parts that have a stream, sorted by stream.
  std::vector<std::uint32_t> stream_parts_;
  // A chain consists of the reads of a stream that has several reads. Indexed by read: the chain of
  // the read, or no_stream. Empty if no stream has several reads.
  std::vector<std::uint32_t> chain_of_read_;
  std::vector<std::uint32_t> next_of_chain_;  // Indexed by chain: the next read.
  work_list reads_;
  // Indexed by tensor: the number of reads and streams that its parts still wait for. A part waits
  // for each of its reads, or for its stream.
  std::vector<std::uint32_t> missing_;
  std::vector<bool> loaded_;          // Indexed by tensor.
  std::vector<std::uint32_t> order_;  // Loaded tensors in the order of set_loaded().
  std::size_t next_loaded_ = 0;       // Index in order_ of the next tensor to return.
};

}  // namespace ringload::inline v0::detail
