// SPDX-License-Identifier: Apache-2.0
#pragma once

// Options of a command line as CLI11 takes them, for the kinds of values that our programs have.
// What is refused here names the option: it is a matter of the command line.

#include <CLI/CLI.hpp>
#include <concepts>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "size.hpp"

namespace ringload::tool {

inline constexpr const char* about_sizes =
    "SIZE is a number of bytes: 4096, 64K, 1.5M, 4GiB, 8GB. K, M, G, T and KiB, MiB, GiB, TiB\n"
    "count in steps of 1,024; KB, MB, GB, TB in steps of 1,000.\n";

[[noreturn]] inline void refuse(const std::string& option, const std::string& text,
                                const std::string& why) {
  throw CLI::ValidationError(option, "'" + text + "' " + why);
}

inline CLI::Option* add_size(CLI::App& to, const std::string& option, std::uint64_t& target,
                             const std::string& help) {
  const auto take = [&target, option](const std::string& text) {
    const auto size = parse_size(text);
    if (!size) refuse(option, text, "is not a size, as 4096, 64K, 1.5M or 4GiB are");
    target = *size;
  };
  return to.add_option_function<std::string>(option, take, help)->type_name("SIZE");
}

/// Target: an unsigned integer, or an optional one.
template <class Target>
CLI::Option* add_number(CLI::App& to, const std::string& option, Target& target,
                        std::uint64_t largest, const std::string& help) {
  const auto take = [&target, option, largest](const std::string& text) {
    const auto number = parse_number(text);
    if (!number) refuse(option, text, "is not a whole number");
    if (*number > largest) refuse(option, text, "is too large");
    if constexpr (std::unsigned_integral<Target>) {
      target = static_cast<Target>(*number);
    } else {
      target = static_cast<typename Target::value_type>(*number);
    }
  };
  return to.add_option_function<std::string>(option, take, help)->type_name("N");
}

template <class Enum>
using choices = std::vector<std::pair<std::string, Enum>>;

template <class Enum>
std::string names_of(const choices<Enum>& among) {
  std::string names;
  for (const auto& [name, value] : among) names += (names.empty() ? "" : "|") + name;
  return names;
}

/// The value that `text` names; refuses it for `option` where there is none.
template <class Enum>
Enum chosen(const std::string& option, const std::string& text, const choices<Enum>& among) {
  for (const auto& [name, value] : among) {
    if (name == text) return value;
  }
  throw CLI::ValidationError(option, "'" + text + "' is none of " + names_of(among));
}

/// Target: the enum, or an optional one.
template <class Enum, class Target>
CLI::Option* add_choice(CLI::App& to, const std::string& option, Target& target,
                        const choices<Enum>& among, const std::string& help) {
  const auto take = [&target, option, among](const std::string& text) {
    target = chosen(option, text, among);
  };
  return to.add_option_function<std::string>(option, take, help)->type_name(names_of(among));
}

}  // namespace ringload::tool
