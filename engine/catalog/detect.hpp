// SPDX-License-Identifier: Apache-2.0
#pragma once

// Guesses the format of a file from its first bytes or, if they match no format, from its name. The
// guess chooses the parser, or the message that refuses the file.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ringload::inline v0 {

enum class file_format : std::uint8_t {
  unknown,
  safetensors,
  gguf,
  npy,
  zip,     // PyTorch since 1.6, NPZ, Keras 3: the names of the members say which.
  pickle,  // PyTorch before 1.6.
  onnx,
  hdf5,
  zt,      // zTensor 1.x: "ZTEN1000".
  zt_0_1,  // zTensor 0.1: "ZTEN0001".
  zt_2,    // zTensor 2.x, which shares nothing with 1.x but the extension.
  tar,
  gzip,
  zstd,
  xz,
  bzip2,
  json,
  html,
  git_lfs_pointer,
};

struct format_guess {
  file_format format = file_format::unknown;
  bool by_name_only = false;  // The first bytes are not those of the format, or there are none.
};

// Number of bytes that format_of() uses. The magic number of tar is the last one, at byte 257.
inline constexpr std::size_t format_probe_bytes = 512;

// `first_bytes` are the first format_probe_bytes of the file, or all that it has; `name` is the
// file's name or path. The bytes decide before the name does: a checkpoint may be called anything.
format_guess format_of(std::span<const std::byte> first_bytes, std::string_view name) noexcept;

// "a GGUF file"
std::string_view noun_of(file_format format) noexcept;

// One sentence without a full stop: "this is a GGUF file", or that only the name says so. A git-lfs
// pointer comes with what to do about it. Empty for an unknown format.
std::string sentence_of(format_guess guess);

}  // namespace ringload::inline v0
