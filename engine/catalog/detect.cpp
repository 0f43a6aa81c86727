// SPDX-License-Identifier: Apache-2.0

#include "catalog/detect.hpp"

#include <algorithm>
#include <array>

#include "formats/safetensors/safetensors.hpp"

namespace ringload::inline v0 {

namespace {

using namespace std::string_view_literals;

struct magic_number {
  std::string_view bytes;
  file_format format;
  std::size_t offset = 0;
};

constexpr std::array<magic_number, 19> magic_numbers = {{
    {"GGUF"sv, file_format::gguf},
    {"\x93NUMPY"sv, file_format::npy},
    {"PK\x03\x04"sv, file_format::zip},
    {"PK\x05\x06"sv, file_format::zip},  // An archive without members.
    {"\x89HDF\r\n\x1A\n"sv, file_format::hdf5},
    {"ZTEN1000"sv, file_format::zt},
    {"ZTEN0001"sv, file_format::zt_0_1},
    {"\x89ZT2\r\n\x1A\n"sv, file_format::zt_2},
    {"\x1F\x8B\x08"sv, file_format::gzip},
    {"\x28\xB5\x2F\xFD"sv, file_format::zstd},
    {"\xFD\x37zXZ\0"sv, file_format::xz},
    {"BZh"sv, file_format::bzip2},
    {"version https://git-lfs"sv, file_format::git_lfs_pointer},
    {"<!"sv, file_format::html},
    {"<html"sv, file_format::html},
    {"<?xml"sv, file_format::html},
    {"{\""sv, file_format::json},
    {"{\n"sv, file_format::json},
    {"ustar"sv, file_format::tar, 257},
}};

struct format_extension {
  std::string_view text;
  file_format format;
};

constexpr std::array<format_extension, 15> format_extensions = {{
    {".safetensors", file_format::safetensors},
    {".gguf", file_format::gguf},
    {".npy", file_format::npy},
    {".npz", file_format::zip},
    {".keras", file_format::zip},
    {".pt", file_format::pickle},
    {".pth", file_format::pickle},
    {".ckpt", file_format::pickle},
    {".pkl", file_format::pickle},
    {".onnx", file_format::onnx},
    {".h5", file_format::hdf5},
    {".hdf5", file_format::hdf5},
    {".zt", file_format::zt},
    {".tar", file_format::tar},
    {".json", file_format::json},
}};

unsigned byte_at(std::string_view text, std::size_t position) noexcept {
  return position < text.size() ? static_cast<unsigned char>(text[position]) : 0U;
}

// A safetensors file begins with the length of its header, followed by white space or '{'. No file
// of another format begins like this.
bool begins_like_safetensors(std::string_view first) noexcept {
  if (first.size() <= safetensors_prefix_bytes) return false;
  std::uint64_t header_bytes = 0;
  for (std::size_t i = safetensors_prefix_bytes; i-- > 0;) {
    header_bytes = header_bytes << 8 | byte_at(first, i);
  }
  return header_bytes <= safetensors_header_bytes_max &&
         "{ \t\r\n"sv.find(first[safetensors_prefix_bytes]) != std::string_view::npos;
}

// A pickle of protocol 2 to 5 begins with 0x80 and the protocol number. The next byte is never 0.
bool begins_like_pickle(std::string_view first) noexcept {
  const unsigned protocol = byte_at(first, 1);
  return byte_at(first, 0) == 0x80 && protocol >= 2 && protocol <= 5 && byte_at(first, 2) != 0;
}

// An ONNX file is a protobuf and has no magic number. Every exporter first writes field 1, which is
// the version of the format. Only versions 3 to 31 are accepted. Version 1 is refused, because a
// TensorFlow model begins with the same field and the value 1. The next field must be another field
// of ModelProto.
bool begins_like_onnx(std::string_view first) noexcept {
  const unsigned version = byte_at(first, 1);
  const unsigned next_field = byte_at(first, 2);
  constexpr auto fields = "\x12\x1A\x22\x28\x32\x3A\x42"sv;
  return byte_at(first, 0) == 0x08 && version >= 3 && version <= 31 && next_field != 0 &&
         fields.find(static_cast<char>(next_field)) != std::string_view::npos;
}

file_format format_by_bytes(std::string_view first) noexcept {
  if (begins_like_safetensors(first)) return file_format::safetensors;
  for (const magic_number& magic : magic_numbers) {
    if (first.substr(std::min(magic.offset, first.size())).starts_with(magic.bytes)) {
      return magic.format;
    }
  }
  if (begins_like_pickle(first)) return file_format::pickle;
  if (begins_like_onnx(first)) return file_format::onnx;
  return file_format::unknown;
}

bool ends_with_extension(std::string_view name, std::string_view lower_case) noexcept {
  if (name.size() < lower_case.size()) return false;
  const auto equal = [](char c, char lower) {
    return (c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c) == lower;
  };
  return std::ranges::equal(name.substr(name.size() - lower_case.size()), lower_case, equal);
}

}  // namespace

format_guess format_of(std::span<const std::byte> first_bytes, std::string_view name) noexcept {
  const std::string_view first(reinterpret_cast<const char*>(first_bytes.data()),
                               first_bytes.size());
  if (const auto format = format_by_bytes(first); format != file_format::unknown) {
    return {format, false};
  }
  for (const format_extension& candidate : format_extensions) {
    if (ends_with_extension(name, candidate.text)) return {candidate.format, true};
  }
  return {};
}

std::string_view noun_of(file_format format) noexcept {
  switch (format) {
    case file_format::unknown: break;
    case file_format::safetensors: return "a safetensors file";
    case file_format::gguf: return "a GGUF file";
    case file_format::npy: return "a NumPy array (.npy)";
    case file_format::zip: return "a zip archive, as PyTorch (.pt) and NumPy (.npz) write them";
    case file_format::pickle: return "a Python pickle, as PyTorch before 1.6 wrote them";
    case file_format::onnx: return "an ONNX model";
    case file_format::hdf5: return "an HDF5 file";
    case file_format::zt: return "a zTensor file (.zt)";
    case file_format::zt_0_1: return "a zTensor file (.zt) of version 0.1";
    case file_format::zt_2: return "a zTensor file (.zt) of version 2";
    case file_format::tar: return "a tar archive";
    case file_format::gzip: return "a file compressed with gzip";
    case file_format::zstd: return "a file compressed with zstd";
    case file_format::xz: return "a file compressed with xz";
    case file_format::bzip2: return "a file compressed with bzip2";
    case file_format::json: return "JSON text";
    case file_format::html: return "a web page";
    case file_format::git_lfs_pointer: return "a git-lfs pointer";
  }
  return {};
}

std::string sentence_of(format_guess guess) {
  if (guess.format == file_format::unknown) return {};
  const std::string noun(noun_of(guess.format));
  if (guess.format == file_format::git_lfs_pointer) {
    return "this is " + noun + " and not the file itself: `git lfs pull` fetches the file";
  }
  if (guess.by_name_only) return "the name is that of " + noun + ", but the first bytes are not";
  return "this is " + noun;
}

}  // namespace ringload::inline v0
