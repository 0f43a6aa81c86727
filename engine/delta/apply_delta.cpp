// SPDX-License-Identifier: Apache-2.0

// Applies a delta file to a loaded model. The result is a new model, which shares the memory of
// unchanged tensors with the loaded model.

#include <algorithm>
#include <ringload/verify.hpp>
#include <set>
#include <utility>

#include "base/checked.hpp"
#include "base/parse_number.hpp"
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

// Maximum number of arenas that the result shares with its base. If the number would be larger, all
// unchanged tensors are copied to a new arena. Not used with allocation::per_tensor.
constexpr std::size_t shared_arenas_max = 64;

class delta_application {
 public:
  delta_application(const delta_services& services, const apply_request& request)
      : services_(services),
        request_(request),
        delta_(services, request.delta),
        contents_(delta_.contents()) {}

  model run();
  // Throws if the delta has an index and is for another position in the chain.
  void check_link(const expected_link& link) const;
  // Returns the version of the result. Empty unless the delta has an index.
  std::string identity() const { return contents_.is_indexed ? contents_.result_identity : ""; }

 private:
  void check_base_tensors() const;
  void list_tensors();
  void choose_moved();
  void allocate();
  std::size_t bytes_after(const applied_tensor& tensor) const {
    const bool is_whole =
        tensor.change != nullptr && tensor.change->kind == tensor_change::form::whole;
    return is_whole ? delta_.bytes_of_whole(*tensor.change).size() : tensor.before.size();
  }
  bool has_new_memory(std::size_t i) const { return tensors_[i].change != nullptr || is_moved_[i]; }
  result<void> make_tensor(std::size_t i);
  void check_identity() const;
  model assemble();

  const delta_services& services_;
  const apply_request& request_;
  const device_bytes memory_ = services_.memory();
  const loaded_delta delta_;
  const delta_contents& contents_;
  // The tensors of the base, with the same indices as tensors_. If the delta adds a tensor, its
  // element is an empty handle.
  std::vector<tensor> base_tensors_;
  std::vector<applied_tensor> tensors_;  // Tensors of the next version.
  // True if the unchanged tensor is copied to new memory. Has the same indices as tensors_.
  std::vector<bool> is_moved_;
  std::vector<taken_arena> new_arenas_;
  // The index in new_arenas_ and the offset of each tensor with new memory. Has the same indices as
  // tensors_.
  std::vector<std::pair<std::size_t, std::uint64_t>> places_;
};

void delta_application::check_base_tensors() const {
  if (auto full = check_full_version(request_.base.catalog(), "base"); !full) {
    throw to_error(full.error());
  }
  std::set<std::string_view> names;
  for (const tensor& each_tensor : request_.base) {
    const std::string place = tensor_place(each_tensor.name());
    if (each_tensor.device() != memory_.on()) {
      throw error(errc::device_unavailable, place,
                  "the tensor is on " + each_tensor.device().name() +
                      ", but the loader's device is " + memory_.on().name());
    }
    if (!names.insert(each_tensor.name()).second) {
      throw error(errc::device_unavailable, place,
                  "the model has the tensor on several devices, expected one");
    }
    if (contents_.is_indexed || contents_.base_crcs.contains(each_tensor.name())) continue;
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
    if (!contents_.is_indexed && !contents_.result_crcs.contains(before.name())) continue;
    const auto next =
        delta_.find_change(before.name(), tensor_bytes_of(before), before.dtype(), before.shape());
    if (!next) throw to_error(next.error().in(delta_.place()));
    tensors_.push_back(*next);
    base_tensors_.push_back(before);
  }
  for (const auto& [name, change] : contents_.changes) {
    if (request_.base.find(name)) continue;
    applied_tensor& added = tensors_.emplace_back();
    added.name = name;
    added.change = &change;
    added.dtype = change.dtype;
    added.shape = change.shape;
    base_tensors_.emplace_back();
  }
}

// Chooses the unchanged tensors that are copied, so that the result has few arenas, and so that at
// least half of each arena is in use.
void delta_application::choose_moved() {
  is_moved_.assign(tensors_.size(), false);
  if (request_.options.allocation == allocation::per_tensor) return;
  const model_storage& base = *request_.base.storage();
  std::vector<std::uint64_t> used(base.arenas().size());
  std::vector<std::size_t> arena_of(tensors_.size());
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].change != nullptr) continue;
    const std::uint32_t index = *base.tensors().named().find(tensors_[i].name);
    arena_of[i] = base.tensors().where(index).destination;
    used[arena_of[i]] += tensors_[i].before.size();
  }
  const auto is_kept = [&](std::size_t arena_index) {
    if (used[arena_index] == 0) return false;  // The arena may be null.
    const std::uint64_t bytes = base.arenas()[arena_index]->memory_bytes();
    return used[arena_index] >= bytes - bytes / 2;
  };
  std::size_t kept_count = 0;
  for (std::size_t i = 0; i < used.size(); ++i) kept_count += is_kept(i) ? 1 : 0;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].change != nullptr) continue;
    is_moved_[i] = kept_count > shared_arenas_max || !is_kept(arena_of[i]);
  }
}

