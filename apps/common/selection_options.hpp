// SPDX-License-Identifier: Apache-2.0
#pragma once

// Command-line options that choose tensors and ranges of them.

#include <CLI/CLI.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "options.hpp"
#include "selection_text.hpp"

namespace ringload::tool {

/// An option that may be given several times, each time with one value.
template <class Take>
CLI::Option* add_repeatable(CLI::App& to, const std::string& option, const std::string& type,
                            const Take& take, const std::string& help) {
  const auto take_all = [take](const std::vector<std::string>& texts) {
    for (const std::string& text : texts) take(text);
  };
  return to.add_option_function<std::vector<std::string>>(option, take_all, help)
      ->allow_extra_args(false)  // Else it would take what follows, the source, too.
      ->type_name(type);
}

/// What `parse` makes of the text, or a usage error with the option and the text.
template <class Parse>
auto parsed_for(const std::string& option, const std::string& text, const Parse& parse) {
  try {
    return parse(text);
  } catch (const std::invalid_argument& wrong) {
    refuse(option, text, wrong.what());
  }
}

/// Whole tensors by name.
inline void add_globs(CLI::App& to, selection_text& wanted) {
  add_repeatable(
      to, "--select", "GLOB", [&wanted](const std::string& text) { wanted.select.push_back(text); },
      "Only tensors whose name matches, as 'model.layers.0.*'; repeatable.\n"
      "Default: all");
  add_repeatable(
      to, "--except", "GLOB", [&wanted](const std::string& text) { wanted.except.push_back(text); },
      "Not tensors whose name matches; repeatable");
}

/// Ranges of tensors, and the share of a rank.
inline void add_ranges(CLI::App& to, selection_text& wanted) {
  add_repeatable(
      to, "--slice", "SLICE",
      [&wanted](const std::string& text) {
        wanted.slices.push_back(parsed_for("--slice", text, parse_slice));
      },
      "Of this tensor these ranges, as 'NAME[0:128, :]'; repeatable. Numbers below 0\n"
      "count from the end. A single index keeps its dimension, with size 1. The\n"
      "tensor is loaded even if no --select matches it");
  add_repeatable(
      to, "--shard", "GLOB:DIM",
      [&wanted](const std::string& text) {
        wanted.shards.push_back(parsed_for("--shard", text, parse_shard));
      },
      "Of matching tensors the block of --rank along dimension DIM; repeatable.\n"
      "Blocks have ceil(size / N) elements; the last may be shorter, or empty");
  to.add_flag("--experts", wanted.experts,
              "Of the tensors with .experts.<n>. in their name those of --rank only:\n"
              "each rank has a contiguous block of the experts");
  to.add_option_function<std::string>(
        "--rank",
        [&wanted](const std::string& text) {
          wanted.rank = parsed_for("--rank", text, parse_rank);
        },
        "Rank R, from 0 on, of N, for --shard and --experts")
      ->type_name("R/N");
}

/// Which of several devices tensors go to.
inline void add_places(CLI::App& to, selection_text& wanted) {
  add_repeatable(
      to, "--place", "[GLOB:]WHERE",
      [&wanted](const std::string& text) {
        wanted.places.push_back(parsed_for("--place", text, parse_place));
      },
      "Where tensors go, of several devices; repeatable, the last that matches a\n"
      "tensor decides. all: to each device. spread: one by one to the device with\n"
      "the fewest bytes. N: to device N of the list, from 0 on. dimN: in blocks\n"
      "along dimension N, one for each device. Default: 0");
}

}  // namespace ringload::tool
