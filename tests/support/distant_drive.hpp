// SPDX-License-Identifier: Apache-2.0
#pragma once

// A drive that a loader takes for a distant mount.

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <string>

#include "io/block_device_id.hpp"
#include "support/scripted_loader.hpp"

namespace ringload::testing {

// Declares the drive of the file distant. Must be called before the first operation of the loader.
inline void declare_distant(scripted_loader& with, const std::string& file) {
  struct ::stat status = {};
  REQUIRE(::stat(file.c_str(), &status) == 0);
  detail::engine& e = *with.loader_engine();
  e.post([&e, id = block_device_id(status.st_dev)] { e.drives.find_or_add(id, true); });
}

}  // namespace ringload::testing