void delta_application::allocate() {
  const bool is_separate = request_.options.allocation == allocation::per_tensor;
  const std::uint64_t alignment =
      std::max<std::uint64_t>(tensor_alignment, memory_.owner().rules().tensor_alignment);
  places_.resize(tensors_.size());
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const applied_tensor& next = tensors_[i];
    if (!has_new_memory(i)) continue;
    if (is_separate || new_arenas_.empty()) new_arenas_.emplace_back();
    taken_arena& taken = new_arenas_.back();
    places_[i] = {new_arenas_.size() - 1, round_up(taken.bytes, alignment)};
    taken.bytes = places_[i].second + bytes_after(next);
  }
  std::vector<arena_size> sizes;
  for (const taken_arena& taken : new_arenas_) {
    sizes.push_back({std::max<std::uint64_t>(taken.bytes, 1), alignment});
  }
  auto memory = memory_.owner().allocate_all(sizes);
  if (!memory) throw to_error(memory.error().in(delta_.place()));
  for (std::size_t i = 0; i < new_arenas_.size(); ++i) {
    new_arenas_[i].memory = std::move((*memory)[i]);
    new_arenas_[i].on = memory_.on();
  }
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (!has_new_memory(i)) continue;
    applied_tensor& next = tensors_[i];
    const auto& [arena_index, offset] = places_[i];
    next.after = {new_arenas_[arena_index].memory->data() + offset, bytes_after(next)};
  }
}

result<void> delta_application::make_tensor(std::size_t i) {
  services_.check_cancelled();
  applied_tensor& next = tensors_[i];
  if (next.change != nullptr) return delta_.apply(next);
  if (is_moved_[i]) {
    if (auto copied = memory_.copy(next.before, next.after); !copied) return copied;
  }
  if (contents_.is_indexed) return {};
  next.crc = contents_.base_crcs.find(next.name)->second;
  if (!request_.options.check_unchanged) return {};
  const auto crc = memory_.crc32c_of(next.before);
  return crc ? delta_.check_base(next.name, *crc) : crc.error();
}

// Throws if the identity of the result differs from the identity that the delta file states. An
// identity is a digest of all names, dtypes, shapes and digests of a version.
void delta_application::check_identity() const {
  if (contents_.is_indexed) return;  // The publisher chose the identity, so it is no digest.
  version_tensors next_version;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const applied_tensor& next = tensors_[i];
    version_tensor& described = next_version[std::string(next.name)];
    described.crc = next.crc;
    described.dtype = next.dtype;
    described.shape = next.shape;
  }
  const std::string identity = identity_of(next_version);
  if (identity == contents_.result_identity) return;
  throw error(errc::wrong_digest, delta_.place(),
              "the result is the version " + identity + ", but the delta is for " +
                  contents_.result_identity);
}

// Removes the files to which no tensor or object refers. Otherwise the catalog would list the files
// of all earlier deltas.
void drop_unused_files(catalog& contents) {
  const auto for_each_reference = [&](const auto& visit) {
    for (tensor_info& info : contents.tensors) visit(info.file);
    for (composite_info& object : contents.composites) visit(object.file);
    for (unreadable_info& object : contents.unreadable) visit(object.file);
  };
  std::vector<std::uint32_t> numbers(contents.files.size(), no_index);
  for_each_reference([&](std::uint32_t file) { numbers[file] = 0; });
  std::vector<file_info> used;
  for (std::size_t file = 0; file < numbers.size(); ++file) {
    if (numbers[file] == no_index) continue;
    numbers[file] = static_cast<std::uint32_t>(used.size());
    used.push_back(std::move(contents.files[file]));
  }
  contents.files = std::move(used);
  for_each_reference([&](std::uint32_t& file) { file = numbers[file]; });
}

