// SPDX-License-Identifier: Apache-2.0

// Makes a delta file from two versions of a checkpoint. Loads groups of tensors of both versions,
// compares the versions, and writes the differences.

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <ringload/save.hpp>
#include <ringload/verify.hpp>
#include <ringload/writer.hpp>
#include <span>
#include <string>
#include <system_error>
#include <unordered_set>

#include "base/printable.hpp"
#include "delta/delta_code.hpp"
#include "delta/delta_contents.hpp"
#include "delta/delta_job.hpp"
#include "delta/indexed_writer.hpp"
#include "formats/codec/zstd_frame.hpp"
#include "formats/zt/zt_dtype.hpp"
#include "request/unreadable.hpp"

namespace ringload::inline v0::detail {

namespace {

using form = tensor_change::form;

// Number of bytes of a tensor that are compressed in order to compare two encodings.
constexpr std::size_t sample_bytes = std::size_t{1} << 20;

version_tensor describe(const tensor& source) {
  return {source.dtype(),
          {source.shape().begin(), source.shape().end()},
          crc32c(tensor_bytes_of(source))};
}

// Throws if a metadata key of the next version is reserved for deltas. The delta stores the
// metadata of the next version beside its own keys.
void require_no_delta_keys(const checkpoint& next) {
  for (const auto& [key, value] : next.catalog().metadata) {
    if (!key.starts_with(delta_key_prefix)) continue;
    throw error(errc::unsupported_feature, printable_path(next.catalog().files.front().path),
                "its metadata key '" + printable(key) + "' is reserved for deltas");
  }
}

struct comparison {
  tensor before;  // Empty if the base version lacks the tensor.
  tensor after;
  bool is_changed = true;
  form kind = form::whole;
  std::uint64_t elements_changed = 0;
  sparse_change change;  // `gaps` is empty for a dense difference.
  packed_tensor packed;  // Used only in a delta with an index.
};

// Compresses at most the first MiB of `bytes`. Returns the compressed size.
result<std::size_t> sample_size(std::span<const std::byte> bytes, int level) {
  const auto sample = bytes.first(std::min(bytes.size(), sample_bytes));
  if (level == 0) return sample.size();
  auto encoder = zstd_frame_encoder::make(level);
  if (!encoder) return encoder.error();
  std::vector<std::byte> frame;
  if (auto encoded = (*encoder)->encode(sample, frame); !encoded) return encoded.error();
  return frame.size();
}

class delta_maker {
 public:
  delta_maker(const delta_services& services, const delta_request& request)
      : services_(services),
        request_(request),
        verify_(embedded_digests::if_present, request.options.sha256) {}

  delta_result run();

 private:
  using names = std::vector<std::string>;

  // Divides the tensors into groups. Both versions of a group fit into `window_bytes`, unless a
  // group is a single large tensor.
  std::vector<names> divide(const std::vector<const tensor_info*>& tensors) const;
  // Compares the tensors of a group in parallel, then calls `write(compared)` for each tensor.
  template <class Write>
  void add_group(const names& group, const Write& write);
  bool has_equal_form(const tensor_info& after) const;
  void check_whole_tensors() const;
  result<void> compare(comparison& compared) const;
  result<void> pack(comparison& compared) const;
  result<void> choose_dense_form(comparison& compared, std::uint32_t width) const;
  void write(writer& out, const comparison& compared);
  void write_change(writer& out, const comparison& compared);
  void write_packed(indexed_writer& out, comparison& compared);
  void add_removed(const names& group);
  void write_zt(const std::vector<names>& groups);
  void write_indexed(const std::vector<names>& groups);
  template <class Start>
  void wait_for_step(const Start& start) const {
    services_.cancellation()->wait_for<std::uint64_t>(start);
  }

