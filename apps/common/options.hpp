// SPDX-License-Identifier: Apache-2.0
#pragma once

// Adds options to a CLI11 command line: options for sizes, for numbers, and for values with names.
// An invalid value throws CLI::ValidationError, and the error names the option.

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
    "are powers of 1,024; KB, MB, GB, TB are powers of 1,000.\n";

[[noreturn]] inline void refuse(const std::string& option, const std::string& text,
                                const std::string& why) {
  throw CLI::ValidationError(option, "'" + text + "' " + why);
}

inline CLI::Option* add_size(CLI::App& to, const std::string& option, std::uint64_t& target,
                             const std::string& help) {
  const auto take = [&target, option](const std::string& text) {
    const auto size = parse_size(text);
    if (!size) refuse(option, text, "is invalid, expected a size such as 4096, 64K, 1.5M or 4GiB");
    target = *size;
  };
  return to.add_option_function<std::string>(option, take, help)->type_name("SIZE");
}

/// Adds an option for a number. `Target` must be an unsigned integer type, or a std::optional of an
/// unsigned integer type.
template <class Target>
CLI::Option* add_number(CLI::App& to, const std::string& option, Target& target,
                        std::uint64_t largest, const std::string& help) {
  const auto take = [&target, option, largest](const std::string& text) {
    const auto number = parse_number(text);
    if (!number || *number > largest) {
      refuse(option, text, "is invalid, expected a whole number from 0 to " + grouped(largest));
    }
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

/// Returns the value with the name `text`. If no value has this name, throws CLI::ValidationError
/// for `option`.
template <class Enum>
Enum chosen(const std::string& option, const std::string& text, const choices<Enum>& among) {
  for (const auto& [name, value] : among) {
    if (name == text) return value;
  }
  throw CLI::ValidationError(option,
                             "'" + text + "' is invalid, expected one of " + names_of(among));
}

/// Adds an option whose values have names. `Target` must be the enum, or a std::optional of the
/// enum.
template <class Enum, class Target>
CLI::Option* add_choice(CLI::App& to, const std::string& option, Target& target,
                        const choices<Enum>& among, const std::string& help) {
  const auto take = [&target, option, among](const std::string& text) {
    target = chosen(option, text, among);
  };
  return to.add_option_function<std::string>(option, take, help)->type_name(names_of(among));
}

}  // namespace ringload::tool
