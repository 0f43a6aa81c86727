// SPDX-License-Identifier: Apache-2.0
#pragma once

// Guesses the format of a file from its first bytes. If the bytes match no format, guesses from the
// name. read_entries() uses the guess to choose the parser, or to explain why the file is refused.

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
  zip,     // PyTorch since 1.6, NPZ, or Keras 3. The names of the members show the format.
  pickle,  // PyTorch before 1.6.
  onnx,
  hdf5,
  zt,      // zTensor 1.x: "ZTEN1000".
  zt_0_1,  // zTensor 0.1: "ZTEN0001".
  zt_2,    // zTensor 2.x. Shares only the file extension with version 1.x.
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
  // True if the name matches the format, but the first bytes match no format.
  bool by_name_only = false;
};

// Number of bytes that format_of() uses. The magic number of tar is at byte 257.
inline constexpr std::size_t format_probe_bytes = 512;

// `first_bytes` are the first format_probe_bytes bytes of the file, or all bytes of a shorter file.
// `name` is the name or path of the file. If the bytes match a format, the name is ignored, because
// a checkpoint may have any name.
format_guess format_of(std::span<const std::byte> first_bytes, std::string_view name) noexcept;

// Returns a noun with its article, for example "a GGUF file".
std::string_view noun_of(file_format format) noexcept;

// Returns a sentence without a full stop: "this is a GGUF file". If only the name matches a format,
// the sentence states this. For a git-lfs pointer, the sentence names the command that fetches the
// file. Returns an empty text for an unknown format.
std::string sentence_of(format_guess guess);

}  // namespace ringload::inline v0
