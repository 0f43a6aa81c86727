// SPDX-License-Identifier: Apache-2.0
#include "load/upload.hpp"

#include <algorithm>
#include <utility>

namespace ringload::inline v0::detail {

using boost::system::error_code;

error_code upload::copy(const std::byte* from, std::span<const copy_op> copies) {
  copy_operation request;
  request.slot = from;
  request.copies = copies;
  request.maps = maps_;
  request.destinations = into_.memory();
  if (backend* const only = into_.only()) return copy_to(*only, request);
  std::vector<copy_op> order;
  for (const destinations::share& share : into_.split_host_copies(copies, order)) {
    if (auto failed = copy_to(*share.copier, share.operation_of(request))) return failed;
  }
  return {};
}

error_code upload::copy_to(backend& target, const copy_operation& op) {
  if (target.copy_now(op)) return {};
  const auto found = std::ranges::find(uploaders_, &target, &device_uploader::owner);
  if (found != uploaders_.end()) return found->copies->start(op);
  uploaders_.reserve(uploaders_.size() + 1);
  auto taken = target.take_uploader();
  if (!taken) return taken.error().code;
  uploaders_.push_back({&target, std::move(*taken)});
  return uploaders_.back().copies->start(op);
}

error_code upload::wait() noexcept {
  error_code first;
  for (device_uploader& taken : uploaders_) {
    const auto failed = taken.copies->finish();
    if (failed && !first) first = failed;
    taken.owner->return_uploader(std::move(taken.copies));
  }
  uploaders_.clear();
  return first;
}

}  // namespace ringload::inline v0::detail
