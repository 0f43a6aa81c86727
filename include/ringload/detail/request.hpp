// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a load is asked for, on its way to the engine.

#include <ringload/checkpoint.hpp>
#include <ringload/limits.hpp>
#include <ringload/selection.hpp>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ringload::inline v0::detail {

// What a user may write for a checkpoint: a name, or the paths of several files.
using source_name = std::variant<std::string, std::vector<std::string>>;

struct load_request {
  load_request() = default;
  load_request(source_name s, selection w, load_options o)
      : source(std::move(s)), wanted(std::move(w)), options(o) {}
  load_request(checkpoint c, selection w, load_options o)
      : opened(std::move(c)), wanted(std::move(w)), options(o) {}

  source_name source;
  checkpoint opened;  // Empty: the source is to be opened.
  bool independent_files = false;
  selection wanted;
  load_options options;
};

}  // namespace ringload::inline v0::detail
