// SPDX-License-Identifier: Apache-2.0

#include "delta/indexed_writer.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <ringload/error.hpp>
#include <ringload/save.hpp>

#include "base/parse_number.hpp"
#include "base/printable.hpp"
#include "catalog/version_name.hpp"
#include "delta/byte_change.hpp"
#include "delta/delta_code.hpp"
#include "formats/codec/zstd_frame.hpp"

namespace ringload::inline v0::detail {

namespace {

checksum_kind kind_of(delta_checksum checksum) noexcept {
  return checksum == delta_checksum::adler32 ? checksum_kind::adler32 : checksum_kind::xxh3_128;
}

std::string six_digits(std::uint64_t version) {
  std::array<char, 32> text = {};
  std::snprintf(text.data(), text.size(), "%06llu", static_cast<unsigned long long>(version));
  return text.data();
}

// Returns the description in the index. Throws if a version is missing.
index_delta describe(const delta_request& request) {
  const indexed_delta& layout = *request.options.indexed;
  const auto refused = [&](const std::string& cause) {
    return error(errc::invalid_saving, printable_path(request.path), cause);
  };
  if (request.options.zstd_level == 0) {
    throw refused("zstd_level is 0, but a delta with an index is always compressed");
  }
  index_delta described;
  described.encoding = layout.encoding == delta_encoding::overwrite ? "overwrite" : "xor";
  described.compression = "zstd";
  described.checksum = checksum_name(kind_of(layout.checksum));
  described.version = layout.version;
  described.base_version = layout.base_version;
  if (described.version.empty()) {
    std::filesystem::path folder(request.path);
    if (!folder.has_filename()) folder = folder.parent_path();
    const auto version = weight_version_named(folder.filename().native());
    if (!version) {
      throw refused("the name of the version is missing: expected a folder such as weight_v000007");
    }
    described.version = six_digits(*version);
  }
  if (described.base_version.empty()) {
    const auto version = parse_number<std::uint64_t>(described.version);
    if (!version || *version == 0) {
      throw refused(
          "the name of the base version is missing, and cannot be derived from version '" +
          printable(described.version) + "'");
    }
    described.base_version = six_digits(*version - 1);
  }
  return described;
}

// Returns the error with the path `target` instead of the path of the temporary folder.
error with_target(const error& failed, const std::string& temporary, const std::string& target) {
  if (!failed.place().starts_with(temporary)) return failed;
  const std::string_view text = failed.what();
  const std::string_view cause = text.substr(std::min(text.size(), failed.place().size() + 2));
  return {failed.code(), target + failed.place().substr(temporary.size()), std::string(cause)};
}

}  // namespace

result<packed_tensor> pack_difference(const indexed_delta& layout, int zstd_level,
                                      std::span<const std::byte> before,
                                      std::span<const std::byte> after) {
  packed_tensor packed;
  const bool is_overwrite = layout.encoding == delta_encoding::overwrite;
  const std::uint64_t changed = count_changed(before, after, 1);
  packed.is_changed = changed > 0;
  if (!packed.is_changed) return packed;
  if (is_overwrite && after.size() > overwrite_bytes_max) {
    return fault{errc::unsupported_feature,
                 {},
                 "the encoding 'overwrite' has positions of 32 bits, but the tensor has " +
                     grouped(after.size()) + " bytes"};
  }
  auto encoder = zstd_frame_encoder::make(zstd_level, true);
  if (!encoder) return encoder.error();
  const auto difference =
      is_overwrite ? encode_overwrite(before, after, changed) : encode_xor(before, after);
  if (auto encoded = (*encoder)->encode(difference, packed.frame); !encoded) {
    return encoded.error();
  }
  packed.frame.shrink_to_fit();
  const checksum_kind kind = kind_of(layout.checksum);
  packed.digest = running_digest(kind, after).finish().substr(checksum_name(kind).size() + 1);
  return packed;
}

indexed_writer::indexed_writer(const delta_services& services, const delta_request& request)
    : services_(services),
      request_(request),
      described_(describe(request)),
      folder_(request.path, entry_kind::folder, request.options.replace) {}

void indexed_writer::add(const std::string& name, packed_tensor tensor) {
  waiting_bytes_ += tensor.frame.size();
  waiting_.emplace_back(name, std::move(tensor));
  // Limits the waiting tensors to about a quarter of window_bytes, which is the limit for the
  // compared tensors.
  if (waiting_bytes_ >= request_.options.window_bytes / 4) write_shard();
}

void indexed_writer::write_shard() {
  try {
    save_shard();
  } catch (const error& failed) {
    throw at_target(failed);
  }
}

error indexed_writer::at_target(const error& failed) const {
  const std::size_t end = request_.path.find_last_not_of('/') + 1;
  return with_target(failed, printable_path(folder_.path()),
                     printable_path(std::string_view(request_.path).substr(0, end)));
}

void indexed_writer::save_shard() {
  std::array<char, 64> name = {};
  std::snprintf(name.data(), name.size(), "model-%05u.safetensors", ++shard_count_);
  save_options options;
  options.sync = request_.options.sync;
  options.replace = false;
  std::vector<tensor_ref> tensors;
  for (const auto& [tensor, packed] : waiting_) {
    tensors.emplace_back(tensor, packed.frame.data(), dtype::u8,
                         std::vector<std::uint64_t>{packed.frame.size()});
    options.metadata.emplace_back(tensor, packed.digest);
    written_.emplace_back(tensor, name.data());
  }
  const std::string path = folder_.path() + "/" + name.data();
  const auto saved = services_.cancellation()->wait_for<save_result>([&](auto&& handler) {
    initiate<save_result, &begin_save>(std::move(handler), boost::asio::system_executor(),
                                       services_.loader_engine(), path, tensors, options);
  });
  bytes_ += saved.bytes;
  waiting_.clear();
  waiting_bytes_ = 0;
}

std::uint64_t indexed_writer::finish() {
  if (!waiting_.empty()) write_shard();
  services_.check_cancelled();
  const std::string text = delta_index_text(described_, written_);
  try {
    atomic_file index(folder_.path() + "/model.safetensors.index.json", entry_kind::file, false);
    index.write(text);
    index.publish(request_.options.sync);
  } catch (const error& failed) {
    throw at_target(failed);
  }
  folder_.publish(request_.options.sync);
  return bytes_ + text.size();
}

}  // namespace ringload::inline v0::detail
