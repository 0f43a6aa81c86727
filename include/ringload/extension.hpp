// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a loader may use beyond what every ringload has. An extension comes from a library of its
// own, and only a program that names it links that library:
//
//   ringload::loader loader{ringload::host(), {}, {ringload::hdf5()}};

#include <memory>
#include <utility>

namespace ringload::inline v0 {

class byte_store;
class hdf5_library;

/// A value to be copied at will. Extensions may be used by several loaders, and from any thread.
class extension {
 public:
  /// A store of the program's own, or another's: see <ringload/byte_source.hpp>. Of several that
  /// know a name the first is asked.
  explicit extension(std::shared_ptr<byte_store> from) noexcept : store_(std::move(from)) {}

  /// For the functions that make an extension: `hdf5()`.
  explicit extension(std::shared_ptr<const hdf5_library> reads_hdf5) noexcept
      : hdf5_(std::move(reads_hdf5)) {}

  /// Null where it is another extension.
  const std::shared_ptr<byte_store>& store() const noexcept { return store_; }
  const std::shared_ptr<const hdf5_library>& hdf5() const noexcept { return hdf5_; }

 private:
  std::shared_ptr<byte_store> store_;
  std::shared_ptr<const hdf5_library> hdf5_;
};

}  // namespace ringload::inline v0