// Builds the new model. Unchanged tensors keep their catalog entry, and their memory unless they
// are moved. Changed tensors get a catalog entry that refers to the delta file.
model delta_application::assemble() {
  catalog contents = request_.base.catalog();
  const auto delta_file = static_cast<std::uint32_t>(contents.files.size());
  const auto& delta_files = delta_.file().catalog().files;
  contents.files.insert(contents.files.end(), delta_files.begin(), delta_files.end());
  if (!contents_.is_indexed) contents.metadata = contents_.metadata;
  contents.tensors.clear();
  std::vector<placement> placements;
  std::vector<taken_arena> arenas = std::move(new_arenas_);
  const model_storage& base = *request_.base.storage();
  // Unchanged tensors stay in the arenas of the base. The new model lists each of these arenas
  // once, even if the arena has several tensors.
  std::vector<std::uint32_t> taken_as(base.arenas().size(), no_index);
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].change != nullptr) continue;
    const std::uint32_t index = *base.tensors().named().find(base_tensors_[i].name());
    contents.tensors.push_back(base.tensors().info(index));
    placement& place = placements.emplace_back(base.tensors().where(index));
    if (is_moved_[i]) {
      place.destination = static_cast<std::uint32_t>(places_[i].first);
      place.destination_offset = places_[i].second;
      continue;
    }
    std::uint32_t& number = taken_as[place.destination];
    if (number == no_index) {
      number = static_cast<std::uint32_t>(arenas.size());
      const auto& stored = base.arenas()[place.destination];
      taken_arena& taken = arenas.emplace_back();
      taken.memory = stored->shared_memory();
      taken.bytes = stored->memory_bytes();
      taken.mapped = stored->mapped();
      taken.on = stored->on();
      taken.is_shared = true;
    }
    place.destination = number;
  }
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const applied_tensor& next = tensors_[i];
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
    info.file += delta_file;
    info.dtype = next.dtype;
    info.shape = next.shape;
    info.bytes = next.after.size();
    if (next.change->kind != tensor_change::form::whole) info.encoding = "delta";
    contents.tensors.push_back(std::move(info));
    placement& place = placements.emplace_back();
    place.bytes = next.after.size();
    place.destination = static_cast<std::uint32_t>(places_[i].first);
    place.destination_offset = places_[i].second;
  }
  drop_unused_files(contents);
  auto storage = make_model_storage(std::move(contents), std::move(placements), std::move(arenas),
                                    services_.loader_engine()->memory);
  storage->stats = delta_.file().stats();
  storage->delta_identity = identity();
  return model(std::move(storage));
}

void delta_application::check_link(const expected_link& link) const {
  if (!contents_.is_indexed) return;
  const auto check = [&](std::string_view key, const std::string& stated, bool is_expected,
                         const std::string& expected) {
    if (is_expected) return;
    throw error(errc::malformed_index, delta_.place(),
                "the " + std::string(key) + " of the delta is '" + printable(stated) +
                    "', expected '" + printable(expected) + "'");
  };
  const std::string& base = contents_.base_identity;
  const std::string& next = contents_.result_identity;
  if (link.version) {
    const auto number = [](const std::string& text) { return parse_number<std::uint64_t>(text); };
    check("version", next, number(next) == link.version, std::to_string(*link.version));
    const std::uint64_t before = *link.version - 1;
    check("base_version", base, number(base) == before, std::to_string(before));
  }
  const bool is_known = !link.base_identity.empty();
  check("base_version", base, !is_known || base == link.base_identity, link.base_identity);
}

model delta_application::run() {
  check_base_tensors();
  list_tensors();
  choose_moved();
  allocate();
  auto status = for_each_index(tensors_.size(), [this](std::size_t i) { return make_tensor(i); });
  if (!status) throw to_error(status.error().in(delta_.place()));
  check_identity();
  return assemble();
}

}  // namespace

applied_delta apply_delta(const delta_services& services, const apply_request& request,
                          const expected_link& link) {
  delta_application application(services, request);
  application.check_link(link);
  model next = application.run();
  return {std::move(next), application.identity()};
}

void begin_apply(const engine_ptr& loader_engine, apply_request request,
                 std::unique_ptr<operation<model>> waiting) {
  if (!request.base.storage()) {
    // Releases the source before the completion.
    {
      const apply_request released(std::move(request));
    }
    const fault empty_handle(errc::no_such_tensor, "base",
                             "the model handle is empty, expected a loaded model");
    waiting->fail(empty_handle);
    return;
  }
  run_delta_operation<model>(loader_engine, std::move(waiting),
                             [request = std::move(request)](const delta_services& services) {
                               // `delta_identity` is empty unless the last applied delta had an
                               // index.
                               const expected_link link = {request.base.storage()->delta_identity,
                                                           std::nullopt};
                               return apply_delta(services, request, link).next;
                             });
}

}  // namespace ringload::inline v0::detail
