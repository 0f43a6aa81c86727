// SPDX-License-Identifier: Apache-2.0
#pragma once

// Files in which the offset determines each byte, so that a byte at the wrong offset is noticed.

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "base/unique_fd.hpp"
#include "support/cold_file.hpp"
#include "support/safetensors_text.hpp"

namespace ringload::testing {

// The bytes at two offsets that are close together, or a power of two apart, usually differ.
inline std::byte noise_at(std::uint64_t offset) noexcept {
  return static_cast<std::byte>((offset * 0x9E3779B97F4A7C15ULL) >> 56);
}

inline std::string noise(std::uint64_t bytes) {
  std::string out(bytes, '\0');
  for (std::uint64_t at = 0; at < bytes; ++at) out[at] = static_cast<char>(noise_at(at));
  return out;
}

// Returns true if `memory` has the bytes of such a file from `offset` on.
inline bool is_noise(std::span<const std::byte> memory, std::uint64_t offset) noexcept {
  for (std::size_t i = 0; i < memory.size(); ++i) {
    if (memory[i] != noise_at(offset + i)) return false;
  }
  return true;
}

inline unique_fd open_file(const std::filesystem::path& path, int flags = O_RDONLY) {
  unique_fd fd(::open(path.c_str(), flags | O_CLOEXEC));
  if (!fd) throw std::runtime_error("cannot open " + path.string());
  return fd;
}

inline void write_noise(const std::filesystem::path& path, std::uint64_t bytes) {
  write_file(path, noise(bytes));
}

}  // namespace ringload::testing
