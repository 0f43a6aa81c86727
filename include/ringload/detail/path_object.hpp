// SPDX-License-Identifier: Apache-2.0
#pragma once

// Accepts std::filesystem::path as an argument. <filesystem> is not included, because <filesystem>
// would add a tenth to the compile time of <boost/asio.hpp>.

#include <concepts>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ringload::inline v0::detail {

// Matches std::filesystem::path and similar classes.
template <class T>
concept path_object = requires(const T& path) {
  { path.native() } -> std::convertible_to<std::string_view>;
};

// The path of a file or a folder as an argument: a string or a std::filesystem::path.
class path_argument {
 public:
  template <std::convertible_to<std::string_view> Text>
  path_argument(const Text& text) : path_(std::string_view(text)) {}
  template <path_object Path>
  path_argument(const Path& path) : path_(std::string_view(path.native())) {}

  std::string take() && { return std::move(path_); }

 private:
  std::string path_;
};

template <path_object Path>
std::vector<std::string> names_of(const std::vector<Path>& paths) {
  std::vector<std::string> names;
  names.reserve(paths.size());
  for (const Path& path : paths) names.emplace_back(std::string_view(path.native()));
  return names;
}

}  // namespace ringload::inline v0::detail
