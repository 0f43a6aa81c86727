// SPDX-License-Identifier: Apache-2.0

#include "delta/running_digest.hpp"

#include <algorithm>
#include <array>
#include <ringload/verify.hpp>

#include "formats/checksum_list.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::array<std::string_view, 3> kind_names = {"crc32c", "adler32", "xxh3-128"};

constexpr std::uint32_t adler_modulus = 65'521;
// The largest number of bytes whose sums fit into 32 bits before the modulus is taken.
constexpr std::size_t adler_run_bytes = 5'552;

template <class Number>
void append_big_endian(std::vector<std::byte>& bytes, Number number) {
  for (unsigned shift = 8 * sizeof number; shift > 0; shift -= 8) {
    bytes.push_back(static_cast<std::byte>(number >> (shift - 8)));
  }
}

}  // namespace

std::string_view checksum_name(checksum_kind kind) noexcept {
  return kind_names[static_cast<std::size_t>(kind)];
}

std::optional<checksum_kind> checksum_kind_of(std::string_view text) noexcept {
  const auto found = std::ranges::find(kind_names, text.substr(0, text.find(' ')));
  if (found == kind_names.end()) return std::nullopt;
  return static_cast<checksum_kind>(found - kind_names.begin());
}

void running_digest::advance(std::size_t end) noexcept {
  const auto added = tensor_.subspan(position_, end - position_);
  position_ = end;
  if (kind_ == checksum_kind::crc32c) {
    crc_ = crc32c(added, crc_);
  } else if (kind_ == checksum_kind::xxh3_128) {
    xxh3_.advance(end);
  } else {
    std::uint32_t sum = adler_sum_;
    std::uint32_t sum_of_sums = adler_sum_of_sums_;
    for (std::size_t begin = 0; begin < added.size(); begin += adler_run_bytes) {
      for (const std::byte byte :
           added.subspan(begin, std::min(adler_run_bytes, added.size() - begin))) {
        sum += static_cast<std::uint32_t>(byte);
        sum_of_sums += sum;
      }
      sum %= adler_modulus;
      sum_of_sums %= adler_modulus;
    }
    adler_sum_ = sum;
    adler_sum_of_sums_ = sum_of_sums;
  }
}

std::string running_digest::finish() {
  advance(tensor_.size());
  std::vector<std::byte> bytes;
  if (kind_ == checksum_kind::xxh3_128) {
    const xxh3_128_value value = xxh3_.finish();
    append_big_endian(bytes, value.high);
    append_big_endian(bytes, value.low);
  } else {
    append_big_endian(
        bytes, kind_ == checksum_kind::crc32c ? crc_ : adler_sum_of_sums_ << 16U | adler_sum_);
  }
  return std::string(checksum_name(kind_)) + " " + hex(bytes);
}

}  // namespace ringload::inline v0
