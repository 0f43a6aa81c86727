// SPDX-License-Identifier: Apache-2.0

#include "save/save_setup.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/find_duplicates.hpp"
#include "base/io_unit.hpp"
#include "base/numeric/convert.hpp"
#include "base/printable.hpp"
#include "catalog/store_folder.hpp"
#include "save/safetensors_layout.hpp"
#include "save/zt_layout.hpp"

namespace ringload::inline v0::detail {

namespace {

namespace fs = std::filesystem;

// Returns the unit of direct writes, at least one page. No page of a file may be written both
// directly and through the page cache.
std::uint64_t direct_unit() noexcept {
  return std::max<std::uint64_t>(block_bytes, static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)));
}

bool is_zt(const save_request& request) {
  if (request.options.format != save_format::by_name)
    return request.options.format == save_format::zt;
  return request.path.ends_with(".zt");
}

// Chooses between a file and a folder. A .zt file and a path that ends with .safetensors are files.
// Every other path is a folder. If the format is not set, refuses a new folder with a dot in its
// name, because the user probably means a file.
result<save_target> target_of(const save_request& request, std::span<const extension> extensions) {
  const auto store = store_for_writing(request.path, extensions);
  if (!store) return store.error().in(printable_path(request.path));
  save_target out = {request.path, entry_kind::file, request.options.replace, *store};
  if (is_zt(request) || out.path.extension() == ".safetensors") return out;
  if (out.store != nullptr) {
    return fault{errc::unsupported_feature, printable_path(request.path),
                 "several objects of a store cannot be published as a whole; expected a name that "
                 "ends with .safetensors or .zt"};
  }
  out.kind = entry_kind::folder;
  std::error_code ignored;
  const bool is_folder = !out.path.has_filename() || fs::is_directory(out.path, ignored);
  const bool has_dot = out.path.filename().native().find('.') != std::string::npos;
  if (request.options.format == save_format::by_name && has_dot && !is_folder) {
    return fault{
        errc::invalid_saving, printable_path(request.path),
        "the name ends with neither .safetensors nor .zt, and save_options::format is not set"};
  }
  return out;
}

bool is_floating(dtype type) noexcept {
  switch (type) {
    case dtype::f64:
    case dtype::f32:
    case dtype::f16:
    case dtype::bf16:
    case dtype::f8_e4m3fn:
    case dtype::f8_e5m2: return true;
    default: return false;
  }
}

result<dtype> stored_type(const tensor_ref& tensor, const save_options& options) {
  if (!options.dtype) return tensor.dtype;
  if (!element_kind_of(*options.dtype) || !is_floating(*options.dtype)) {
    return fault{errc::unsupported_dtype, "save_options::dtype",
                 "cannot convert tensors to " + std::string(name(*options.dtype))};
  }
  const bool chosen = options.converts ? options.converts(tensor) : is_floating(tensor.dtype);
  return chosen ? *options.dtype : tensor.dtype;
}

// Returns a source for the bytes of a header, an index or a gap of zeros.
tensor_ref text_source(std::string text) {
  const auto owner = std::make_shared<const std::string>(std::move(text));
  tensor_ref out({}, owner->data(), dtype::u8, {owner->size()});
  out.owner = owner;
  return out;
}

struct checked_tensors {
  std::vector<layout_tensor> described;
  std::vector<std::unique_ptr<tensor_bytes>> sources;
};

result<checked_tensors> check_tensors(const save_request& request, const save_services& services) {
  const unsigned passes =
      1 + (request.options.read_back ? 1 : 0) + (request.options.digest ? 1 : 0);
  checked_tensors out;
  for (const tensor_ref& tensor : request.tensors) {
    backend* const source_backend = services.devices.find(tensor.device);
    if (source_backend == nullptr) {
      return fault{errc::device_unavailable, tensor_place(tensor.name),
                   "it is in the memory of " + tensor.device.name() + ", and " +
                       services.devices.description()};
    }
    const auto target_type = stored_type(tensor, request.options);
    if (!target_type) return target_type.error();
    if (const auto bytes = stored_bytes(tensor, *target_type); !bytes) return bytes.error();
    out.described.push_back({tensor.name, *target_type, tensor.shape});
    out.sources.push_back(
        std::make_unique<tensor_bytes>(tensor, *target_type, *source_backend, passes));
  }
  return out;
}

result<checkpoint_layout> lay_out(const save_request& request, const checked_tensors& tensors,
                                  const save_target& target) {
  if (is_zt(request)) {
    if (request.options.shard_bytes > 0 || request.options.shard_count > 0) {
      return fault{errc::invalid_saving, "saving",
                   "shard_bytes and shard_count cannot be used for a .zt file"};
    }
    const auto& sources = tensors.sources;
    const auto first_tensor = find_duplicates(
        static_cast<std::uint32_t>(sources.size()), [&](auto t) { return sources[t]->view().data; },
        [&](auto a, auto b) { return sources[a]->same_as(*sources[b]); });
    zt_settings settings;
    settings.metadata = request.options.metadata;
    settings.alignment = std::max<std::uint64_t>(request.options.alignment, settings.alignment);
    settings.bytes_of = first_tensor;
    return lay_out_zt(tensors.described, settings);
  }
  safetensors_settings settings;
  settings.metadata = request.options.metadata;
  settings.order = request.options.order;
  settings.alignment = request.options.alignment;
  settings.folder = target.kind == entry_kind::folder;
  settings.shards = {request.options.shard_bytes, request.options.shard_count};
  return lay_out_safetensors(tensors.described, settings);
}

