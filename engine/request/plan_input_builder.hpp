// SPDX-License-Identifier: Apache-2.0
#pragma once

// Builds the planner's input for a load: the chosen boxes of tensors as they are stored, their
// conversions and, for a fill, their destinations.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <ringload/options.hpp>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "base/fault.hpp"
#include "catalog/opened_checkpoint.hpp"
#include "plan/plan.hpp"
#include "plan/plan_input.hpp"
#include "request/choose.hpp"
#include "request/fill_state.hpp"

namespace ringload::inline v0::detail {

class plan_input_builder {
 public:
  // The arguments must outlive the builder. Calls `options.converts`. `into` has a target for each
  // tensor of a fill, and is empty for other loads.
  plan_input_builder(const opened_checkpoint& from, const std::vector<chosen_tensor>& which,
                     const load_options& options, std::span<const fill_target> into = {});
  plan_input_builder(const plan_input_builder&) = delete;
  plan_input_builder& operator=(const plan_input_builder&) = delete;

  plan_input input() const noexcept;
  // The loader's device that holds an arena of the input.
  std::uint32_t device_of(std::uint32_t arena) const noexcept {
    return arena < devices_.size() ? devices_[arena] : 0;
  }

  // The fault of the first tensor that load_options::dtype cannot convert.
  const std::optional<fault>& refused() const noexcept { return refused_; }
  // Catalog indices of the tensors that keep a type other than load_options::dtype.
  std::span<const std::uint32_t> unconverted() const noexcept { return unconverted_; }
  // The first tensor that is converted from f64 on a device for which `device` returns true.
  std::optional<std::uint32_t> first_from_f64_on(
      const std::function<bool(std::uint32_t)>& device) const;
  // The first converted tensor, if any.
  std::optional<std::uint32_t> first_converted() const noexcept;
  // A lower bound of the arena's size. Overflow is refused later, by make_plan.
  std::uint64_t loaded_bytes() const;
  // The lower bound of each tensor.
  std::vector<std::uint64_t> loaded_bytes_by_tensor() const;

  // Work for load_options::verify that the files' own digests require.
  struct digests {
    // By chosen tensor: the digest of its landed bytes, or null. Empty if no tensor has one.
    std::vector<const stored_digest*> landed;
    // Catalog index and digest of each tensor without elements: no bytes of it are read.
    std::vector<std::pair<std::uint32_t, const stored_digest*>> unread;
    // The first tensor that is not compared, and the reason.
    std::optional<std::uint32_t> unchecked;
    const char* why_unchecked = "";
    std::optional<std::uint32_t> needs_sha256;  // Catalog index of the first such tensor.
  };
  const digests& of_files() const noexcept { return digests_; }

  // The chosen tensor that contains wanted tensor `w` of the input.
  std::uint32_t tensor_of(std::uint32_t w) const noexcept { return tensor_of_[w]; }

  // Joins the parts of fused tensors. Afterwards the plan counts tensors as `chosen` does.
  void merge_fused(plan& target) const;

  // One entry for each of plan_input::streams. `element_bytes` is the argument of make_decoder.
  struct stream {
    const stored_stream* stored;  // Null: the bytes of the file as they are.
    std::uint32_t element_bytes;
    const stored_digest* digest = nullptr;  // Expected digest of the stored bytes, or null.
  };
  std::vector<stream> take_streams() { return std::move(streams_); }

 private:
  // Keeps what the spans of a tensor_form refer to.
  struct form_memory {
    tensor_form form;
    std::vector<stored_box> pieces;
    std::vector<range> box;
    std::vector<std::int64_t> strides;
    // For a broadcast tensor: its shape, and the dimensions of its pieces.
    std::vector<std::uint64_t> shape;
    std::deque<std::vector<std::uint64_t>> dimensions;
  };

  // The load's arena for the tensor.
  std::uint32_t arena_of(const chosen_tensor& chosen);
  void add(const box& source_box, const chosen_tensor& chosen);
  void add_pieces(form_memory& to, const stored_form& stored, std::uint32_t element_bytes,
                  const stored_digest* digest);
  void add_row_major_piece(form_memory& to, const tensor_info& t, const wanted_stream& from,
                           const stream& stored);
  bool is_whole(const box& source_box) const;
  const stored_digest* digest_in_stream(const box& source_box, const chosen_tensor& chosen,
                                        bool converted);
  void add_fused(const chosen_tensor& chosen);
  void put_into(form_memory& to, const box& source_box, const chosen_tensor& chosen,
                std::uint64_t before);
  void broadcast(form_memory& to, const box& source_box, const fill_target& into);
  const fill_target* target_of(const chosen_tensor& chosen) const noexcept {
    return into_.empty() ? nullptr : &into_[static_cast<std::size_t>(&chosen - chosen_.data())];
  }
  range range_of(const box& source_box, std::size_t d) const;
  dtype loaded_type(const tensor_info& t, const chosen_tensor& chosen);

  const opened_checkpoint& from_;
  const std::vector<chosen_tensor>& chosen_;
  const load_options& options_;
  const std::span<const fill_target> into_;
  std::vector<caller_memory> destinations_;  // By tensor; only for fills.
  std::vector<wanted_tensor> tensors_;
  std::vector<std::uint32_t> tensor_of_;  // By wanted tensor: index into which_.
  std::deque<form_memory> forms_;         // At stable addresses.
  std::vector<wanted_stream> wanted_streams_;
  std::vector<stream> streams_;
  // By file, offset, stored bytes and digest: several tensors may share a stream.
  using stream_key = std::tuple<std::uint32_t, std::uint64_t, std::uint64_t, const stored_digest*>;
  std::map<stream_key, std::uint32_t> stream_at_;
  std::optional<fault> refused_;
  std::vector<std::uint32_t> unconverted_;
  digests digests_;
  std::vector<arena_block> blocks_;
  std::vector<std::uint32_t> block_of_;  // By chosen tensor; may be tensor_form::no_block.
  std::uint32_t arenas_ = 1;
  // By device, and by file if each file has its own arena.
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> arena_at_;
  std::vector<std::uint32_t> devices_;  // By arena.
};

}  // namespace ringload::inline v0::detail
