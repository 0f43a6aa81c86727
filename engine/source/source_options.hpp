// SPDX-License-Identifier: Apache-2.0
#pragma once

// How the files of a source are read, and with what.

#include <ringload/catalog.hpp>

namespace ringload::inline v0 {

class hdf5_library;

struct source_options {
  source_options(const read_options& how, const hdf5_library* with = nullptr) noexcept
      : reading(how), hdf5(with) {}
  source_options(profile strictness) noexcept : reading(strictness) {}

  read_options reading;
  const hdf5_library* hdf5 = nullptr;  // Null: HDF5 files are refused.
};

}  // namespace ringload::inline v0
