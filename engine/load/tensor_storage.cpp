// SPDX-License-Identifier: Apache-2.0
#include "load/tensor_storage.hpp"

#include <algorithm>
#include <ringload/error.hpp>
#include <ringload/model.hpp>
#include <ringload/tensor.hpp>

#include "base/numeric/convert.hpp"
#include "base/printable.hpp"

namespace ringload::inline v0 {

dtype detail::loaded_tensors::dtype(std::uint32_t t) const noexcept {
  return where_[t].cast.needed() ? dtype_of(where_[t].cast.to) : info(t).dtype;
}

std::span<const std::uint64_t> detail::loaded_tensors::shape(std::uint32_t t) const noexcept {
  return is_block(where_[t].cast.from) ? info(t).original_shape : info(t).shape;
}

std::uint64_t detail::loaded_tensors::bytes(std::uint32_t t) const noexcept {
  const conversion as = where_[t].cast;
  return as.needed() ? info(t).bytes / as.from_bytes() * as.to_bytes() : info(t).bytes;
}

detail::model_storage::model_storage(std::shared_ptr<const loaded_tensors> what,
                                     std::vector<taken_arena> memory, const memory_accounts& in)
    : of_(std::move(what)) {
  arenas_.reserve(memory.size());
  for (taken_arena& each : memory) {
    const auto& account = each.mapped ? in.mapped : in.tensors;
    auto& made = arenas_.emplace_back();
    if (each.memory) made = std::make_shared<const tensor_storage>(of_, std::move(each), account);
  }
}

tensor detail::model_storage::find(std::string_view name,
                                   std::optional<std::uint32_t> on) const noexcept {
  const auto first = of_->named().find(name);
  if (!first) return {};
  const std::vector<tensor_info>& all = of_->named().catalog().tensors;
  // Those of one name stand side by side.
  for (std::uint32_t t = *first; t < all.size() && all[t].name == name; ++t) {
    if (!on || arenas_[of_->where(t).destination]->position() == *on) return at(t);
  }
  return {};
}

tensor::tensor(std::shared_ptr<const detail::tensor_storage> storage, std::uint32_t index) noexcept
    : storage_(std::move(storage)), index_(index) {}

std::string_view tensor::name() const noexcept { return storage_->of().info(index_).name; }
dtype tensor::dtype() const noexcept { return storage_->of().dtype(index_); }
std::span<const std::uint64_t> tensor::shape() const noexcept {
  return storage_->of().shape(index_);
}
std::uint64_t tensor::size_bytes() const noexcept { return storage_->of().bytes(index_); }
void* tensor::data() const noexcept { return storage_->data(index_); }
bool tensor::read_only() const noexcept { return storage_->memory().read_only(); }
ringload::device tensor::device() const noexcept { return storage_->on(); }
std::uint32_t tensor::device_position() const noexcept { return storage_->position(); }
arena& tensor::memory() const noexcept { return storage_->memory(); }

void* tensor::host_data(ringload::dtype wanted) const {
  if (dtype() != wanted) {
    throw error(errc::wrong_dtype, tensor_place(name()),
                "its elements are " + std::string(ringload::name(dtype())) + ", not " +
                    std::string(ringload::name(wanted)));
  }
  if (device().kind() != device_kind::host) {
    throw error(errc::device_unavailable, tensor_place(name()),
                "its memory is of " + device().name() + ", not of the host");
  }
  return data();
}

model::model(std::shared_ptr<const detail::model_storage> storage) noexcept
    : storage_(std::move(storage)) {}

tensor model::at(std::string_view name) const {
  tensor found = find(name);
  if (!found) {
    throw error(errc::no_such_tensor, tensor_place(name), {});
  }
  return found;
}

tensor model::find(std::string_view name) const noexcept {
  return storage_ ? storage_->find(name) : tensor();
}

tensor model::at(std::string_view name, std::uint32_t position) const {
  tensor found = find(name, position);
  if (!found) {
    throw error(errc::no_such_tensor, tensor_place(name),
                find(name) ? "not on device " + grouped(position) + " of the loader's" : "");
  }
  return found;
}

tensor model::find(std::string_view name, std::uint32_t position) const noexcept {
  return storage_ ? storage_->find(name, position) : tensor();
}

std::size_t model::size() const noexcept {
  return storage_ ? storage_->of().named().catalog().tensors.size() : 0;
}

tensor model::operator[](std::size_t position) const noexcept {
  return storage_->at(static_cast<std::uint32_t>(position));
}

std::vector<memory_region> model::regions() const {
  std::vector<memory_region> all;
  if (!storage_) return all;
  for (const auto& each : storage_->arenas()) {
    if (!each) continue;
    const arena& memory = each->memory();
    all.push_back({memory.data(), each->memory_bytes(), each->on(), memory.descriptor()});
  }
  return all;
}

const ringload::catalog& model::catalog() const noexcept {
  static const ringload::catalog nothing;
  return storage_ ? storage_->of().named().catalog() : nothing;
}

const load_stats& model::stats() const noexcept {
  static const load_stats nothing;
  return storage_ ? storage_->stats : nothing;
}

const std::vector<file_stats>& model::stats_of_files() const noexcept {
  static const std::vector<file_stats> nothing;
  return storage_ ? storage_->stats_of_files : nothing;
}

}  // namespace ringload::inline v0
