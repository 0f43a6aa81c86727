// SPDX-License-Identifier: Apache-2.0

#include <algorithm>

#include "formats/text/cbor_reader.hpp"
#include "formats/text/cbor_writer.hpp"
#include "save/writer_state.hpp"

namespace ringload::inline v0::detail {

void attribute_list::set(std::string key, std::string cbor_value) {
  for (auto& [known, value] : pairs_) {
    if (known != key) continue;
    value = std::move(cbor_value);
    return;
  }
  pairs_.emplace_back(std::move(key), std::move(cbor_value));
}

bool attribute_list::has(std::string_view key) const noexcept {
  return std::ranges::any_of(pairs_, [key](const auto& pair) { return pair.first == key; });
}

std::string attribute_list::to_cbor() const {
  if (pairs_.empty()) return {};
  auto sorted = pairs_;
  std::ranges::sort(sorted);
  std::string out;
  cbor_writer writer(out);
  writer.map(sorted.size());
  for (const auto& [key, value] : sorted) {
    writer.text(key);
    writer.encoded(value);
  }
  return out;
}

result<void> attribute_list::read(std::string_view cbor_map) {
  if (cbor_map.empty()) return {};
  memory_input from(std::as_bytes(std::span<const char>(cbor_map)));
  input_cursor in(from, 0, cbor_map.size());
  cbor_reader cbor(in);
  if (!cbor.enter_map()) return in.error();
  std::string key;
  while (cbor.next_key(key)) {
    const std::uint64_t begin = cbor.position();
    if (!cbor.skip_value()) return in.error();
    if (!has(key)) set(key, std::string(cbor_map.substr(begin, cbor.position() - begin)));
  }
  if (cbor.failed()) return in.error();
  return {};
}

}  // namespace ringload::inline v0::detail
