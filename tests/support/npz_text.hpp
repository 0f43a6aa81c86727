// SPDX-License-Identifier: Apache-2.0
#pragma once

// Builds NPZ archives with stored or deflated members.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "support/made_checkpoint.hpp"
#include "support/temporary_folder.hpp"
#include "support/zip_text.hpp"

namespace ringload::testing {

inline std::string npy_text(const std::string& descr, bool fortran, const std::string& shape,
                            const std::string& data) {
  std::string header = "{'descr': '" + descr +
                       "', 'fortran_order': " + (fortran ? "True" : "False") + ", 'shape': (" +
                       shape + "), }";
  header.resize((header.size() + 10 + 64) / 64 * 64 - 11, ' ');
  header += '\n';
  return std::string("\x93NUMPY\x01\x00", 8) + number(header.size(), 2) + header + data;
}

inline zip_part member(const std::string& name, const std::string& content, bool compressed) {
  zip_part part;
  part.name = part.local_name = name + ".npy";
  part.stored = compressed ? deflated(content) : content;
  part.bytes = part.local_bytes = content.size();
  part.method = part.local_method = compressed ? 8 : 0;
  part.crc = crc32(bytes_of(content), 0);
  return part;
}

// Random bytes with few different values, so that they can be compressed.
inline std::string compressible(std::uint64_t bytes, std::uint64_t seed) {
  std::string out = noise(bytes, seed);
  for (char& each : out) each = static_cast<char>(each & 0x0F);
  return out;
}

class npz_file {
 public:
  explicit npz_file(const std::vector<zip_part>& parts) { write_file(path_, zip_text(parts)); }
  std::string name() const { return path_.string(); }
  const std::filesystem::path& path() const { return path_; }

 private:
  const temporary_folder folder_;
  const std::filesystem::path path_ = folder_.path() / "arrays.npz";
};

}  // namespace ringload::testing