  const delta_services& services_;
  const delta_request& request_;
  const verification verify_;
  checkpoint base_;
  checkpoint next_;
  version_tensors base_version_;
  version_tensors next_version_;
  delta_result result_;
};

void check_level(const delta_request& request) {
  const int level = request.options.zstd_level;
  if (level >= 0 && level <= zstd_level_max) return;
  throw error(errc::invalid_saving, printable_path(request.path),
              "zstd_level is " + std::to_string(level) + ", expected 1 to " +
                  grouped(zstd_level_max) + ", or 0 for no compression");
}

std::vector<delta_maker::names> delta_maker::divide(
    const std::vector<const tensor_info*>& tensors) const {
  std::vector<names> groups;
  std::uint64_t bytes = 0;
  for (const tensor_info* const info : tensors) {
    const tensor_info* const before = base_.find(info->name);
    const std::uint64_t added = info->bytes + (before != nullptr ? before->bytes : 0);
    if (groups.empty() || (bytes > 0 && bytes + added > request_.options.window_bytes)) {
      groups.emplace_back();
      bytes = 0;
    }
    groups.back().push_back(info->name);
    bytes += added;
  }
  return groups;
}

// Returns true if both versions have the tensor, and differ only in its elements.
bool delta_maker::has_equal_form(const tensor_info& after) const {
  const tensor_info* const before = base_.find(after.name);
  return before != nullptr && before->dtype == after.dtype && before->shape == after.shape &&
         before->type == after.type && before->original_shape == after.original_shape &&
         before->attributes == after.attributes;
}

// Throws if a tensor must be stored whole, but .zt cannot store its elements.
void delta_maker::check_whole_tensors() const {
  for (const tensor_info& info : next_) {
    if (has_equal_form(info)) continue;
    // The writer stores a type that follows from the dtype, such as f8_e4m3fn. Other types, such as
    // the types of quantised blocks, would be lost.
    const auto element = zt_element_of(info.dtype);
    if (element && (info.type.empty() || element->type == info.type)) continue;
    const std::string type = info.type.empty() ? std::string(name(info.dtype)) : info.type;
    throw error(errc::unsupported_feature, tensor_place(next_.catalog(), info),
                "a delta cannot store a whole tensor of the type '" + printable(type) + "'");
  }
}

// Compresses the difference for a delta with an index.
result<void> delta_maker::pack(comparison& compared) const {
  const std::string place = tensor_place(compared.after.name());
  if (!has_equal_form(*next_.find(compared.after.name()))) {
    return fault{errc::unsupported_feature, place,
                 compared.before
                     ? "its dtype or shape changes, which a delta with an index cannot describe"
                     : "the base lacks the tensor, and a delta with an index cannot add a tensor"};
  }
  const auto before = tensor_bytes_of(compared.before);
  const auto after = tensor_bytes_of(compared.after);
  auto packed =
      pack_difference(*request_.options.indexed, request_.options.zstd_level, before, after);
  if (!packed) return packed.error().in(place);
  compared.packed = std::move(*packed);
  if (compared.packed.is_changed) {
    compared.elements_changed = count_changed(before, after, delta_width(compared.after.dtype()));
  }
  return {};
}

result<void> delta_maker::compare(comparison& compared) const {
  if (!has_equal_form(*next_.find(compared.after.name()))) return {};
  const tensor& before = compared.before;
  const tensor& after = compared.after;
  const std::uint32_t width = delta_width(after.dtype());
  const std::uint64_t changed =
      count_changed(tensor_bytes_of(before), tensor_bytes_of(after), width);
  compared.elements_changed = changed;
  compared.is_changed = changed > 0;
  if (changed == 0) return {};
  // A changed element takes about width + 1 bytes in the sparse encoding. If the size of the sparse
  // encoding is at most a quarter of the tensor's size, the sparse encoding is chosen without a
  // sample. The other encodings contain all elements.
  if (changed * (width + 1) <= after.size_bytes() / 4) {
    compared.kind = form::sparse;
    compared.change =
        encode_sparse(tensor_bytes_of(before), tensor_bytes_of(after), width, changed);
    return {};
  }
  return choose_dense_form(compared, width);
}

// Compresses a sample of the dense difference and a sample of the whole tensor, and chooses the
// encoding with the smaller sample.
result<void> delta_maker::choose_dense_form(comparison& compared, std::uint32_t width) const {
  const tensor& after = compared.after;
  auto planes = encode_dense(tensor_bytes_of(compared.before), tensor_bytes_of(after), width);
  const int level = request_.options.zstd_level;
  // The sample is encoded as a small tensor of its own. The beginning of `planes` cannot be used,
  // because the beginning contains only byte 0 of each element.
  const std::size_t sample = std::min<std::size_t>(after.size_bytes(), sample_bytes);
  const auto change = sample_size(encode_dense(tensor_bytes_of(compared.before).first(sample),
                                               tensor_bytes_of(after).first(sample), width),
                                  level);
  if (!change) return change.error();
  const auto whole = sample_size(tensor_bytes_of(after).first(sample), level);
  if (!whole) return whole.error();
  // A tensor with a logical type, such as a quantised type of GGUF, or with elements of less than 8
  // bits cannot be stored whole. A difference keeps the type of the base version.
  const tensor_info* const info = next_.find(after.name());
  if (*whole <= *change && info->type.empty() && zt_element_of(info->dtype)) return {};
  compared.kind = form::dense;
  compared.change.planes = std::move(planes);
  return {};
}

void delta_maker::write(writer& out, const comparison& compared) {
  const tensor& after = compared.after;
  result_.elements += after.size_bytes() / delta_width(after.dtype());
  if (!compared.is_changed) {
    ++result_.tensors_unchanged;
    return;
  }
  if (compared.kind != form::whole) {
    result_.elements_changed += compared.elements_changed;
    ++(compared.kind == form::sparse ? result_.tensors_sparse : result_.tensors_dense);
    return write_change(out, compared);
  }
  result_.elements_changed += after.size_bytes() / delta_width(after.dtype());
  ++result_.tensors_whole;
  object_options options;
  options.zstd_level = request_.options.zstd_level;
  options.attributes = next_.find(after.name())->attributes;
  wait_for_step([&](auto&& handler) { out.add_async(after, options, std::move(handler)); });
}

void delta_maker::write_change(writer& out, const comparison& compared) {
  const tensor& after = compared.after;
  const bool is_sparse = compared.kind == form::sparse;
  object_info object;
  object.name = after.name();
  object.layout = is_sparse ? sparse_layout : dense_layout;
  object.shape.assign(after.shape().begin(), after.shape().end());
  object.attributes = {{std::string(dtype_key), attribute(name(after.dtype()))}};
  wait_for_step([&](auto&& handler) { out.declare_async(object, std::move(handler)); });
  object_options options;
  options.zstd_level = request_.options.zstd_level;
  const auto add = [&](std::string_view part, const std::vector<std::byte>& bytes) {
    const tensor_ref view(std::string(part), bytes.data(), dtype::u8, {bytes.size()});
    wait_for_step([&](auto&& handler) {
      out.add_part_async(object.name, view, options, std::move(handler));
    });
  };
  if (is_sparse) add(gaps_part, compared.change.gaps);
  add(planes_part, compared.change.planes);
}

void delta_maker::write_packed(indexed_writer& out, comparison& compared) {
  const tensor& after = compared.after;
  result_.elements += after.size_bytes() / delta_width(after.dtype());
  result_.elements_changed += compared.elements_changed;
  const bool is_overwrite = request_.options.indexed->encoding == delta_encoding::overwrite;
  ++(!compared.packed.is_changed ? result_.tensors_unchanged
     : is_overwrite              ? result_.tensors_sparse
                                 : result_.tensors_dense);
  if (!compared.packed.is_changed) return;
  out.add(std::string(after.name()), std::move(compared.packed));
}

template <class Write>
void delta_maker::add_group(const names& group, const Write& write) {
  services_.check_cancelled();
  names in_base;
  for (const std::string& name : group) {
    if (base_.contains(name)) in_base.push_back(name);
  }
  const model before = services_.load(base_, in_base, verify_);
  const model after = services_.load(next_, group, verify_);
  std::vector<comparison> compared;
  for (const tensor& each_tensor : after) {
    comparison& next = compared.emplace_back();
    next.after = each_tensor;
    next.before = before.find(each_tensor.name());
  }
  std::vector<version_tensor> old_tensors(compared.size());
  std::vector<version_tensor> new_tensors(compared.size());
  auto status = for_each_index(compared.size(), [&](std::size_t i) -> result<void> {
    if (request_.options.indexed) return pack(compared[i]);
    new_tensors[i] = describe(compared[i].after);
    if (compared[i].before) old_tensors[i] = describe(compared[i].before);
    return compare(compared[i]);
  });
  if (!status) throw to_error(status.error());
  for (std::size_t i = 0; i < compared.size(); ++i) {
    const std::string name(compared[i].after.name());
    if (compared[i].before) base_version_.emplace(name, std::move(old_tensors[i]));
    next_version_.emplace(name, std::move(new_tensors[i]));
    write(compared[i]);
    compared[i] = {};  // Frees the memory of this comparison.
  }
}

// Records the digests of tensors that only the base version has.
void delta_maker::add_removed(const names& group) {
  services_.check_cancelled();
  const model before = services_.load(base_, group, verify_);
  for (const tensor& removed : before) {
    base_version_.emplace(removed.name(), describe(removed));
    ++result_.tensors_removed;
  }
}

void delta_maker::write_zt(const std::vector<names>& groups) {
  check_whole_tensors();
  writer_options settings;
  settings.replace = request_.options.replace;
  settings.sync = request_.options.sync;
  writer out(request_.path, settings);
  for (const names& group : groups) {
    add_group(group, [&](const comparison& compared) { write(out, compared); });
  }
  std::vector<const tensor_info*> removed;
  for (const tensor_info& info : base_) {
    if (!next_.contains(info.name)) removed.push_back(&info);
  }
  for (const names& group : divide(removed)) add_removed(group);
  attributes described = describe_versions(base_version_, next_version_);
  const auto& metadata = next_.catalog().metadata;
  described.insert(described.end(), metadata.begin(), metadata.end());
  // Shards can have different values for a key. The first value is stored, as by a conversion.
  std::unordered_set<std::string> stored_keys;
  for (const auto& [key, value] : described) {
    if (!stored_keys.insert(key).second) continue;
    wait_for_step([&](auto&& handler) { out.set_attribute_async(key, value, std::move(handler)); });
  }
  const auto written = services_.cancellation()->wait_for<write_result>(
      [&](auto&& handler) { out.finish_async(std::move(handler)); });
  result_.bytes = written.bytes;
}

void delta_maker::write_indexed(const std::vector<names>& groups) {
  for (const tensor_info& info : base_) {
    if (next_.contains(info.name)) continue;
    throw error(errc::unsupported_feature, tensor_place(info.name),
                "the next version lacks the tensor, and a delta with an index cannot remove it");
  }
  indexed_writer out(services_, request_);
  for (const names& group : groups) {
    add_group(group, [&](comparison& compared) { write_packed(out, compared); });
  }
  result_.bytes = out.finish();
}

delta_result delta_maker::run() {
  const auto start_time = std::chrono::steady_clock::now();
  check_level(request_);
  base_ = services_.open(request_.base);
  next_ = services_.open(request_.next);
  for (const checkpoint& version : {base_, next_}) {
    refuse_replacing(version, request_.path);
    if (const auto problem = unreadable_chosen(version.catalog(), select().requests()))
      throw to_error(*problem);
  }
  require_no_delta_keys(next_);
  const auto composites = check_equal_composites(base_.catalog(), next_.catalog());
  if (!composites) throw to_error(composites.error());
  std::vector<const tensor_info*> tensors;
  for (const tensor_info& info : next_) tensors.push_back(&info);
  const std::vector<names> groups = divide(tensors);
  request_.options.indexed ? write_indexed(groups) : write_zt(groups);
  result_.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start_time).count();
  return result_;
}

}  // namespace

void begin_save_delta(const engine_ptr& loader_engine, delta_request request,
                      std::unique_ptr<operation<delta_result>> waiting) {
  run_delta_operation<delta_result>(loader_engine, std::move(waiting),
                                    [request = std::move(request)](const delta_services& services) {
                                      return delta_maker(services, request).run();
                                    });
}

}  // namespace ringload::inline v0::detail
