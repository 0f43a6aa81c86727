// SPDX-License-Identifier: Apache-2.0

#include "delta/loaded_delta.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <ringload/verify.hpp>
#include <vector>

#include "base/catch_as_fault.hpp"
#include "base/checked.hpp"
#include "base/crc32c_hasher.hpp"
#include "base/printable.hpp"
#include "base/retry_allocation.hpp"
#include "catalog/opened_checkpoint.hpp"
#include "delta/running_digest.hpp"
#include "formats/checksum_list.hpp"
#include "formats/shape.hpp"

namespace ringload::inline v0::detail {

namespace {

using form = tensor_change::form;

// A tensor is processed in tiles. Each tile is copied, changed and hashed while the tile is in the
// processor's cache. The size of a tile is a multiple of every element width.
constexpr std::size_t tile_bytes = std::size_t{256} << 10;

// Returns the size of the changed tensor in bytes. Returns an empty optional if the size exceeds 64
// bits or is not a whole number of bytes.
std::optional<std::uint64_t> bytes_after(const tensor_change& change) {
  const auto elements = element_count(change.shape);
  if (!elements) return std::nullopt;
  const auto bit_count = checked_multiply(*elements, bits(change.dtype));
  if (!bit_count || *bit_count % 8 != 0) return std::nullopt;
  return *bit_count / 8;
}

std::string crc_text(std::uint32_t crc) { return "crc32c " + hex(crc32c_digest(crc)); }

result<void> check_crc(const std::map<std::string, std::uint32_t, std::less<>>& expected,
                       std::string_view name, std::uint32_t crc, const std::string& version_text) {
  const auto found = expected.find(name);
  if (found != expected.end() && found->second == crc) return {};
  return fault{errc::wrong_digest, tensor_place(name),
               found == expected.end() ? "the " + version_text + " has no such tensor"
                                       : "its digest is " + crc_text(crc) + ", the " +
                                             version_text + " has " + crc_text(found->second)};
}

// Returns true if a change has failed, and the memory has bytes of both versions.
template <class T>
bool has_mixed_versions(const result<T>& change) {
  return !change && change.error().code == errc::not_restored;
}

}  // namespace

std::string place_of_source(const source& from) {
  const checkpoint& opened = from.parts().opened;
  return opened ? printable_path(opened.catalog().files.front().path) : shown(from.parts().name);
}

loaded_delta::loaded_delta(const delta_services& services, const source& from)
    : memory_(services.memory()), place_(place_of_source(from)), file_(services.load_all(from)) {
  auto contents = read_contents(file_.catalog());
  if (!contents) throw to_error(contents.error().in(place_));
  contents_ = std::move(*contents);
  std::vector<const std::pair<const std::string, tensor_change>*> changes;
  for (const auto& change : contents_.changes) changes.push_back(&change);
  auto checked = for_each_index(changes.size(), [&](std::size_t i) -> result<void> {
    auto valid = check_change_of(changes[i]->second);
    if (!valid) return valid.error().in(tensor_place(changes[i]->first));
    return {};
  });
  if (!checked) throw to_error(checked.error().in(place_));
}

result<void> loaded_delta::check_change_of(const tensor_change& change) const {
  if (change.is_frame()) return {};  // A frame is checked when it is decoded.
  const auto bytes = bytes_after(change);
  if (!bytes) return fault{errc::size_overflow, {}, "its shape exceeds 64 bits"};
  if (change.kind == form::whole) return {};
  for (const std::string& part : {change.gaps, change.values}) {
    if (part.empty() || file_.at(part).dtype() == dtype::u8) continue;
    return fault{errc::malformed_header, {}, "its component '" + printable(part) + "' is not u8"};
  }
  return check_change(difference_of(change));
}

result<void> loaded_delta::check_base(std::string_view name, std::uint32_t crc) const {
  return check_crc(contents_.base_crcs, name, crc, "base of the delta");
}

result<void> loaded_delta::check_result(std::string_view name, std::uint32_t crc) const {
  return check_crc(contents_.result_crcs, name, crc, "result of the delta");
}

result<applied_tensor> loaded_delta::find_change(std::string_view name,
                                                 std::span<const std::byte> before, dtype type,
                                                 std::span<const std::uint64_t> shape) const {
  applied_tensor found;
  found.name = name;
  found.before = before;
  found.dtype = type;
  found.shape.assign(shape.begin(), shape.end());
  const auto change = contents_.changes.find(name);
  if (change == contents_.changes.end()) return found;
  found.change = &change->second;
  if (found.change->is_frame()) return found;
  found.dtype = found.change->dtype;
  found.shape = found.change->shape;
  const bool is_equal =
      type == found.change->dtype && std::ranges::equal(shape, found.change->shape);
  if (is_equal || found.change->kind == form::whole) return found;
  return fault{errc::wrong_shape, tensor_place(name),
               "its dtype or shape is not that of the base of the delta"};
}

const std::string* loaded_delta::find_missing(const std::set<std::string_view>& names) const {
  for (const auto& [name, crc] : contents_.base_crcs) {
    if (!names.contains(name)) return &name;
  }
  for (const auto& [name, change] : contents_.changes) {
    if (change.is_frame() && !names.contains(name)) return &name;
  }
  return nullptr;
}

change_view loaded_delta::view_of(const applied_tensor& tensor) const {
  return tensor.change->is_frame() ? tensor.decoded.view() : difference_of(*tensor.change);
}

change_view loaded_delta::difference_of(const tensor_change& change) const {
  change_view view;
  view.is_sparse = change.kind == form::sparse;
  view.width = delta_width(change.dtype);
  view.elements = *bytes_after(change) / view.width;
  if (view.is_sparse) view.gaps = tensor_bytes_of(file_.at(change.gaps));
  view.planes = tensor_bytes_of(file_.at(change.values));
  return view;
}

std::span<const std::byte> loaded_delta::bytes_of_whole(const tensor_change& change) const {
  return tensor_bytes_of(file_.at(change.values));
}

result<void> loaded_delta::replace(applied_tensor& tensor) const {
  const bool is_added = tensor.before.data() == nullptr;
  if (!is_added) {
    if (auto valid = check_base(tensor.name, crc32c(tensor.before)); !valid) return valid;
  }
  tensor.is_changed = true;
  const auto source = bytes_of_whole(*tensor.change);
  for (std::size_t offset = 0; offset < source.size(); offset += tile_bytes) {
    const auto tile = source.subspan(offset, std::min(tile_bytes, source.size() - offset));
    std::copy(tile.begin(), tile.end(), tensor.after.begin() + static_cast<std::ptrdiff_t>(offset));
    tensor.crc = crc32c(tensor.after.subspan(offset, tile.size()), tensor.crc);
  }
  return check_result(tensor.name, tensor.crc);
}

result<void> loaded_delta::decode(applied_tensor& tensor) const {
  const auto frame = tensor_bytes_of(file_.at(tensor.change->values));
  auto decoded = tensor.change->kind == form::xor_frame ? decode_xor(frame, tensor.before.size())
                                                        : decode_overwrite(frame, tensor.before);
  if (!decoded) return decoded.error().in(tensor_place(tensor.name));
  tensor.decoded = std::move(*decoded);
  return {};
}

result<void> loaded_delta::check_digest(const applied_tensor& tensor,
                                        const std::string& digest) const {
  if (!tensor.change->is_frame()) return check_result(tensor.name, tensor.crc);
  const std::string& expected = tensor.change->result_digest;
  if (digest == expected) return {};
  return fault{errc::wrong_digest, tensor_place(tensor.name),
               "its digest is " + digest + ", expected " + printable(expected) +
                   ": the delta is damaged, or the tensor is not that of version " +
                   printable(contents_.base_identity)};
}

result<void> loaded_delta::apply(applied_tensor& tensor) const {
  auto status = memory_.is_host() ? apply_on_host(tensor) : apply_on_device(tensor);
  tensor.has_mixed_versions = has_mixed_versions(status);
  return status;
}

result<bool> loaded_delta::apply_by_device(applied_tensor& tensor) const {
  const tensor_change& change = *tensor.change;
  if (change.kind == form::whole || change.is_frame()) return false;
  const bool is_in_place = tensor.before.data() == tensor.after.data();
  auto changed = memory_.change(tensor.before, tensor.after, difference_of(change));
  if (!changed) return changed.error().in(tensor_place(tensor.name));
  if (!*changed) return false;
  tensor.is_changed = true;
  const auto crc = memory_.crc32c_of(tensor.after);
  if (!crc) return crc.error().in(tensor_place(tensor.name));
  tensor.crc = *crc;
  const auto status = check_result(tensor.name, tensor.crc);
  if (status) return true;
  if (is_in_place) {
    const auto undone = memory_.change(tensor.after, tensor.after, difference_of(change));
    const bool is_mixed = has_mixed_versions(undone);
    // If the undo failed and left the new bytes, in_place_update::restore() tries again. If the
    // memory has bytes of both versions, another undo would not help.
    if (!is_mixed && (!undone || !*undone)) return status.error();
    tensor.is_changed = false;
    if (is_mixed) return undone.error().in(tensor_place(tensor.name));
  }
  const auto base_crc = memory_.crc32c_of(tensor.before);
  if (!base_crc) return base_crc.error().in(tensor_place(tensor.name));
  if (auto valid = check_base(tensor.name, *base_crc); !valid) return valid.error();
  return status.error();
}

result<void> loaded_delta::apply_on_device(applied_tensor& tensor) const {
  const auto is_applied = apply_by_device(tensor);
  if (!is_applied) return is_applied.error();
  if (*is_applied) return {};
  const bool is_whole = tensor.change->kind == form::whole;
  const bool is_in_place = tensor.before.data() == tensor.after.data();
  const auto make_copy = [](std::size_t bytes) {
    return std::make_unique_for_overwrite<std::byte[]>(bytes);
  };
  const auto before = make_copy(tensor.before.size());
  const auto after = make_copy(is_whole ? tensor.after.size() : 0);
  const std::span<std::byte> old_bytes(before.get(), tensor.before.size());
  if (auto copied = memory_.read(tensor.before, old_bytes); !copied)
    return copied.error().in(tensor_place(tensor.name));
  applied_tensor on_host = tensor;
  if (tensor.before.data() != nullptr) on_host.before = old_bytes;
  on_host.after = is_whole ? std::span(after.get(), tensor.after.size()) : old_bytes;
  const auto status = apply_on_host(on_host);
  tensor.crc = on_host.crc;
  if (!status) return status;  // The memory of the device is unchanged.
  const auto written = catch_as_fault([&] { return memory_.write(on_host.after, tensor.after); });
  tensor.is_changed = is_whole || written;
  if (!written && is_in_place && !is_whole) {
    change_cursor(view_of(on_host)).apply(on_host.after);
    const auto restored =
        retry_allocation([&] { return memory_.write(on_host.after, tensor.after); });
    if (!restored) {
      return retry_allocation([&] {
        return fault{errc::not_restored, tensor_place(tensor.name), message_of(restored.error())};
      });
    }
  }
  if (is_in_place) tensor.decoded = std::move(on_host.decoded);
  return written ? written : written.error().in(tensor_place(tensor.name));
}

result<void> loaded_delta::apply_on_host(applied_tensor& tensor) const {
  const tensor_change& change = *tensor.change;
  if (change.kind == form::whole) return replace(tensor);
  if (change.is_frame()) {
    if (auto decoded = decode(tensor); !decoded) return decoded;
  }
  const auto kind = checksum_kind_of(change.is_frame() ? change.result_digest : "crc32c");
  if (!kind) {
    return fault{
        errc::digest_unavailable, tensor_place(tensor.name),
        "the algorithm of its digest '" + printable(change.result_digest) + "' is unknown"};
  }
  const bool is_in_place = tensor.before.data() == tensor.after.data();
  tensor.is_changed = true;
  running_digest digest(*kind, tensor.after);
  change_cursor cursor(view_of(tensor));
  for (std::size_t offset = 0; offset < tensor.after.size(); offset += tile_bytes) {
    const std::size_t size = std::min(tile_bytes, tensor.after.size() - offset);
    const auto tile = tensor.after.subspan(offset, size);
    if (!is_in_place) std::memcpy(tile.data(), tensor.before.data() + offset, size);
    cursor.apply(tile);
    digest.advance(offset + size);
  }
  const std::string text = digest.finish();
  tensor.crc = digest.crc();
  auto status = check_digest(tensor, text);
  // Only an update in place can be undone, and needs the difference later.
  if (!is_in_place) tensor.decoded = {};
  if (status) return status;
  if (is_in_place) {
    change_cursor(view_of(tensor)).apply(tensor.after);
    tensor.is_changed = false;
  }
  const bool has_base_digest = tensor.before.data() != nullptr && !change.is_frame();
  if (has_base_digest) {
    if (auto valid = check_base(tensor.name, crc32c(tensor.before)); !valid) return valid;
  }
  return status;
}

result<void> loaded_delta::undo(const applied_tensor& tensor) const noexcept {
  if (memory_.is_host()) {
    change_cursor(view_of(tensor)).apply(tensor.after);
    return {};
  }
  return retry_allocation([&]() -> result<void> {
    const auto is_undone = memory_.change(tensor.after, tensor.after, view_of(tensor));
    if (is_undone && *is_undone) return {};
    if (has_mixed_versions(is_undone)) return is_undone.error();
    const auto copy = std::make_unique_for_overwrite<std::byte[]>(tensor.after.size());
    const std::span<std::byte> bytes(copy.get(), tensor.after.size());
    if (auto copied = memory_.read(tensor.after, bytes); !copied) return copied;
    change_cursor(view_of(tensor)).apply(bytes);
    return memory_.write(bytes, tensor.after);
  });
}

}  // namespace ringload::inline v0::detail
