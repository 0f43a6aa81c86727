// SPDX-License-Identifier: Apache-2.0
#pragma once

// Optional features of a loader. An extension is in its own library, and only programs that use the
// extension link the library:
//
//   ringload::loader loader{ringload::host(), {}, {ringload::hdf5()}};

#include <memory>
#include <utility>

namespace ringload::inline v0 {

class byte_store;
class hdf5_library;

/// A copyable value. Several loaders may share extensions, from any thread.
class extension {
 public:
  /// A custom store: see <ringload/byte_source.hpp>. If several stores accept a name, the first
  /// store is used.
  explicit extension(std::shared_ptr<byte_store> from) noexcept : store_(std::move(from)) {}

  /// For functions that create an extension: `hdf5()`.
  explicit extension(std::shared_ptr<const hdf5_library> reads_hdf5) noexcept
      : hdf5_(std::move(reads_hdf5)) {}

  /// Null for extensions of another kind.
  const std::shared_ptr<byte_store>& store() const noexcept { return store_; }
  const std::shared_ptr<const hdf5_library>& hdf5() const noexcept { return hdf5_; }

 private:
  std::shared_ptr<byte_store> store_;
  std::shared_ptr<const hdf5_library> hdf5_;
};

}  // namespace ringload::inline v0
