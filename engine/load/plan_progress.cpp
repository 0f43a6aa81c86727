// SPDX-License-Identifier: Apache-2.0

#include "load/plan_progress.hpp"

#include <utility>

namespace ringload::inline v0::detail {

plan_progress::plan_progress(std::vector<range> parts_of_tensor, std::vector<tensor_part> parts,
                             std::vector<range> parts_of_read,
                             const std::vector<std::uint32_t>& order,
                             std::vector<std::uint32_t> drive_of_read, std::uint32_t drives)
    : parts_of_tensor_(std::move(parts_of_tensor)),
      parts_(std::move(parts)),
      parts_of_read_(std::move(parts_of_read)),
      reads_(static_cast<std::uint32_t>(parts_of_read_.size()), std::move(drive_of_read), drives),
      missing_(parts_of_tensor_.size()),
      loaded_(parts_of_tensor_.size()) {
  if (order.empty()) reads_.add_all();
  for (const std::uint32_t read : order) reads_.add(read);
  for (std::uint32_t p = 0; p < parts_.size(); ++p) {
    const tensor_part& part = parts_[p];
    const std::uint32_t count = part.reads.end - part.reads.begin;
    missing_[part.tensor] += part.stream == no_stream ? count : 1;
    if (part.stream == no_stream) continue;
    stream_parts_.push_back(p);
    if (count < 2) continue;
    if (chain_of_read_.empty()) chain_of_read_.resize(parts_of_read_.size(), no_stream);
    // The chain of this stream exists already if another tensor uses the stream.
    if (chain_of_read_[part.reads.begin] != no_stream) continue;
    const auto chain = static_cast<std::uint32_t>(next_of_chain_.size());
    next_of_chain_.push_back(part.reads.begin);
    for (std::uint32_t r = part.reads.begin; r < part.reads.end; ++r) chain_of_read_[r] = chain;
  }
  std::ranges::stable_sort(stream_parts_, {}, [this](std::uint32_t p) { return parts_[p].stream; });
  order_.reserve(parts_of_tensor_.size());
}

// If `read` belongs to a chain, returns the next read of the chain instead, so that the reads of a
// chain are taken in stream order. Otherwise returns `read`.
std::optional<std::uint32_t> plan_progress::in_chain(std::optional<std::uint32_t> read) noexcept {
  if (!read || chain_of_read_.empty() || chain_of_read_[*read] == no_stream) return read;
  return next_of_chain_[chain_of_read_[*read]]++;
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
