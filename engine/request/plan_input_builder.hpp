// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a load is to bring, in the planner's terms: the chosen boxes of tensors as they are stored,
// how they are converted, and, of a fill, where they go.

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
  // The arguments outlive the list. Calls `options.converts`. `into` has a target for each tensor
  // of a fill, and is empty for other loads.
  plan_input_builder(const opened_checkpoint& from, const std::vector<chosen_tensor>& which,
                     const load_options& options, std::span<const fill_target> into = {});
  plan_input_builder(const plan_input_builder&) = delete;
  plan_input_builder& operator=(const plan_input_builder&) = delete;

  plan_input input() const noexcept;
  // Which of the loader's devices an arena of the input is on.
  std::uint32_t device_of(std::uint32_t arena) const noexcept {
    return arena < devices_.size() ? devices_[arena] : 0;
  }

  // Why a tensor cannot be converted as load_options::dtype asks.
  const std::optional<fault>& refused() const noexcept { return refused_; }
  // Tensors that it leaves as they are, though they have another type. Indices of the catalog.
  std::span<const std::uint32_t> unconverted() const noexcept { return unconverted_; }
  // The first tensor that is converted from f64 on such a device.
  std::optional<std::uint32_t> first_from_f64_on(
      const std::function<bool(std::uint32_t)>& device) const;
  // Whether any tensor is converted; then which.
  std::optional<std::uint32_t> first_converted() const noexcept;
  // A lower bound of the arena's size. Overflow is refused later, by make_plan.
  std::uint64_t loaded_bytes() const;
  // The same by tensor.
  std::vector<std::uint64_t> loaded_bytes_of_each() const;

  // Of load_options::verify: what the files' own digests ask for.
  struct digests {
    // By chosen tensor: what its landed bytes must hash to; null: nothing. Empty: there is none.
    std::vector<const stored_digest*> landed;
    // Of tensors without elements, for which nothing is read; with the tensor's index of the
    // catalog.
    std::vector<std::pair<std::uint32_t, const stored_digest*>> unread;
    // The first tensor that is not compared, and why.
    std::optional<std::uint32_t> unchecked;
    const char* why_unchecked = "";
    std::optional<std::uint32_t> needs_sha256;  // The first, with its index of the catalog.
  };
  const digests& of_files() const noexcept { return digests_; }

  // The tensor that wanted tensor `w` of the input is, or is a part of.
  std::uint32_t tensor_of(std::uint32_t w) const noexcept { return tensor_of_[w]; }

  // Puts the parts of fused tensors together: from then on the plan counts tensors as `which` does.
  void merge_fused(plan& made) const;

  // What plan_input::streams name, in that order; `element_bytes` as make_decoder takes it.
  struct stream {
    const stored_stream* stored;  // Null: the bytes of the file as they are.
    std::uint32_t element_bytes;
    const stored_digest* digest = nullptr;  // Of its stored bytes, to be compared; or null.
  };
  std::vector<stream> take_streams() { return std::move(streams_); }

 private:
  // Keeps what the spans of a tensor_form refer to.
  struct form_memory {
    tensor_form form;
    std::vector<stored_box> pieces;
    std::vector<range> box;
    std::vector<std::int64_t> strides;
    // Of a tensor that is broadcast: its shape, and the dimensions of its pieces.
    std::vector<std::uint64_t> shape;
    std::deque<std::vector<std::uint64_t>> dimensions;
  };

  // Which of the load's arenas.
  std::uint32_t arena_of(const chosen_tensor& of);
  void add(const box& one, const chosen_tensor& of);
  void add_pieces(form_memory& to, const stored_form& stored, std::uint32_t element_bytes,
                  const stored_digest* digest);
  void add_row_major_piece(form_memory& to, const tensor_info& t, const wanted_stream& from,
                           const stream& with);
  bool is_whole(const box& one) const;
  const stored_digest* digest_in_stream(const box& one, const chosen_tensor& of, bool converted);
  void add_fused(const chosen_tensor& of);
  void put_into(form_memory& to, const box& one, const chosen_tensor& of, std::uint64_t before);
  void broadcast(form_memory& to, const box& one, const fill_target& into);
  const fill_target* target_of(const chosen_tensor& of) const noexcept {
    return into_.empty() ? nullptr : &into_[static_cast<std::size_t>(&of - which_.data())];
  }
  range range_of(const box& one, std::size_t d) const;
  dtype loaded_type(const tensor_info& t, const chosen_tensor& of);

  const opened_checkpoint& from_;
  const std::vector<chosen_tensor>& which_;
  const load_options& options_;
  const std::span<const fill_target> into_;
  std::vector<caller_memory> destinations_;  // By tensor of a fill.
  std::vector<wanted_tensor> tensors_;
  std::vector<std::uint32_t> tensor_of_;  // By wanted tensor: index into which_.
  std::deque<form_memory> forms_;         // At stable addresses.
  std::vector<wanted_stream> wanted_streams_;
  std::vector<stream> streams_;
  // By file, offset, stored bytes and digest: tensors may lie in one stream.
  using stream_key = std::tuple<std::uint32_t, std::uint64_t, std::uint64_t, const stored_digest*>;
  std::map<stream_key, std::uint32_t> stream_at_;
  std::optional<fault> refused_;
  std::vector<std::uint32_t> unconverted_;
  digests digests_;
  std::vector<arena_block> blocks_;
  std::vector<std::uint32_t> block_of_;  // By tensor of which_; tensor_form::no_block.
  std::uint32_t arenas_ = 1;
  // By device, and by file where each has its own.
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> arena_at_;
  std::vector<std::uint32_t> devices_;  // By arena.
};

}  // namespace ringload::inline v0::detail
