// SPDX-License-Identifier: Apache-2.0
#include "extensions.hpp"

#ifdef RINGLOAD_WITH_HDF5
#include <filesystem>
#include <ringload/hdf5.hpp>
#include <system_error>
#include <utility>
#endif

namespace ringload::tool {

std::vector<extension> extensions() {
  std::vector<extension> all;
#ifdef RINGLOAD_WITH_HDF5
  std::error_code ignored;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", ignored);
  hdf5_process parser;
  parser.program = (self.parent_path() / "ringload-hdf5-parse").native();
  all.push_back(hdf5(std::move(parser)));
#endif
  return all;
}

}  // namespace ringload::tool
