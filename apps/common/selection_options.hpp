// SPDX-License-Identifier: Apache-2.0
#pragma once

// Command-line options that select tensors, and ranges of tensors.

#include <CLI/CLI.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "options.hpp"
#include "selection_text.hpp"

namespace ringload::tool {

/// Adds an option that may be given several times, with one value each time.
template <class Take>
CLI::Option* add_repeatable(CLI::App& to, const std::string& option, const std::string& type,
                            const Take& take, const std::string& help) {
  const auto take_all = [take](const std::vector<std::string>& texts) {
    for (const std::string& text : texts) take(text);
  };
  return to
      .add_option_function<std::vector<std::string>>(option, take_all, help)
      // Otherwise the option would also take the next argument, which may be the source.
      ->allow_extra_args(false)
      ->type_name(type);
}

/// Returns the result of `parse`. If `parse` fails, throws a usage error with the option and the
/// text.
template <class Parse>
auto parsed_for(const std::string& option, const std::string& text, const Parse& parse) {
  try {
    return parse(text);
  } catch (const std::invalid_argument& wrong) {
    refuse(option, text, wrong.what());
  }
}

/// Adds options that select whole tensors by name.
inline void add_globs(CLI::App& to, selection_text& wanted) {
  add_repeatable(
      to, "--select", "GLOB", [&wanted](const std::string& text) { wanted.select.push_back(text); },
      "Load only tensors whose name matches, such as 'model.layers.0.*';\n"
      "repeatable. Default: all");
  add_repeatable(
      to, "--except", "GLOB", [&wanted](const std::string& text) { wanted.except.push_back(text); },
      "Leave out tensors whose name matches; repeatable");
}

/// Adds options that select ranges of tensors, and the shards of one rank.
inline void add_ranges(CLI::App& to, selection_text& wanted) {
  add_repeatable(
      to, "--slice", "SLICE",
      [&wanted](const std::string& text) {
        wanted.slices.push_back(parsed_for("--slice", text, parse_slice));
      },
      "Load only ranges of a tensor: 'NAME[0:128, :]'; repeatable. Negative numbers\n"
      "count from the end. A single index keeps its dimension, with size 1. The\n"
      "tensor is loaded even if no --select matches its name");
  add_repeatable(
      to, "--shard", "GLOB:DIM",
      [&wanted](const std::string& text) {
        wanted.shards.push_back(parsed_for("--shard", text, parse_shard));
      },
      "Load only the block of --rank along dimension DIM of matching tensors;\n"
      "repeatable. A block has ceil(size / N) elements; the last blocks may be\n"
      "shorter or empty");
  to.add_flag("--experts", wanted.experts,
              "Load only the experts of --rank: tensors with .experts.<n>. in their name.\n"
              "Each rank has a contiguous block of the experts");
  to.add_option_function<std::string>(
        "--rank",
        [&wanted](const std::string& text) {
          wanted.rank = parsed_for("--rank", text, parse_rank);
        },
        "Rank R of N ranks, counted from 0, for --shard and --experts")
      ->type_name("R/N");
}

/// Adds --place, which chooses the devices of tensors.
inline void add_places(CLI::App& to, selection_text& wanted) {
  add_repeatable(
      to, "--place", "[GLOB:]WHERE",
      [&wanted](const std::string& text) {
        wanted.places.push_back(parsed_for("--place", text, parse_place));
      },
      "Devices of tensors if --device has several; repeatable, the last match\n"
      "decides. all: every device. spread: the device with the fewest bytes so\n"
      "far. N: device N of the list, counted from 0. dimN: split into blocks along\n"
      "dimension N, one for each device. Default: 0");
}

}  // namespace ringload::tool
