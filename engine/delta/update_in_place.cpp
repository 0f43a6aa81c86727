// SPDX-License-Identifier: Apache-2.0

// Applies a delta to the caller's memory, in place. One pass over the memory changes the bytes and
// computes their digests. After a failure, a second application of an XOR difference restores the
// old bytes, even if the base is wrong. Only tensors that the delta stores as a whole need a copy
// of their old bytes.

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <ringload/verify.hpp>
#include <set>
#include <utility>

#include "base/numeric/convert.hpp"
#include "base/printable.hpp"
#include "base/retry_allocation.hpp"
#include "delta/delta_job.hpp"
#include "delta/loaded_delta.hpp"
#include "request/match.hpp"

namespace ringload::inline v0::detail {

namespace {

using form = tensor_change::form;

class in_place_update {
 public:
  in_place_update(const delta_services& services, const update_request& request)
      : services_(services),
        into_(request.into),
        options_(request.options),
        delta_(services, request.delta),
        contents_(delta_.contents()) {}

  update_result run();

 private:
  void check_versions() const;
  void check_destinations();
  void save_whole_tensors();
  result<void> change(std::size_t i);
  void apply_all();
  // Restores the old bytes. Returns the first failure.
  result<void> restore() noexcept;

  const delta_services& services_;
  const std::vector<destination>& into_;
  const apply_options options_;
  const device_bytes memory_ = services_.memory();
  const loaded_delta delta_;
  const delta_contents& contents_;
  std::vector<applied_tensor> tensors_;  // Has the same indices as into_.
  // Copies of the old bytes. Has the same indices as into_. An entry is empty unless the delta
  // stores the tensor as a whole.
  std::vector<std::vector<std::byte>> old_bytes_;
};

// Fails if the delta adds or removes a tensor.
void in_place_update::check_versions() const {
  for (const auto& [name, crc] : contents_.result_crcs) {
    if (contents_.base_crcs.contains(name)) continue;
    throw error(errc::unsupported_feature, delta_.place() + ": " + tensor_place(name),
                "the delta adds the tensor, which update_async cannot do");
  }
  for (const auto& [name, crc] : contents_.base_crcs) {
    if (contents_.result_crcs.contains(name)) continue;
    throw error(errc::unsupported_feature, delta_.place() + ": " + tensor_place(name),
                "the delta removes the tensor, which update_async cannot do");
  }
}

// Returns the memory of each destination. Fails unless every destination is dense, row-major and in
// the memory of the device, and no two destinations overlap.
result<std::vector<std::span<std::byte>>> dense_memory_of(const std::vector<destination>& into,
                                                          const device& on) {
  catalog described;
  for (const destination& target : into) {
    tensor_info& info = described.tensors.emplace_back();
    info.name = target.name;
    info.dtype = target.dtype;
    info.shape = target.shape;
  }
  const auto matched = match(described, into, fill_options(), &fill_converts);
  if (!matched) return matched.error();
  std::vector<std::span<std::byte>> memory(into.size());
  for (const matched_tensor& pair : matched->tensors) {
    const destination& target = into[pair.destination];
    const bool is_packed = bits(target.dtype) % 8 != 0;
    std::uint64_t bytes = is_packed ? 1 : bits(target.dtype) / 8;
    bool is_dense = target.device == on;
    for (std::size_t d = pair.shape.size(); d-- > 0;) {
      const bool is_adjacent = pair.stride_bytes[d] == static_cast<std::int64_t>(bytes);
      is_dense = is_dense && (pair.shape[d] <= 1 || is_adjacent);
      bytes *= pair.shape[d];
    }
    if (!is_dense && bytes > 0) {
      return fault{
          errc::invalid_destination, "destination '" + printable(target.name) + "'",
          "it is not dense and row-major in the memory of the loader's device, " + on.name()};
    }
    memory[pair.destination] = {static_cast<std::byte*>(target.data),
                                static_cast<std::size_t>(bytes)};
  }
  return memory;
}

void in_place_update::check_destinations() {
  std::set<std::string_view> names;
  for (const destination& target : into_) {
    if (names.insert(target.name).second) continue;
    throw error(errc::duplicate_tensor, "destination '" + printable(target.name) + "'",
                "there are two destinations of this name");
  }
  const auto memory = dense_memory_of(into_, memory_.on());
  if (!memory) throw to_error(memory.error());
  for (std::size_t i = 0; i < into_.size(); ++i) {
    const destination& target = into_[i];
    if (!contents_.is_indexed && !contents_.base_crcs.contains(target.name)) {
      throw error(errc::wrong_digest, delta_.place() + ": " + tensor_place(target.name),
                  "the base of the delta has no such tensor");
    }
    auto next = delta_.find_change(target.name, (*memory)[i], target.dtype, target.shape);
    if (!next) throw to_error(next.error().in(delta_.place()));
    next->after = (*memory)[i];
    if (target.dtype != next->dtype || target.shape != next->shape) {
      throw error(errc::unsupported_feature, delta_.place() + ": " + tensor_place(target.name),
                  "the delta changes the tensor's dtype or shape, which update_async cannot do");
    }
    tensors_.push_back(*next);
  }
  if (const std::string* const missing = delta_.find_missing(names)) {
    throw error(errc::no_such_tensor, delta_.place() + ": " + tensor_place(*missing),
                "the tensor of the base has no destination");
  }
}

void in_place_update::save_whole_tensors() {
  old_bytes_.resize(tensors_.size());
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const applied_tensor& next = tensors_[i];
    if (next.change == nullptr || next.change->kind != form::whole) continue;
    if (delta_.bytes_of_whole(*next.change).size() != next.after.size()) {
      throw error(errc::wrong_shape, delta_.place() + ": " + tensor_place(next.name),
                  "the delta changes its size");
    }
    old_bytes_[i].resize(next.before.size());
    if (auto copied = memory_.read(next.before, old_bytes_[i]); !copied)
      throw to_error(copied.error().in(tensor_place(next.name)));
  }
}

result<void> in_place_update::change(std::size_t i) {
  services_.check_cancelled();
  const applied_tensor& tensor = tensors_[i];
  if (tensor.change == nullptr) {
    if (!options_.check_unchanged || contents_.is_indexed) return {};
    const auto crc = memory_.crc32c_of(tensor.before);
    return crc ? delta_.check_base(tensor.name, *crc) : crc.error();
  }
  return delta_.apply(tensors_[i]);
}

result<void> in_place_update::restore() noexcept {
  result<void> status;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const applied_tensor& next = tensors_[i];
    if (next.has_mixed_versions && status) {
      status = retry_allocation([&] {
        return fault{errc::not_restored, tensor_place(next.name), "it has bytes of both versions"};
      });
    }
    if (!next.is_changed) continue;
    auto restored = next.change->kind != form::whole ? delta_.undo(next) : retry_allocation([&] {
      return memory_.write(old_bytes_[i], next.after);
    });
    if (restored || !status) continue;
    status = retry_allocation([&] { return restored.error().in(tensor_place(next.name)); });
  }
  return status;
}

