// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ringload/catalog.hpp>
#include <ringload/extension.hpp>
#include <span>
#include <stop_token>
#include <utility>

#include "io/header_reader.hpp"

namespace ringload::inline v0 {

struct source_options {
  source_options(const read_options& options, std::span<const extension> loader_extensions = {},
                 std::stop_token stopped = {}) noexcept
      : reading(options), extensions(loader_extensions), stop(std::move(stopped)) {}
  source_options(strictness strictness) noexcept : reading(strictness) {}

  // Returns the reader for HDF5. If the result is null, HDF5 files are refused.
  const hdf5_library* hdf5() const noexcept {
    for (const extension& candidate : extensions) {
      if (candidate.hdf5() != nullptr) return candidate.hdf5().get();
    }
    return nullptr;
  }

  read_options reading;
  std::span<const extension> extensions;
  std::stop_token stop;  // A stop request ends blocking calls to a store.
  header_reads headers = {};
  // If true, the source must be a folder. Every tensor file in the folder and in its sub-folders is
  // an independent checkpoint.
  bool independent_files = false;
};

}  // namespace ringload::inline v0
