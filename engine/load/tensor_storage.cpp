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
  const conversion cast = where_[t].cast;
  return cast.needed() ? info(t).bytes / cast.from_bytes() * cast.to_bytes() : info(t).bytes;
}

std::shared_ptr<arena> detail::count_memory(std::shared_ptr<arena> memory, std::uint64_t bytes,
                                            std::shared_ptr<memory_account> account) {
  if (!account) return memory;
  struct counted_arena {
    counted_arena(std::shared_ptr<memory_account> counter, std::uint64_t size,
                  std::shared_ptr<arena> counted_memory) noexcept
        : accounted(std::move(counter), size), memory(std::move(counted_memory)) {}

    // Declared before `memory`, so that the bytes are counted until the memory is freed.
    const accounted_bytes accounted;
    const std::shared_ptr<arena> memory;
  };
  const auto counted =
      std::make_shared<counted_arena>(std::move(account), bytes, std::move(memory));
  return {counted, counted->memory.get()};
}

detail::model_storage::model_storage(std::shared_ptr<const loaded_tensors> tensors,
                                     std::vector<taken_arena> memory,
                                     const memory_accounts& accounts)
    : tensors_(std::move(tensors)) {
  arenas_.reserve(memory.size());
  for (taken_arena& taken : memory) {
    auto account = taken.mapped ? accounts.mapped : accounts.tensors;
    if (taken.is_shared) account = nullptr;
    auto& stored = arenas_.emplace_back();
    if (taken.memory)
      stored =
          std::make_shared<const tensor_storage>(tensors_, std::move(taken), std::move(account));
  }
}

std::shared_ptr<detail::model_storage> detail::make_model_storage(catalog contents,
                                                                  std::vector<placement> placements,
                                                                  std::vector<taken_arena> memory,
                                                                  const memory_accounts& accounts) {
  auto named = std::make_shared<const named_catalog>(std::move(contents));
  auto tensors = std::make_shared<const loaded_tensors>(std::move(named), std::move(placements));
  return std::make_shared<model_storage>(std::move(tensors), std::move(memory), accounts);
}

tensor detail::model_storage::find(std::string_view name,
                                   std::optional<std::uint32_t> on) const noexcept {
  const auto first = tensors_->named().find(name);
  if (!first) return {};
  const std::vector<tensor_info>& infos = tensors_->named().catalog().tensors;
  // Tensors with the same name are adjacent.
  for (std::uint32_t t = *first; t < infos.size() && infos[t].name == name; ++t) {
    if (!on || arenas_[tensors_->where(t).destination]->position() == *on) return tensor_at(t);
  }
  return {};
}

tensor::tensor(std::shared_ptr<const detail::tensor_storage> storage, std::uint32_t index) noexcept
    : storage_(std::move(storage)), index_(index) {}

std::string_view tensor::name() const noexcept { return storage_->tensors().info(index_).name; }
dtype tensor::dtype() const noexcept { return storage_->tensors().dtype(index_); }
std::span<const std::uint64_t> tensor::shape() const noexcept {
  return storage_->tensors().shape(index_);
}
std::uint64_t tensor::size_bytes() const noexcept { return storage_->tensors().bytes(index_); }
void* tensor::data() const noexcept { return storage_->data(index_); }
bool tensor::read_only() const noexcept { return storage_->memory().read_only(); }
ringload::device tensor::device() const noexcept { return storage_->on(); }
std::uint32_t tensor::device_position() const noexcept { return storage_->position(); }
arena& tensor::memory() const noexcept { return storage_->memory(); }

void* tensor::host_data(ringload::dtype expected) const {
  if (dtype() != expected) {
    throw error(errc::wrong_dtype, tensor_place(name()),
                "its dtype is " + std::string(ringload::name(dtype())) +
                    ", but the call requests " + std::string(ringload::name(expected)));
  }
  if (device().kind() != device_kind::host) {
    throw error(errc::device_unavailable, tensor_place(name()),
                "its memory is on " + device().name() + ", expected host memory");
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
                find(name) ? "the tensor is not on the loader's device " + grouped(position) : "");
  }
  return found;
}

tensor model::find(std::string_view name, std::uint32_t position) const noexcept {
  return storage_ ? storage_->find(name, position) : tensor();
}

std::size_t model::size() const noexcept {
  return storage_ ? storage_->tensors().named().catalog().tensors.size() : 0;
}

tensor model::operator[](std::size_t position) const noexcept {
  return storage_->tensor_at(static_cast<std::uint32_t>(position));
}

std::vector<memory_region> model::regions() const {
  std::vector<memory_region> regions;
  if (!storage_) return regions;
  for (const auto& stored : storage_->arenas()) {
    if (!stored) continue;
    const arena& memory = stored->memory();
    regions.push_back({memory.data(), stored->memory_bytes(), stored->on(), memory.descriptor()});
  }
  return regions;
}

const ringload::catalog& model::catalog() const noexcept {
  static const ringload::catalog nothing;
  return storage_ ? storage_->tensors().named().catalog() : nothing;
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
