// SPDX-License-Identifier: Apache-2.0
#pragma once

// Builds pickles and PyTorch checkpoints in which any part can be wrong.

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/zip_text.hpp"

namespace ringload::testing::pickled {

using list_of = std::initializer_list<std::string>;

inline std::string joined(list_of parts) {
  std::string out;
  for (const std::string& each : parts) out += each;
  return out;
}

inline std::string text(std::string_view value) {
  return "X" + number(value.size(), 4) + std::string(value);
}
inline std::string integer(std::int64_t value) {
  return std::string("\x8A\x08") + number(static_cast<std::uint64_t>(value), 8);
}
inline std::string tuple(list_of parts) { return "(" + joined(parts) + "t"; }
inline std::string list(list_of parts) { return "](" + joined(parts) + "e"; }
inline std::string dict(list_of keys_and_values) { return "}(" + joined(keys_and_values) + "u"; }
inline std::string global(std::string_view module, std::string_view name) {
  return "c" + std::string(module) + "\n" + std::string(name) + "\n";
}
inline std::string call(const std::string& callee, list_of arguments) {
  return callee + tuple(arguments) + "R";
}
inline std::string pickle(const std::string& root) { return "\x80\x02" + root + "."; }

inline std::string numbers(const std::vector<std::int64_t>& values) {
  std::string out = "(";
  for (const std::int64_t each : values) out += integer(each);
  return out + "t";
}

struct saved_tensor {
  std::string key = "0";
  std::int64_t elements = 6;
  std::int64_t offset = 0;
  std::vector<std::int64_t> size = {2, 3};
  std::vector<std::int64_t> stride = {3, 1};
  std::string storage = "FloatStorage";
  std::string metadata = "";  // The arguments after the hooks.
  std::string function = "_rebuild_tensor_v2";

  std::string operator()() const {
    const std::string identity = tuple({text("storage"), global("torch", storage), text(key),
                                        text("cpu"), integer(elements)}) +
                                 "Q";
    return call(global("torch._utils", function),
                {identity, integer(offset), numbers(size), numbers(stride), "\x89",
                 call(global("collections", "OrderedDict"), {}), metadata});
  }
};

// The archive that torch.save writes for the pickle and the storages.
inline std::string archive(const std::string& pickle_bytes,
                           const std::vector<std::pair<std::string, std::string>>& storages,
                           std::string_view byte_order = "little") {
  std::vector<zip_part> parts = {{"m/data.pkl", pickle_bytes}};
  if (!byte_order.empty()) parts.push_back({"m/byteorder", std::string(byte_order)});
  for (const auto& [key, content] : storages) parts.push_back({"m/data/" + key, content});
  parts.push_back({"m/version", "3\n"});
  return zip_text(parts);
}

// The same for PyTorch before 1.6. `elements` has the number of elements of each storage.
struct legacy_storage {
  std::string key;
  std::uint64_t elements = 0;
  std::string bytes;
};
inline std::string legacy(const std::string& object, const std::vector<legacy_storage>& storages) {
  std::string keys = "](";
  for (const legacy_storage& each : storages) keys += text(each.key);
  std::string out = pickle("\x8A\x0A\x6C\xFC\x9C\x46\xF9\x20\x6A\xA8\x50\x19") +
                    pickle("M\xE9\x03") + pickle(dict({text("little_endian"), "\x88"})) +
                    pickle(object) + pickle(keys + "e");
  for (const legacy_storage& each : storages) out += number(each.elements, 8) + each.bytes;
  return out;
}

}  // namespace ringload::testing::pickled
