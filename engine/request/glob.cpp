// SPDX-License-Identifier: Apache-2.0

// Globs as in Python's fnmatch, byte by byte, without recursion.

#include <cstddef>
#include <ringload/selection.hpp>

namespace ringload::inline v0 {

namespace {

// The end of the set that begins at `at`, one past its closing bracket; 0 if it is not closed, and
// the opening bracket is literal then. A bracket right after the opening one belongs to the set.
std::size_t end_of_set(std::string_view glob, std::size_t at) noexcept {
  std::size_t first = at + 1;
  if (first < glob.size() && glob[first] == '!') ++first;
  const std::size_t close = glob.find(']', first + 1);
  return close == std::string_view::npos ? 0 : close + 1;
}

bool in_set(std::string_view set, char c) noexcept {
  const auto code = [](char each) { return static_cast<unsigned char>(each); };
  const bool inverted = set.front() == '!';
  if (inverted) set.remove_prefix(1);
  bool found = false;
  for (std::size_t i = 0; i < set.size(); ++i) {
    if (i + 2 < set.size() && set[i + 1] == '-') {
      found = found || (code(set[i]) <= code(c) && code(c) <= code(set[i + 2]));
      i += 2;
    } else {
      found = found || set[i] == c;
    }
  }
  return found != inverted;
}

// Whether the pattern item at `at`, which is no star, matches `c`; if so, moves past it.
bool one_fits(std::string_view glob, std::size_t& at, char c) noexcept {
  if (at >= glob.size()) return false;
  if (glob[at] == '[') {
    const std::size_t end = end_of_set(glob, at);
    if (end != 0) {
      if (!in_set(glob.substr(at + 1, end - at - 2), c)) return false;
      at = end;
      return true;
    }
  } else if (glob[at] == '?') {
    ++at;
    return true;
  }
  if (glob[at] != c) return false;
  ++at;
  return true;
}

}  // namespace

// On a mismatch only the last star has to match more: whatever an earlier star could match more,
// the last one can as well.
bool matches(std::string_view glob, std::string_view text) noexcept {
  std::size_t at = 0;
  std::size_t reached = 0;
  std::size_t after_star = std::string_view::npos;
  std::size_t star_took_to = 0;
  while (reached < text.size()) {
    if (at < glob.size() && glob[at] == '*') {
      after_star = ++at;
      star_took_to = reached;
    } else if (one_fits(glob, at, text[reached])) {
      ++reached;
    } else if (after_star != std::string_view::npos) {
      at = after_star;
      reached = ++star_took_to;
    } else {
      return false;
    }
  }
  while (at < glob.size() && glob[at] == '*') ++at;
  return at == glob.size();
}

}  // namespace ringload::inline v0