void in_place_update::apply_all() {
  std::exception_ptr failure;
  try {
    const auto status =
        for_each_index(tensors_.size(), [this](std::size_t i) { return change(i); });
    if (!status) throw to_error(status.error().in(delta_.place()));
    return services_.check_cancelled();
  } catch (...) {
    failure = std::current_exception();
  }
  // Restores the old bytes, even if there is no memory for the text of an error.
  const result<void> restored = restore();
  if (restored) std::rethrow_exception(failure);
  throw retry_allocation(
      [&] { return error(errc::not_restored, delta_.place(), message_of(restored.error())); });
}

update_result in_place_update::run() {
  const auto start_time = std::chrono::steady_clock::now();
  check_versions();
  check_destinations();
  save_whole_tensors();
  apply_all();
  update_result out;
  for (const applied_tensor& next : tensors_) {
    if (next.change == nullptr) continue;
    ++out.tensors_changed;
    out.bytes_changed += next.after.size();
    out.elements_changed += next.change->kind == form::whole
                                ? next.after.size() / delta_width(next.change->dtype)
                                : delta_.view_of(next).changed();
  }
  out.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start_time).count();
  return out;
}

}  // namespace

void begin_update(const engine_ptr& loader_engine, update_request request,
                  std::unique_ptr<operation<update_result>> waiting) {
  run_delta_operation<update_result>(
      loader_engine, std::move(waiting),
      [request = std::move(request)](const delta_services& services) {
        return in_place_update(services, request).run();
      });
}

}  // namespace ringload::inline v0::detail
