// SPDX-License-Identifier: Apache-2.0
#pragma once

// Builds safetensors files byte by byte, valid or invalid.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <ios>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace ringload::testing {

// The 8 bytes with the length of the header.
inline std::string safetensors_prefix(std::uint64_t header_bytes) {
  std::string out;
  for (int i = 0; i < 8; ++i) out.push_back(static_cast<char>(header_bytes >> (8 * i) & 0xFF));
  return out;
}

inline std::string safetensors_text(std::string_view header, std::string_view data = {}) {
  return safetensors_prefix(header.size()) + std::string(header) + std::string(data);
}

// "name":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}
inline std::string tensor_text(std::string_view name, std::string_view dtype,
                               std::string_view shape, std::uint64_t begin, std::uint64_t end) {
  return '"' + std::string(name) + R"(":{"dtype":")" + std::string(dtype) + R"(","shape":[)" +
         std::string(shape) + R"(],"data_offsets":[)" + std::to_string(begin) + ',' +
         std::to_string(end) + "]}";
}

// Entries in braces, with commas between.
inline std::string header_text(std::initializer_list<std::string> entries) {
  std::string out = "{";
  for (const std::string& each : entries) out += (out.size() == 1 ? "" : ",") + each;
  return out + "}";
}

// A legal file of one U8 tensor.
inline std::string one_tensor_text(std::string_view name, std::string_view data) {
  const std::string shape = std::to_string(data.size());
  return safetensors_text(header_text({tensor_text(name, "U8", shape, 0, data.size())}), data);
}

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// Creates missing folders. One read, because reading byte by byte takes minutes with a sanitizer.
inline std::string file_text(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  std::string text(in ? static_cast<std::size_t>(in.tellg()) : 0, '\0');
  in.seekg(0);
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  return text;
}

inline void write_file(const std::filesystem::path& path, std::string_view content) {
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path());
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(content.data(), static_cast<std::streamsize>(content.size()));
  out.close();
  if (!out) throw std::runtime_error("cannot write " + path.string());
}

}  // namespace ringload::testing
