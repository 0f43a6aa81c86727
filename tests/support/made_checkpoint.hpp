// SPDX-License-Identifier: Apache-2.0
#pragma once

// Checkpoints of any size on disk with random bytes, and the comparison of loaded tensors with the
// file.

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <ringload/model.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "support/cold_file.hpp"
#include "support/safetensors_text.hpp"
#include "support/temporary_folder.hpp"

namespace ringload::testing {

struct made_tensor {
  std::string name;
  std::uint64_t bytes = 0;
  std::string dtype = "U8";
  std::uint64_t element_bytes = 1;
};

inline made_tensor f32(std::string name, std::uint64_t elements) {
  return {std::move(name), elements * 4, "F32", 4};
}

// Bytes in which no two blocks are equal, and no block is all zeros or all 0xEE.
inline std::string noise(std::uint64_t bytes, std::uint64_t seed) {
  std::string out(bytes + 8, '\0');
  std::uint64_t state = seed * 0x9E3779B97F4A7C15U + 1;
  for (std::uint64_t at = 0; at < bytes; at += 8) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    const std::uint64_t mixed = state ^ (state >> 29U);
    std::memcpy(out.data() + at, &mixed, 8);
  }
  out.resize(bytes);
  return out;
}

// Adjacent tensors, as the format requires. `header_spaces` additional bytes in the header shift
// all of them.
inline std::string checkpoint_text(const std::vector<made_tensor>& tensors,
                                   std::size_t header_spaces = 0, std::uint64_t seed = 1) {
  std::string header = "{";
  std::uint64_t at = 0;
  for (const made_tensor& t : tensors) {
    if (at > 0 || header.size() > 1) header += ',';
    header +=
        tensor_text(t.name, t.dtype, std::to_string(t.bytes / t.element_bytes), at, at + t.bytes);
    at += t.bytes;
  }
  header += '}' + std::string(header_spaces, ' ');
  return safetensors_text(header, noise(at, seed));
}

// `count` tensors t0, t1, ... of this size.
inline std::vector<made_tensor> equal_tensors(unsigned count, std::uint64_t bytes) {
  std::vector<made_tensor> all;
  for (unsigned i = 0; i < count; ++i) {
    std::string name = std::to_string(i);
    name.insert(name.begin(), 't');  // g++ 12 warns of "t" + name with -O3.
    all.push_back({std::move(name), bytes});
  }
  return all;
}

// One file in a new folder.
class made_file {
 public:
  enum class as_it_is { text };

  made_file(as_it_is, const std::string& text) { write_file(path_, text); }
  explicit made_file(const std::vector<made_tensor>& tensors, std::size_t header_spaces = 0)
      : made_file(as_it_is::text, checkpoint_text(tensors, header_spaces)) {}

  const std::filesystem::path& path() const noexcept { return path_; }
  std::string name() const { return path_.string(); }

 private:
  const temporary_folder folder_;
  const std::filesystem::path path_ = folder_.path() / "model.safetensors";
};

inline std::string file_bytes(const std::string& path, std::uint64_t offset, std::uint64_t bytes) {
  std::string out(bytes, '\0');
  std::ifstream in(path, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(offset));
  in.read(out.data(), static_cast<std::streamsize>(bytes));
  if (!in && bytes > 0) throw std::runtime_error("cannot read " + path);
  return out;
}

inline std::string_view bytes_of(const tensor& t) {
  return {static_cast<const char*>(t.data()), t.size_bytes()};
}

// Returns an empty string if the tensor has the bytes of the file. Otherwise returns its name and
// the difference.
inline std::string difference(const tensor& loaded, const tensor_info& info, const catalog& in) {
  if (!loaded) return info.name + ": no tensor";
  if (loaded.name() != info.name) return info.name + ": another name";
  if (loaded.size_bytes() != info.bytes) return info.name + ": another size";
  if (loaded.data() == nullptr) return info.name + ": no address";
  if (reinterpret_cast<std::uintptr_t>(loaded.data()) % alignment(info.dtype) != 0) {
    return info.name + ": misaligned";
  }
  const std::string wanted = file_bytes(in.files[info.file].path, info.offset, info.bytes);
  return bytes_of(loaded) == wanted ? "" : info.name + ": other bytes";
}

// Describes the first tensor that differs from the file.
inline std::string first_difference(const model& loaded) {
  for (std::size_t i = 0; i < loaded.size(); ++i) {
    std::string wrong = difference(loaded[i], loaded.catalog().tensors[i], loaded.catalog());
    if (!wrong.empty()) return wrong;
  }
  return {};
}

}  // namespace ringload::testing
