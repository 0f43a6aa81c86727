// SPDX-License-Identifier: Apache-2.0
#include "pipeline/plan_progress.hpp"

#include <utility>

namespace ringload::inline v0::detail {

plan_progress::plan_progress(std::vector<range> reads_of_tensor, std::vector<range> tensors_of_read)
    : reads_of_tensor_(std::move(reads_of_tensor)),
      tensors_of_read_(std::move(tensors_of_read)),
      reads_(static_cast<std::uint32_t>(tensors_of_read_.size())),
      loaded_(reads_of_tensor_.size()) {
  reads_.add_all();
  missing_.reserve(reads_of_tensor_.size());
  for (const range reads : reads_of_tensor_) missing_.push_back(reads.end - reads.begin);
  order_.reserve(reads_of_tensor_.size());
}

bool plan_progress::prioritize(std::uint32_t tensor) {
  const range reads = reads_of_tensor_[tensor];
  for (std::uint32_t read = reads.begin; read < reads.end; ++read) reads_.prioritize(read);
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
