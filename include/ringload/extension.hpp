// SPDX-License-Identifier: Apache-2.0
#pragma once

// Optional features of a loader. The extensions of ringload are in separate libraries. Only
// programs that use an extension link its library. Example:
//
//   ringload::loader loader{ringload::host(), {}, {ringload::hdf5()}};

#include <memory>
#include <utility>

namespace ringload::inline v0 {

class byte_store;
class hdf5_library;

/// An optional feature of a loader. The object is cheap to copy. Several loaders, in several
/// threads, may share an extension.
class extension {
 public:
  /// Creates an extension from a custom store: see <ringload/byte_source.hpp>. If several stores
  /// accept a name, the first store is used.
  explicit extension(std::shared_ptr<byte_store> custom_store) noexcept
      : store_(std::move(custom_store)) {}

  /// Internal: called only by functions that return an extension, such as `hdf5()`.
  explicit extension(std::shared_ptr<const hdf5_library> reads_hdf5) noexcept
      : hdf5_(std::move(reads_hdf5)) {}

  /// Internal: returns the store, or null if the extension is not a store.
  const std::shared_ptr<byte_store>& store() const noexcept { return store_; }
  /// Internal: returns the HDF5 library, or null if the extension does not read HDF5.
  const std::shared_ptr<const hdf5_library>& hdf5() const noexcept { return hdf5_; }

 private:
  std::shared_ptr<byte_store> store_;
  std::shared_ptr<const hdf5_library> hdf5_;
};

}  // namespace ringload::inline v0
