// SPDX-License-Identifier: Apache-2.0
#pragma once

// CBOR, and .zt files of it, written by hand for a test.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "binary_text.hpp"
#include "formats/zt/zt.hpp"

namespace ringload::testing {

inline std::string cbor_head(unsigned major, std::uint64_t argument) {
  const auto first = [&](unsigned info) {
    return std::string(1, static_cast<char>(major << 5 | info));
  };
  if (argument < 24) return first(static_cast<unsigned>(argument));
  if (argument <= 0xFF) return first(24) + static_cast<char>(argument);
  const auto big = std::endian::big;
  if (argument <= 0xFFFF) return first(25) + number_text(static_cast<std::uint16_t>(argument), big);
  if (argument <= 0xFFFFFFFF) {
    return first(26) + number_text(static_cast<std::uint32_t>(argument), big);
  }
  return first(27) + number_text(argument, big);
}

inline std::string cbor_number(std::uint64_t value) { return cbor_head(0, value); }
inline std::string cbor_text(std::string_view value) {
  return cbor_head(3, value.size()) + std::string(value);
}
inline std::string cbor_array(const std::vector<std::string>& items) {
  std::string out = cbor_head(4, items.size());
  for (const std::string& item : items) out += item;
  return out;
}
inline std::string cbor_numbers(const std::vector<std::uint64_t>& values) {
  std::string out = cbor_head(4, values.size());
  for (const std::uint64_t value : values) out += cbor_number(value);
  return out;
}
using cbor_pairs = std::vector<std::pair<std::string, std::string>>;  // Key, and value as CBOR.
inline std::string cbor_map(const cbor_pairs& pairs) {
  std::string out = cbor_head(5, pairs.size());
  for (const auto& [key, value] : pairs) out += cbor_text(key) + value;
  return out;
}

// Magic, padding to 64, the blobs, a manifest, its size, and the magic again.
inline std::string zt_text(std::string_view manifest, std::string_view blobs = {}) {
  std::string out = "ZTEN1000";
  if (!blobs.empty()) {
    out.resize(64);
    out += blobs;
  }
  out += manifest;
  return out + number_text(std::uint64_t{manifest.size()}) + "ZTEN1000";
}

inline std::string zt_index_text(const cbor_pairs& objects, std::string_view version = "1.2.0") {
  return cbor_map({{"version", cbor_text(version)}, {"objects", cbor_map(objects)}});
}

inline std::string zt_component_text(std::string_view dtype, std::uint64_t offset,
                                     std::uint64_t length, const cbor_pairs& more = {}) {
  cbor_pairs all = {{"dtype", cbor_text(dtype)},
                    {"offset", cbor_number(offset)},
                    {"length", cbor_number(length)}};
  all.insert(all.end(), more.begin(), more.end());
  return cbor_map(all);
}

inline std::string zt_object_text(const std::vector<std::uint64_t>& shape, std::string_view format,
                                  const cbor_pairs& components, const cbor_pairs& more = {}) {
  cbor_pairs all = {{"shape", cbor_numbers(shape)},
                    {"format", cbor_text(format)},
                    {"components", cbor_map(components)}};
  all.insert(all.end(), more.begin(), more.end());
  return cbor_map(all);
}

namespace zt_files {

inline result<file_entries> parsed(std::string_view file) {
  memory_input in(bytes_of(file));
  return parse_zt(in, strictness::strict);
}

// The reason why the file, or its first unreadable object, cannot be read.
inline std::optional<fault> refusal(std::string_view file) {
  const auto answer = parsed(file);
  if (!answer) return answer.error();
  if (answer->unreadable.empty()) return std::nullopt;
  return answer->unreadable.front().cause;
}

inline boost::system::error_code code_of(std::string_view file) {
  const auto why = refusal(file);
  return why ? why->code : boost::system::error_code{};
}

inline std::string message(std::string_view file) {
  const auto why = refusal(file);
  return why ? message_of(*why) : "it was accepted";
}

// A file with 256 bytes of blobs.
inline std::string with(const cbor_pairs& objects, std::string_view version = "1.2.0") {
  return zt_text(zt_index_text(objects, version), std::string(256, '\1'));
}

// A file with the object 't' of one component 'data'.
inline std::string dense(const std::vector<std::uint64_t>& shape, const std::string& component,
                         std::string_view version = "1.2.0") {
  return with({{"t", zt_object_text(shape, "dense", {{"data", component}})}}, version);
}

}  // namespace zt_files

}  // namespace ringload::testing
