// SPDX-License-Identifier: Apache-2.0
#include "source/read_entries.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "formats/detect.hpp"
#include "formats/safetensors.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::uint64_t index_bytes_max = 100'000'000;  // As for a header: nothing real comes near.

// What the file looks like; its name decides only where the first bytes do not.
result<format_guess> guess_format(const regular_file& file, std::string_view name) {
  const std::uint64_t probe_bytes = std::min<std::uint64_t>(file.bytes, format_probe_bytes);
  auto first = read_bytes(file, 0, static_cast<std::size_t>(probe_bytes));
  if (!first) return first.error();
  return format_of(*first, name);
}

fault foreign(format_guess guess, std::string_view wanted) {
  std::string cause = sentence_of(guess);
  if (guess.format != file_format::git_lfs_pointer) cause += "; " + std::string(wanted);
  return {errc::not_a_checkpoint, "", std::move(cause)};
}

result<file_entries> read_safetensors(const regular_file& file, profile strictness) {
  const auto prefix_bytes =
      static_cast<std::size_t>(std::min(file.bytes, safetensors_prefix_bytes));
  auto prefix = read_bytes(file, 0, prefix_bytes);
  if (!prefix) return prefix.error();
  auto end = safetensors_header_end(*prefix, file.bytes);
  if (!end) return end.error();
  // The header lies in the file, so that no more is allocated than the file holds.

  auto header = read_bytes(file, safetensors_prefix_bytes,
                           static_cast<std::size_t>(*end - safetensors_prefix_bytes));
  if (!header) return header.error();
  return parse_safetensors(*header, file.bytes, strictness);
}

result<parsed_file> as(std::string_view format, result<file_entries> found) {
  if (!found) return found.error();
  return parsed_file{format, std::move(*found)};
}

}  // namespace

result<parsed_file> read_entries(const regular_file& file, std::string_view name,
                                 profile strictness) {
  auto guess = guess_format(file, name);
  if (!guess) return guess.error();
  switch (guess->format) {
    case file_format::unknown:  // Perhaps a damaged safetensors file: its parser says what is
                                // wrong.
    case file_format::safetensors: return as("safetensors", read_safetensors(file, strictness));
    default: return foreign(*guess, "only safetensors files can be loaded");
  }
}

result<std::vector<std::byte>> read_index_text(const regular_file& file) {
  auto guess = guess_format(file, {});
  if (!guess) return guess.error();
  if (guess->format != file_format::json && guess->format != file_format::unknown) {
    return foreign(*guess, "a shard index is JSON text");
  }
  if (file.bytes > index_bytes_max) {
    return fault{errc::malformed_index, "",
                 "the index has " + grouped(file.bytes) + " bytes, and no more than " +
                     grouped(index_bytes_max) + " are allowed"};
  }
  return read_bytes(file, 0, static_cast<std::size_t>(file.bytes));
}

}  // namespace ringload::inline v0
