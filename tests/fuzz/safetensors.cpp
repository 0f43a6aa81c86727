// SPDX-License-Identifier: Apache-2.0

// For any input, the parser fails or returns extents inside the file. A second reader of the same
// rules, based on Boost.JSON, must read the same tensors.

#include "formats/safetensors/safetensors.hpp"

#include <boost/json.hpp>
#include <map>
#include <optional>
#include <string>

#include "fuzz.hpp"

namespace {

using namespace ringload;
using ringload::testing::hold;
namespace json = boost::json;

// The input: four bytes with the length of the data, then the header.
constexpr unsigned length_bytes = 4;

void check_extents(const file_entries& found, std::uint64_t data_begin, std::uint64_t file_bytes) {
  std::uint64_t reached = data_begin;
  for (const entry& e : found.tensors) {
    hold(e.offset >= data_begin, "a tensor begins after the header");
    hold(e.offset <= file_bytes && e.bytes <= file_bytes - e.offset, "a tensor ends in the file");
    hold(e.bytes == 0 || e.offset == reached, "tensors leave no hole and do not overlap");
    if (e.bytes > 0) reached = e.offset + e.bytes;
    std::uint64_t bits_needed = bits(e.dtype);
    for (const std::uint64_t n : e.shape) {
      hold(!__builtin_mul_overflow(bits_needed, n, &bits_needed) || e.bytes == 0,
           "a shape fits in 64 bits");
    }
    hold(e.bytes == 0 || bits_needed == e.bytes * 8, "shape and dtype give the tensor's bytes");
  }
  hold(reached == file_bytes, "tensors reach the end of the file");
}

// The tensors by name, as Boost.JSON reads them.
void check_against_second_reader(const file_entries& found, std::string_view text,
                                 std::uint64_t data_begin) {
  json::parse_options options;
  options.max_depth = 64;
  boost::system::error_code failed;
  const json::value whole = json::parse(text, failed, {}, options);
  hold(!failed && whole.is_object(), "Boost.JSON reads what we read");
  std::size_t tensors = 0;
  for (const auto& [name, described] : whole.get_object()) {
    if (name == "__metadata__") continue;
    ++tensors;
    const json::object& o = described.get_object();
    const auto begin = o.at("data_offsets").get_array().at(0).to_number<std::uint64_t>();
    const auto end = o.at("data_offsets").get_array().at(1).to_number<std::uint64_t>();
    const entry* same = nullptr;
    for (const entry& e : found.tensors) {
      if (e.name == std::string_view(name.data(), name.size())) same = &e;
    }
    hold(same != nullptr, "each tensor that Boost.JSON sees is there");
    hold(same->offset == data_begin + begin && same->bytes == end - begin, "at the same extent");
    hold(ringload::name(same->dtype) == std::string_view(o.at("dtype").get_string()),
         "of the same dtype");
    hold(o.at("shape").get_array().size() == same->shape.size(), "of the same rank");
  }
  hold(tensors == found.tensors.size(), "and no other");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(input, size));
  if (size < length_bytes) return 0;
  ringload::testing::number_source numbers(bytes.first(length_bytes));
  const auto header = bytes.subspan(length_bytes);
  const std::uint64_t data_begin = safetensors_prefix_bytes + header.size();
  const std::uint64_t file_bytes = data_begin + numbers.take(length_bytes);

  const auto strict = parse_safetensors(header, file_bytes, strictness::strict);
  const auto lax = parse_safetensors(header, file_bytes, strictness::reference);
  if (strict) {
    hold(lax.has_value(), "the reference profile accepts what the strict one does");
    hold(lax->tensors.size() == strict->tensors.size(), "and finds as many tensors");
    check_extents(*strict, data_begin, file_bytes);
    check_against_second_reader(
        *strict, {reinterpret_cast<const char*>(header.data()), header.size()}, data_begin);
  } else {
    hold(!message_of(strict.error()).empty(), "a refusal says something");
  }
  if (lax) check_extents(*lax, data_begin, file_bytes);
  return 0;
}
