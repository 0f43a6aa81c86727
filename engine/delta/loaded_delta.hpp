// SPDX-License-Identifier: Apache-2.0
#pragma once

// A delta file that was loaded and checked. Applies its changes to the tensors of a base version.

#include <cstdint>
#include <optional>
#include <ringload/model.hpp>
#include <ringload/source.hpp>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "delta/byte_change.hpp"
#include "delta/delta_code.hpp"
#include "delta/delta_contents.hpp"
#include "delta/delta_job.hpp"

namespace ringload::inline v0::detail {

// A tensor of the base version, and the memory for the same tensor of the next version.
struct applied_tensor {
  std::string_view name;
  const tensor_change* change = nullptr;  // Null if the tensor is unchanged.
  std::span<const std::byte> before;      // Empty if the delta adds the tensor.
  // The dtype and the shape of the next version.
  ringload::dtype dtype = dtype::u8;
  std::vector<std::uint64_t> shape;
  // Memory for the next version. If the tensor is changed in place, `after` is the memory of
  // `before`. Not used if the tensor is unchanged.
  std::span<std::byte> after;
  std::uint32_t crc = 0;    // Set by apply(): the CRC-32C of the next version.
  bool is_changed = false;  // Set by apply(): true if `after` may differ from the old bytes.
  // Set by apply(): true if `after` has bytes of both versions, and the old bytes are lost.
  bool has_mixed_versions = false;
  byte_change decoded;  // Set by apply() if the change is a frame.
};

// Returns the path of the source for error texts.
std::string place_of_source(const source& from);

class loaded_delta {
 public:
  // Loads the delta file, and does all checks that need no base version. Throws ringload::error.
  loaded_delta(const delta_services& services, const source& from);

  const delta_contents& contents() const noexcept { return contents_; }
  const model& file() const noexcept { return file_; }
  const std::string& place() const noexcept { return place_; }
  // Fails unless `crc` is the digest of the base version of the tensor.
  result<void> check_base(std::string_view name, std::uint32_t crc) const;
  // Fails unless `crc` is the digest of the next version of the tensor.
  result<void> check_result(std::string_view name, std::uint32_t crc) const;
  // Returns a tensor of the base version with its change. Fails if the change is a sparse or dense
  // difference and has another dtype or shape.
  result<applied_tensor> find_change(std::string_view name, std::span<const std::byte> before,
                                     dtype type, std::span<const std::uint64_t> shape) const;
  // Returns the name of a tensor that the base must have, but that is not in `names`. Returns null
  // if no tensor is missing.
  const std::string* find_missing(const std::set<std::string_view>& names) const;
  // Returns the difference of a tensor. The kind of the change must not be `whole`. The difference
  // of a frame exists only after apply().
  change_view view_of(const applied_tensor& tensor) const;
  std::span<const std::byte> bytes_of_whole(const tensor_change& change) const;

  // Writes the next version of a tensor to `tensor.after`, and checks the digests. If a check fails
  // and `tensor.is_changed` is true, a caller that changes in place must restore the old bytes.
  //
  // For a sparse or dense difference, only the digest of the result is computed. The difference
  // converts exactly one base to this result, so a wrong base always leads to a wrong result. The
  // digest of the result detects a wrong base as reliably as a digest of the base. After a failure,
  // the digest of the base is computed to find the cause. A delta with an index has no digest of
  // the base.
  //
  // A GPU that runs kernels changes and verifies its tensors itself, if the change is a sparse or
  // dense difference. Other changes are applied and verified on the host, and copied to the GPU.
  result<void> apply(applied_tensor& tensor) const;
  // Undoes apply() for a tensor that was changed in place. A change of the kind `whole` cannot be
  // undone.
  result<void> undo(const applied_tensor& tensor) const noexcept;

 private:
  result<void> check_change_of(const tensor_change& change) const;
  change_view difference_of(const tensor_change& change) const;
  // Implement apply() for a tensor in host memory, and for a tensor in the memory of another
  // device.
  result<void> apply_on_host(applied_tensor& tensor) const;
  result<void> apply_on_device(applied_tensor& tensor) const;
  // Applies a difference by kernels of the device. Returns false if the device cannot do that.
  result<bool> apply_by_device(applied_tensor& tensor) const;
  // Decodes the frame of a tensor.
  result<void> decode(applied_tensor& tensor) const;
  result<void> check_digest(const applied_tensor& tensor, const std::string& digest) const;
  // Implements apply_on_host() for a change of the kind `whole`.
  result<void> replace(applied_tensor& tensor) const;

  const device_bytes memory_;  // Accesses the memory of the tensors.
  const std::string place_;
  model file_;
  delta_contents contents_;
};

// The position of a delta in a chain. Only a delta with an index is checked: the version names in
// the index must match this position. A delta in a .zt file has digests of both versions instead.
struct expected_link {
  std::string base_identity;  // The version of the base. Empty if the version is unknown.
  std::optional<std::uint64_t> version;  // The number of the next version, if it is known.
};

struct applied_delta {
  model next;
  std::string identity;  // The version of `next`, if the delta has an index.
};

// Returns the next version of `request.base`. Throws ringload::error. Fails with
// errc::malformed_index if the delta has an index and is for another position in the chain.
applied_delta apply_delta(const delta_services& services, const apply_request& request,
                          const expected_link& link = {});

}  // namespace ringload::inline v0::detail