// Collects the pieces of all files: tensors, heads, tails, and zeros for the gaps.
class piece_list {
 public:
  piece_list(write_group& group, backend& target) : group_(group), target_(target) {}

  void add_tensors(std::span<const tensor_extent> extents) {
    for (std::uint32_t t = 0; t < extents.size(); ++t) {
      const tensor_extent& extent = extents[t];
      if (extent.bytes > 0) pieces_.push_back({extent.offset, extent.bytes, extent.file, t});
    }
    // Tensors that share their bytes have the same extent. Only one of these tensors is written.
    const auto by_place = [](const file_piece& p) { return std::tuple(p.file, p.file_offset); };
    std::ranges::stable_sort(pieces_, {}, by_place);
    const auto duplicates = std::ranges::unique(pieces_, {}, by_place);
    pieces_.erase(duplicates.begin(), duplicates.end());
  }

  void add_file(std::uint32_t number, file_layout& file) {
    const std::uint64_t tail = file.tail.size();
    add_text(number, file.bytes - tail, std::move(file.tail));
    add_text(number, 0, std::move(file.head));
  }

  std::vector<file_piece> with_zeros() {
    std::ranges::sort(pieces_, {},
                      [](const file_piece& p) { return std::tuple(p.file, p.file_offset); });
    std::vector<file_piece> gaps;
    std::uint64_t longest = 0;
    const auto zeros = static_cast<std::uint32_t>(group_.sources.size());
    for (std::size_t i = 1; i < pieces_.size(); ++i) {
      const std::uint64_t end = pieces_[i - 1].file_offset + pieces_[i - 1].bytes;
      const std::uint64_t next = pieces_[i].file_offset;
      if (pieces_[i].file != pieces_[i - 1].file || next == end) continue;
      gaps.push_back({end, next - end, pieces_[i].file, zeros});
      longest = std::max(longest, next - end);
    }
    if (longest > 0) add_source(std::string(static_cast<std::size_t>(longest), '\0'));
    pieces_.insert(pieces_.end(), gaps.begin(), gaps.end());
    return std::move(pieces_);
  }

 private:
  void add_text(std::uint32_t file, std::uint64_t offset, std::string text) {
    if (text.empty()) return;
    pieces_.push_back(
        {offset, text.size(), file, static_cast<std::uint32_t>(group_.sources.size())});
    add_source(std::move(text));
  }
  void add_source(std::string text) {
    group_.sources.push_back(
        std::make_unique<tensor_bytes>(text_source(std::move(text)), dtype::u8, target_, 1));
  }

  write_group& group_;
  backend& target_;
  std::vector<file_piece> pieces_;
};

result<save_files> make_files(const save_request& request, const save_target& target,
                              const checkpoint_layout& layout, const save_services& services) {
  if (target.store == nullptr) return save_files::make(target, layout.files, services.direct);
  if (request.options.read_back) {
    return fault{errc::unsupported_feature, printable_path(request.path),
                 "an object of a store cannot be read back before it is published"};
  }
  const target_request object = {request.path, layout.files.front().bytes, target.may_replace,
                                 services.slot_bytes, services.stop};
  return save_files::make_object(target, object);
}

}  // namespace

result<save_setup> set_up_save(const save_request& request, const save_services& services) {
  const std::string place = printable_path(request.path);
  const auto target = target_of(request, services.extensions);
  if (!target) return target.error();
  auto checked = check_tensors(request, services);
  if (!checked) return checked.error().in(place);
  if (request.options.digest == digest_algorithm::sha256 && !request.options.sha256) {
    return fault{errc::digest_unavailable, place,
                 "sha256 was requested, but no sha256 hasher is set"};
  }
  // From here on, every tensor is valid, and its dtype and its size in the file cannot change.

  auto layout = lay_out(request, *checked, *target);
  if (!layout) return layout.error().in(place);

  auto files = make_files(request, *target, *layout, services);
  if (!files) return files.error();

  save_setup out;
  out.group = std::make_shared<write_group>();
  out.group->sources = std::move(checked->sources);
  piece_list pieces(*out.group, services.devices.host_memory());
  pieces.add_tensors(layout->tensors);
  for (std::uint32_t f = 0; f < layout->files.size(); ++f) {
    out.bytes += layout->files[f].bytes;
    pieces.add_file(f, layout->files[f]);
  }
  auto plan = plan_writes(pieces.with_zeros(), {services.slot_bytes, direct_unit()});
  if (!plan) return plan.error().in(place);
  out.group->plan = std::move(*plan);
  out.files = std::move(*files);
  return out;
}

}  // namespace ringload::inline v0::detail
