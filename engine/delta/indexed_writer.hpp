// SPDX-License-Identifier: Apache-2.0
#pragma once

// Writes a delta with an index: a folder with safetensors files and model.safetensors.index.json.
// The folder becomes visible when all files are complete.

#include <cstddef>
#include <cstdint>
#include <ringload/atomic_file.hpp>
#include <ringload/delta.hpp>
#include <ringload/error.hpp>
#include <string>
#include <utility>
#include <vector>

#include "delta/delta_job.hpp"
#include "delta/running_digest.hpp"
#include "formats/shard_index.hpp"

namespace ringload::inline v0::detail {

// The result of pack_difference(). If both versions of the tensor are equal, `is_changed` is false
// and the other members are empty.
struct packed_tensor {
  std::vector<std::byte> frame;  // The compressed difference.
  std::string digest;            // The hexadecimal digest of the next version.
  bool is_changed = false;
};

// Compresses the difference of two versions of a tensor, which must have the same size.
result<packed_tensor> pack_difference(const indexed_delta& layout, int zstd_level,
                                      std::span<const std::byte> before,
                                      std::span<const std::byte> after);

class indexed_writer {
 public:
  // Creates the folder. Throws ringload::error.
  indexed_writer(const delta_services& services, const delta_request& request);

  void add(const std::string& name, packed_tensor tensor);
  // Writes the index, and makes the folder visible. Returns the number of bytes of all files.
  std::uint64_t finish();

 private:
  void write_shard();
  void save_shard();
  // Returns the error with the path of the result instead of the path of the temporary folder.
  error at_target(const error& failed) const;

  const delta_services& services_;
  const delta_request& request_;
  const index_delta described_;
  atomic_file folder_;
  std::vector<std::pair<std::string, packed_tensor>> waiting_;  // The tensors of the next shard.
  std::uint64_t waiting_bytes_ = 0;
  std::vector<std::pair<std::string, std::string>> written_;  // Pairs of a tensor and a shard.
  std::uint32_t shard_count_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace ringload::inline v0::detail
