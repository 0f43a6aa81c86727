// SPDX-License-Identifier: Apache-2.0

#include "save/zt/stored_component.hpp"

#include <algorithm>

#include "base/file_io.hpp"
#include "base/printable.hpp"
#include "formats/zt/zt_writing.hpp"
#include "save/zt/zt_archive.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::uint64_t stored_read_bytes = std::uint64_t{256} << 10;

std::string lower_case(std::string text) {
  for (char& letter : text) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return text;
}

}  // namespace

result<std::span<const std::byte>> hashed_component::read(std::uint64_t offset,
                                                          std::span<std::byte> buffer) {
  const auto bytes = read_fully(fd_, *part_.offset + offset, buffer);
  if (!bytes) return bytes.error();
  if (*bytes < buffer.size()) return fault{errc::truncated_file, ""};
  if (hasher_.update) hasher_.update(buffer);
  hashed_ = offset + buffer.size();
  return buffer;
}

result<void> hashed_component::compare() {
  if (!hasher_.finish) return {};
  std::vector<std::byte> buffer(stored_read_bytes);
  while (hashed_ < *part_.length) {
    const std::uint64_t step = std::min<std::uint64_t>(*part_.length - hashed_, buffer.size());
    auto bytes = read(hashed_, std::span(buffer).first(static_cast<std::size_t>(step)));
    if (!bytes) return bytes.error();
  }
  const std::string computed = zt_digest_text(*digest_kind(part_), hasher_.finish());
  if (lower_case(computed) == lower_case(part_.digest)) return {};
  return fault{errc::wrong_digest, "",
               "the digest of its component '" + printable(part_.name) + "' is " + computed +
                   ", but the digest in the file is " + printable(part_.digest)};
}

result<decoded_component> decoded_component::make(hashed_component& stored,
                                                  const zt_component& part) {
  decoded_component out(stored, part);
  if (!part.zstd) return out;
  auto zstd_decoder = make_decoder(codec::zstd, 1);
  if (!zstd_decoder) return zstd_decoder.error();
  out.decoder_ = std::move(*zstd_decoder);
  return out;
}

result<std::span<const std::byte>> decoded_component::read(std::uint64_t offset,
                                                           std::span<std::byte> buffer) {
  if (decoder_) {
    if (auto filled = decode(buffer); !filled) return filled.error();
  } else if (auto filled = stored_.read(offset, buffer); !filled) {
    return filled.error();
  }
  for (std::size_t element = 0; part_.swap_bytes > 1 && element < buffer.size();
       element += part_.swap_bytes) {
    std::ranges::reverse(buffer.subspan(element, part_.swap_bytes));
  }
  return buffer;
}

result<void> decoded_component::decode(std::span<std::byte> buffer) {
  while (!buffer.empty()) {
    auto step = decoder_->decode(undecoded_, buffer);
    if (!step) return step.error();
    undecoded_ = undecoded_.subspan(step->taken);
    buffer = buffer.subspan(step->produced);
    if (step->taken > 0 || step->produced > 0) continue;
    if (stored_bytes_read_ == *part_.length) {
      return fault{errc::malformed_stream, "", "the stream ends before all bytes are decoded"};
    }
    const std::uint64_t left = *part_.length - stored_bytes_read_;
    buffer_.resize(static_cast<std::size_t>(std::min<std::uint64_t>(left, stored_read_bytes)));
    auto bytes = stored_.read(stored_bytes_read_, buffer_);
    if (!bytes) return bytes.error();
    stored_bytes_read_ += buffer_.size();
    undecoded_ = buffer_;
  }
  return {};
}

}  // namespace ringload::inline v0
