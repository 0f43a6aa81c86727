// SPDX-License-Identifier: Apache-2.0
#include "pipeline/plan_progress.hpp"

#include <utility>

namespace ringload::inline v0::detail {

plan_progress::plan_progress(std::vector<range> parts_of_tensor, std::vector<tensor_part> parts,
                             std::vector<range> parts_of_read)
    : parts_of_tensor_(std::move(parts_of_tensor)),
      parts_(std::move(parts)),
      parts_of_read_(std::move(parts_of_read)),
      reads_(static_cast<std::uint32_t>(parts_of_read_.size())),
      missing_(parts_of_tensor_.size()),
      loaded_(parts_of_tensor_.size()) {
  reads_.add_all();
  for (const tensor_part& part : parts_) {
    missing_[part.tensor] += part.reads.end - part.reads.begin;
  }
  order_.reserve(parts_of_tensor_.size());
}

bool plan_progress::prioritize(std::uint32_t tensor) {
  const range parts = parts_of_tensor_[tensor];
  for (std::uint32_t p = parts.begin; p < parts.end; ++p) {
    if (parts_[p].tensor != tensor) continue;
    const range reads = parts_[p].reads;
    for (std::uint32_t read = reads.begin; read < reads.end; ++read) reads_.prioritize(read);
  }
  return reads_.has_prioritized();
}

void plan_progress::set_loaded(std::uint32_t tensor) {
  loaded_[tensor] = true;
  order_.push_back(tensor);
}

std::optional<std::uint32_t> plan_progress::take_loaded() noexcept {
  if (next_loaded_ == order_.size()) return std::nullopt;
  return order_[next_loaded_++];
}

}  // namespace ringload::inline v0::detail
