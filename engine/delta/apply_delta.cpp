// SPDX-License-Identifier: Apache-2.0

// Applies a delta file to a loaded model. The result is a new model, which shares the memory of all
// unchanged tensors with the loaded model.

#include <algorithm>
#include <ringload/verify.hpp>
#include <set>
#include <utility>

#include "base/printable.hpp"
#include "catalog/named_catalog.hpp"
#include "delta/delta_job.hpp"
#include "delta/loaded_delta.hpp"
#include "device/backend.hpp"
#include "load/tensor_storage.hpp"
#include "runtime/engine.hpp"

namespace ringload::inline v0::detail {

namespace {

// Alignment of the memory of a changed tensor, the same as for a loaded tensor.
constexpr std::uint32_t tensor_alignment = 64;

class delta_application {
 public:
  delta_application(const delta_services& services, const apply_request& request)
      : services_(services),
        request_(request),
        delta_(services, request.delta),
        contents_(delta_.contents()) {}

  model run();

 private:
  void check_base_tensors() const;
  void list_tensors();
  void allocate();
  result<void> make_tensor(std::size_t i);
  void check_identity() const;
  model assemble();

  const delta_services& services_;
  const apply_request& request_;
  const loaded_delta delta_;
  const delta_contents& contents_;
  // The tensors of the base, with the same indices as tensors_. If the delta adds a tensor, its
  // element is an empty handle.
  std::vector<tensor> base_tensors_;
  std::vector<applied_tensor> tensors_;  // Tensors of the next version.
  // One arena for each changed tensor, in the order of tensors_.
  std::vector<taken_arena> new_arenas_;
};

void delta_application::check_base_tensors() const {
  std::set<std::string_view> names;
  for (const tensor& each_tensor : request_.base) {
    const std::string place = tensor_place(each_tensor.name());
    if (each_tensor.device().kind() != device_kind::host) {
      throw error(errc::device_unavailable, place,
                  "the tensor is on " + each_tensor.device().name() + ", expected the host");
    }
    if (!names.insert(each_tensor.name()).second) {
      throw error(errc::device_unavailable, place,
                  "the model has the tensor on several devices, expected one");
    }
    if (contents_.base_crcs.contains(each_tensor.name())) continue;
    throw error(errc::wrong_digest, delta_.place() + ": " + place,
                "the base of the delta has no such tensor");
  }
  if (const std::string* const missing = delta_.find_missing(names)) {
    throw error(errc::wrong_digest, delta_.place() + ": " + tensor_place(*missing),
                "the model lacks this tensor of the base of the delta");
  }
}

void delta_application::list_tensors() {
  for (const tensor& before : request_.base) {
    if (!contents_.result_crcs.contains(before.name())) continue;
    const auto next =
        delta_.find_change(before.name(), host_bytes(before), before.dtype(), before.shape());
    if (!next) throw to_error(next.error().in(delta_.place()));
    tensors_.push_back(*next);
    base_tensors_.push_back(before);
  }
  for (const auto& [name, change] : contents_.changes) {
    if (request_.base.find(name)) continue;
    applied_tensor& added = tensors_.emplace_back();
    added.name = name;
    added.change = &change;
    base_tensors_.emplace_back();
  }
}

void delta_application::allocate() {
  std::vector<arena_size> sizes;
  for (const applied_tensor& next : tensors_) {
    if (next.change == nullptr) continue;
    const std::uint64_t bytes = next.change->kind == tensor_change::form::whole
                                    ? delta_.bytes_of_whole(*next.change).size()
                                    : next.before.size();
    sizes.push_back({std::max<std::uint64_t>(bytes, 1), tensor_alignment});
    new_arenas_.push_back({nullptr, bytes});
  }
  auto memory = services_.loader_engine()->devices.backend_at(0).allocate_all(sizes);
  if (!memory) throw to_error(memory.error().in(delta_.place()));
  std::size_t next_arena = 0;
  for (applied_tensor& next : tensors_) {
    if (next.change == nullptr) continue;
    taken_arena& taken = new_arenas_[next_arena];
    taken.memory = std::move((*memory)[next_arena++]);
    next.after = {taken.memory->data(), static_cast<std::size_t>(taken.bytes)};
  }
}

result<void> delta_application::make_tensor(std::size_t i) {
  services_.check_cancelled();
  applied_tensor& next = tensors_[i];
  if (next.change != nullptr) return delta_.apply(next);
  next.crc = contents_.base_crcs.find(next.name)->second;
  if (!request_.options.check_unchanged) return {};
  return delta_.check_base(next.name, crc32c(next.before));
}

// Throws if the identity of the result differs from the identity that the delta file states. An
// identity is a digest of all names, dtypes, shapes and digests of a version.
void delta_application::check_identity() const {
  version_tensors next_version;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const applied_tensor& next = tensors_[i];
    version_tensor& described = next_version[std::string(next.name)];
    described.crc = next.crc;
    const tensor& before = base_tensors_[i];
    described.dtype = next.change != nullptr ? next.change->dtype : before.dtype();
    described.shape = next.change != nullptr ? next.change->shape
                                             : std::vector<std::uint64_t>(before.shape().begin(),
                                                                          before.shape().end());
  }
  const std::string identity = identity_of(next_version);
  if (identity == contents_.result_identity) return;
  throw error(errc::wrong_digest, delta_.place(),
              "the result is the version " + identity + ", but the delta is for " +
                  contents_.result_identity);
}

// Builds the new model. Unchanged tensors keep their catalog entry and their memory. Changed
// tensors get a catalog entry that refers to the delta file.
model delta_application::assemble() {
  catalog contents = request_.base.catalog();
  const auto delta_file = static_cast<std::uint32_t>(contents.files.size());
  contents.files.push_back(delta_.file().catalog().files.front());
  contents.metadata = contents_.metadata;
  contents.tensors.clear();
  std::vector<placement> placements;
  std::vector<taken_arena> arenas;
  const model_storage& base = *request_.base.storage();
  // Unchanged tensors stay in the arenas of the base. The new model lists each of these arenas
  // once, even if the arena has several tensors.
  std::vector<std::uint32_t> taken_as(base.arenas().size(), no_index);
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].change != nullptr) continue;
    const std::uint32_t index = *base.tensors().named().find(base_tensors_[i].name());
    contents.tensors.push_back(base.tensors().info(index));
    placement& place = placements.emplace_back(base.tensors().where(index));
    std::uint32_t& number = taken_as[place.destination];
    if (number == no_index) {
      number = static_cast<std::uint32_t>(arenas.size());
      const auto& stored = base.arenas()[place.destination];
      taken_arena& taken = arenas.emplace_back();
      taken.memory = std::shared_ptr<arena>(stored, &stored->memory());
      taken.bytes = stored->memory_bytes();
      taken.mapped = stored->mapped();
      taken.is_shared = true;
    }
    place.destination = number;
  }
  std::size_t next_arena = 0;
  for (const applied_tensor& next : tensors_) {
    if (next.change == nullptr) continue;
    tensor_info info = delta_.file().storage()->tensors().info(
        *delta_.file().storage()->tensors().named().find(next.change->values));
    info.name = next.name;
    // `info` describes the values in the delta file. Their digest is not the digest of the tensor.
    info.digest.clear();
    if (next.change->kind != tensor_change::form::whole) {
      const tensor_info& before = base.tensors().info(*base.tensors().named().find(next.name));
      info.type = before.type;
      info.original_shape = before.original_shape;
      info.attributes = before.attributes;
    }
    info.file = delta_file;
    info.dtype = next.change->dtype;
    info.shape = next.change->shape;
    info.bytes = next.after.size();
    if (next.change->kind != tensor_change::form::whole) info.encoding = "delta";
    contents.tensors.push_back(std::move(info));
    placement& place = placements.emplace_back();
    place.bytes = next.after.size();
    place.destination = static_cast<std::uint32_t>(arenas.size());
    arenas.push_back(std::move(new_arenas_[next_arena++]));
  }
  auto storage = make_model_storage(std::move(contents), std::move(placements), std::move(arenas),
                                    services_.loader_engine()->memory);
  storage->stats = delta_.file().stats();
  return model(std::move(storage));
}

model delta_application::run() {
  services_.require_host();
  check_base_tensors();
  list_tensors();
  allocate();
  auto status = for_each_index(tensors_.size(), [this](std::size_t i) { return make_tensor(i); });
  if (!status) throw to_error(status.error().in(delta_.place()));
  check_identity();
  return assemble();
}

}  // namespace

model apply_delta(const delta_services& services, const apply_request& request) {
  return delta_application(services, request).run();
}

void begin_apply(const engine_ptr& loader_engine, apply_request request,
                 std::unique_ptr<operation<model>> waiting) {
  run_delta_operation<model>(loader_engine, std::move(waiting),
                             [request = std::move(request)](const delta_services& services) {
                               return apply_delta(services, request);
                             });
}

}  // namespace ringload::inline v0::detail
