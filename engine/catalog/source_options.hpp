// SPDX-License-Identifier: Apache-2.0
#pragma once

// How the files of a source are read, and with what.

#include <ringload/catalog.hpp>
#include <ringload/extension.hpp>
#include <span>
#include <stop_token>
#include <utility>

namespace ringload::inline v0 {

struct source_options {
  source_options(const read_options& how, std::span<const extension> extensions = {},
                 std::stop_token stopped = {}) noexcept
      : reading(how), with(extensions), stop(std::move(stopped)) {}
  source_options(strictness strictness) noexcept : reading(strictness) {}

  // What reads HDF5; null: nothing, and such files are refused.
  const hdf5_library* hdf5() const noexcept {
    for (const extension& each : with) {
      if (each.hdf5() != nullptr) return each.hdf5().get();
    }
    return nullptr;
  }

  read_options reading;
  std::span<const extension> with;
  std::stop_token stop;  // Requested: what blocks on a store is to end.
  // The source is a folder, and every checkpoint file in it and in its sub-folders is taken for
  // itself.
  bool independent_files = false;
};

}  // namespace ringload::inline v0
