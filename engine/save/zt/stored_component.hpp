// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <ringload/verify.hpp>
#include <span>
#include <utility>
#include <vector>

#include "base/fault.hpp"
#include "formats/codec/decoder.hpp"
#include "formats/zt/zt_object.hpp"

namespace ringload::inline v0 {

// Reads and hashes the stored bytes of a component of an existing .zt file, in order.
class hashed_component {
 public:
  // `fd` must stay open. `stored_hasher` computes the digest of the component. If the functions
  // of the hasher are empty, compare() reads nothing and succeeds.
  hashed_component(int fd, zt_component part, hasher stored_hasher)
      : fd_(fd), part_(std::move(part)), hasher_(std::move(stored_hasher)) {}

  result<std::span<const std::byte>> read(std::uint64_t offset, std::span<std::byte> buffer);
  // Hashes the remaining bytes, and compares the digest with the digest in the file.
  result<void> compare();

 private:
  const int fd_;
  const zt_component part_;
  const hasher hasher_;
  std::uint64_t hashed_ = 0;
};

// Reads the decoded bytes of a component, in order.
class decoded_component {
 public:
  // Both arguments must outlive the returned object.
  static result<decoded_component> make(hashed_component& stored, const zt_component& part);

  result<std::span<const std::byte>> read(std::uint64_t offset, std::span<std::byte> buffer);

 private:
  decoded_component(hashed_component& stored, const zt_component& part)
      : stored_(stored), part_(part) {}

  result<void> decode(std::span<std::byte> buffer);

  hashed_component& stored_;
  const zt_component& part_;
  std::unique_ptr<decoder> decoder_;  // Null if the component is not compressed.
  std::vector<std::byte> buffer_;
  std::span<const std::byte> undecoded_;  // Bytes of buffer_ that are not decoded yet.
  std::uint64_t stored_bytes_read_ = 0;   // Number of stored bytes that were read.
};

}  // namespace ringload::inline v0
