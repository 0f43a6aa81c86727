// SPDX-License-Identifier: Apache-2.0

#include "formats/hdf5/pipe_protocol.hpp"

#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/serialize.hpp"

namespace ringload::inline v0::h5 {

namespace {

constexpr std::string_view magic = "ringload hdf5 1\n";
constexpr std::size_t number_bytes = 8;
constexpr std::size_t prefix_bytes = magic.size() + number_bytes;

template <class T, class Record>
concept is_a = std::same_as<std::remove_const_t<T>, Record>;

// Writes fields if `Serializer` is a packer, and reads fields if `Serializer` is an unpacker.
// Therefore reading and writing share one list of the fields.
template <class Serializer>
class field_passer {
 public:
  explicit field_passer(Serializer& serializer) noexcept : serializer_(serializer) {}

  template <packed_number T>
  void pass(T& value) {
    serializer_.number(value);
  }
  // Passes a signed number or a floating-point number as its bits.
  template <class T>
    requires(std::is_arithmetic_v<T> && !packed_number<T>)
  void pass(T& value) {
    std::uint64_t bits = std::bit_cast<std::uint64_t>(value);
    serializer_.number(bits);
    if constexpr (!std::is_const_v<T>) value = std::bit_cast<T>(bits);
  }
  void pass(const std::string& text) { serializer_.text(text); }
  void pass(std::string& text) { serializer_.text(text); }
  void pass(const std::vector<std::byte>& bytes) { serializer_.bytes(bytes); }
  void pass(std::vector<std::byte>& bytes) { serializer_.bytes(bytes); }
  template <class T>
  void pass(const std::vector<T>& items) {
    serializer_.list(items, [this](auto&, const T& item) { pass(item); });
  }
  template <class T>
  void pass(std::vector<T>& items) {
    serializer_.list(items, [this](auto&, T& item) { pass(item); });
  }

  template <is_a<chain_filter> T>
  void pass(T& filter) {
    pass_all(filter.filter, filter.element_bytes);
  }
  template <is_a<hdf5_chunk> T>
  void pass(T& chunk) {
    pass_all(chunk.offset, chunk.bytes, chunk.filter_mask);
  }
  template <is_a<hdf5_left_out> T>
  void pass(T& object) {
    pass_all(object.name, object.reason, object.numbers);
  }
  template <is_a<hdf5_dataset> T>
  void pass(T& d) {
    pass_all(d.names, d.dtype, d.big_endian, d.shape, d.layout, d.offset, d.bytes, d.compact,
             d.fill, d.chunk_shape, d.filters, d.partial_chunks_unfiltered, d.chunks,
             d.chunk_origins);
  }
  template <is_a<hdf5_attribute> T>
  void pass(T& a) {
    pass_all(a.name, a.is_list, a.value_kind, a.texts, a.floats, a.integers, a.naturals);
  }
  template <is_a<hdf5_contents> T>
  void pass(T& c) {
    pass_all(c.datasets, c.attributes, c.left_out, c.attributes_left_out);
  }
  template <class... T>
  void pass_all(T&... values) {
    (pass(values), ...);
  }

 private:
  Serializer& serializer_;
};

fault malformed() {
  return {
      errc::malformed_header, "",
      "the process that parses HDF5 files sent an unreadable message, expected a message of the "
      "same version"};
}

constexpr std::uint64_t own_code_kind = 0;     // The fault has an errc.
constexpr std::uint64_t system_code_kind = 1;  // The fault has an errno.

}  // namespace

std::string encode_message(const result<hdf5_contents>& from) {
  packer body;
  field_passer fields(body);
  body.number(from ? 1U : 0U);
  if (from) {
    fields.pass(*from);
  } else {
    const fault& problem = from.error();
    body.number(problem.code.category() == category() ? own_code_kind : system_code_kind);
    body.number(static_cast<std::uint64_t>(problem.code.value()));
    fields.pass_all(problem.where(), problem.cause());
  }
  const std::vector<std::byte> body_bytes = body.take();
  packer size;
  size.number(std::uint64_t{body_bytes.size()});
  std::string out(magic);
  for (const auto& part : {size.take(), body_bytes}) {
    out.append(reinterpret_cast<const char*>(part.data()), part.size());
  }
  return out;
}

bool is_whole_message(std::span<const std::byte> message) noexcept {
  if (message.size() < prefix_bytes || message.size() > message_bytes_max ||
      std::memcmp(message.data(), magic.data(), magic.size()) != 0) {
    return false;
  }
  std::uint64_t bytes = 0;
  unpacker(message.subspan(magic.size(), number_bytes)).number(bytes);
  return bytes == message.size() - prefix_bytes;
}

result<hdf5_contents> decode_message(std::span<const std::byte> message) {
  if (!is_whole_message(message)) return malformed();
  unpacker reader(message.subspan(prefix_bytes));
  field_passer fields(reader);
  bool has_contents = false;
  reader.number(has_contents);
  if (has_contents) {
    hdf5_contents out;
    fields.pass(out);
    if (!reader.is_complete()) return malformed();
    return out;
  }
  std::uint64_t kind = 0;
  std::uint64_t code = 0;
  std::string place;
  std::string cause;
  fields.pass_all(kind, code, place, cause);
  constexpr std::uint64_t code_max = 4096;
  if (!reader.is_complete() || code == 0 || code > code_max) return malformed();
  const int value = static_cast<int>(code);
  // not_restored is the last errc.
  const bool is_own_code =
      kind == own_code_kind && code <= static_cast<std::uint64_t>(errc::not_restored);
  return fault{is_own_code ? make_error_code(static_cast<errc>(value)) : system_code(value),
               std::move(place), std::move(cause)};
}

}  // namespace ringload::inline v0::h5
