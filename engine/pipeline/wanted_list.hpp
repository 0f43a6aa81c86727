// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a load is to bring, in the planner's terms: the chosen boxes of tensors as they are stored,
// and how they are converted.

#include <cstdint>
#include <deque>
#include <map>
#include <ringload/limits.hpp>
#include <tuple>
#include <vector>

#include "core/fault.hpp"
#include "pipeline/opened_checkpoint.hpp"
#include "plan/plan.hpp"
#include "plan/wanted.hpp"
#include "selection/choose.hpp"

namespace ringload::inline v0::detail {

class wanted_list {
 public:
  // Both arguments outlive the list. Calls `options.converts`.
  wanted_list(const opened_checkpoint& from, const std::vector<chosen_tensor>& which,
              const load_options& options);
  wanted_list(const wanted_list&) = delete;
  wanted_list& operator=(const wanted_list&) = delete;

  plan_input input() const noexcept;

  // Whether any tensor is converted; then which.
  std::optional<std::uint32_t> first_converted() const noexcept;
  // A lower bound of the arena's size. Overflow is refused later, by make_plan.
  std::uint64_t loaded_bytes() const noexcept;

  // The tensor that wanted tensor `w` of the input is, or is a part of.
  std::uint32_t tensor_of(std::uint32_t w) const noexcept { return tensor_of_[w]; }

  // Puts the parts of fused tensors together: from then on the plan counts tensors as `which` does.
  void merge_fused(plan& made) const;

  // What plan_input::streams name, in that order; `element_bytes` as make_decoder takes it.
  struct stream {
    const stored_stream* stored;
    std::uint32_t element_bytes;
  };
  std::vector<stream> take_streams() { return std::move(streams_); }

 private:
  // Keeps what the spans of a tensor_form refer to.
  struct form_memory {
    tensor_form form;
    std::vector<stored_box> pieces;
    std::vector<range> box;
    std::vector<std::int64_t> strides;
  };

  void add(const box& one, const chosen_tensor& of);
  void add_pieces(form_memory& to, const stored_form& stored, std::uint32_t element_bytes);
  void add_fused(const chosen_tensor& of);
  conversion conversion_of(const tensor_info& t) const;

  const opened_checkpoint& from_;
  const std::vector<chosen_tensor>& which_;
  const load_options& options_;
  std::vector<wanted_tensor> tensors_;
  std::vector<std::uint32_t> tensor_of_;  // By wanted tensor: index into which_.
  std::deque<form_memory> forms_;         // At stable addresses.
  std::vector<wanted_stream> wanted_streams_;
  std::vector<stream> streams_;
  // By file, offset and stored bytes: tensors may lie in one stream.
  std::map<std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>, std::uint32_t> stream_at_;
  std::vector<arena_block> blocks_;
  std::vector<std::uint32_t> block_of_;  // By tensor of which_; tensor_form::no_block.
};

}  // namespace ringload::inline v0::detail
