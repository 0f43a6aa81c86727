// SPDX-License-Identifier: Apache-2.0

// The attributes that a writer gives its file.

#include <algorithm>

#include "formats/text/cbor_reader.hpp"
#include "formats/text/cbor_writer.hpp"
#include "save/writer_state.hpp"

namespace ringload::inline v0::detail {

void attribute_list::set(std::string key, std::string encoded) {
  for (auto& [known, value] : all_) {
    if (known != key) continue;
    value = std::move(encoded);
    return;
  }
  all_.emplace_back(std::move(key), std::move(encoded));
}

bool attribute_list::has(std::string_view key) const noexcept {
  return std::ranges::any_of(all_, [key](const auto& each) { return each.first == key; });
}

std::string attribute_list::encoded() const {
  if (all_.empty()) return {};
  auto sorted = all_;
  std::ranges::sort(sorted);
  std::string out;
  cbor_writer to(out);
  to.map(sorted.size());
  for (const auto& [key, value] : sorted) {
    to.text(key);
    to.encoded(value);
  }
  return out;
}

result<void> attribute_list::read(std::string_view encoded_map) {
  if (encoded_map.empty()) return {};
  memory_input from(std::as_bytes(std::span<const char>(encoded_map)));
  input_cursor in(from, 0, encoded_map.size());
  cbor_reader cbor(in);
  if (!cbor.enter_map()) return in.error();
  std::string key;
  while (cbor.next_key(key)) {
    const std::uint64_t begin = cbor.position();
    if (!cbor.skip_value()) return in.error();
    if (!has(key)) set(key, std::string(encoded_map.substr(begin, cbor.position() - begin)));
  }
  if (cbor.failed()) return in.error();
  return {};
}

}  // namespace ringload::inline v0::detail
