// SPDX-License-Identifier: Apache-2.0
#pragma once

// The value of a `source`: the name of a checkpoint, or a checkpoint that is already open.

#include <ringload/byte_source.hpp>
#include <ringload/checkpoint.hpp>
#include <ringload/source.hpp>
#include <string>
#include <variant>
#include <vector>

namespace ringload::inline v0::detail {

// The paths of several files. The class wraps the std::vector, because libstdc++ 12 wrongly assumes
// that a std::variant of std::string and std::vector is never valueless. If memory is exhausted
// while the variant is copied, libstdc++ 12 destroys a value that does not exist.
struct path_list {
  std::vector<std::string> paths;
};

// The name of a checkpoint, the paths of several files, or a source that a store or a program
// supplies.
using source_name = std::variant<std::string, path_list, found_source>;

struct source_parts {
  source_name name;
  checkpoint opened;  // If empty, the checkpoint must be opened.
};

}  // namespace ringload::inline v0::detail
