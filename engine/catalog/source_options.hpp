// SPDX-License-Identifier: Apache-2.0
#pragma once

// Options and extensions for reading the files of a source.

#include <ringload/catalog.hpp>
#include <ringload/extension.hpp>
#include <span>
#include <stop_token>
#include <utility>

namespace ringload::inline v0 {

struct source_options {
  source_options(const read_options& options, std::span<const extension> extensions = {},
                 std::stop_token stopped = {}) noexcept
      : reading(options), with(extensions), stop(std::move(stopped)) {}
  source_options(strictness strictness) noexcept : reading(strictness) {}

  // The reader for HDF5. If null, HDF5 files are refused.
  const hdf5_library* hdf5() const noexcept {
    for (const extension& candidate : with) {
      if (candidate.hdf5() != nullptr) return candidate.hdf5().get();
    }
    return nullptr;
  }

  read_options reading;
  std::span<const extension> with;
  std::stop_token stop;  // A stop request ends blocking calls to a store.
  // The source is a folder, and every checkpoint file in it and in its sub-folders is taken for
  // itself.
  bool independent_files = false;
};

}  // namespace ringload::inline v0
