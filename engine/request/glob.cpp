// SPDX-License-Identifier: Apache-2.0

// Matches names against patterns such as "model.layers.*". The syntax is the same as in Python's
// fnmatch. The function compares bytes, without recursion.

#include <cstddef>
#include <ringload/selection.hpp>

namespace ringload::inline v0 {

namespace {

// Returns the position after the closing bracket of the set that begins at `position`. Returns 0 if
// the set has no closing bracket. In this case, the opening bracket matches itself. A closing
// bracket at the beginning of the set is an element of the set.
std::size_t end_of_set(std::string_view glob, std::size_t position) noexcept {
  std::size_t first = position + 1;
  if (first < glob.size() && glob[first] == '!') ++first;
  const std::size_t close = glob.find(']', first + 1);
  return close == std::string_view::npos ? 0 : close + 1;
}

bool in_set(std::string_view set, char c) noexcept {
  const auto code = [](char character) { return static_cast<unsigned char>(character); };
  const bool inverted = set.front() == '!';
  if (inverted) set.remove_prefix(1);
  bool is_in_set = false;
  for (std::size_t i = 0; i < set.size(); ++i) {
    if (i + 2 < set.size() && set[i + 1] == '-') {
      is_in_set = is_in_set || (code(set[i]) <= code(c) && code(c) <= code(set[i + 2]));
      i += 2;
    } else {
      is_in_set = is_in_set || set[i] == c;
    }
  }
  return is_in_set != inverted;
}

// Returns true if the item of the pattern at `position` matches `c`, and moves `position` to the
// next item. The item must not be a star.
bool item_matches(std::string_view glob, std::size_t& position, char c) noexcept {
  if (position >= glob.size()) return false;
  if (glob[position] == '[') {
    const std::size_t end = end_of_set(glob, position);
    if (end != 0) {
      if (!in_set(glob.substr(position + 1, end - position - 2), c)) return false;
      position = end;
      return true;
    }
  } else if (glob[position] == '?') {
    ++position;
    return true;
  }
  if (glob[position] != c) return false;
  ++position;
  return true;
}

}  // namespace

// After a mismatch, only the last star is extended. An earlier star need not be extended, because
// the last star can match the same text.
bool matches(std::string_view glob, std::string_view text) noexcept {
  std::size_t position = 0;
  std::size_t text_position = 0;
  std::size_t after_star = std::string_view::npos;
  std::size_t star_end = 0;
  while (text_position < text.size()) {
    if (position < glob.size() && glob[position] == '*') {
      after_star = ++position;
      star_end = text_position;
    } else if (item_matches(glob, position, text[text_position])) {
      ++text_position;
    } else if (after_star != std::string_view::npos) {
      position = after_star;
      text_position = ++star_end;
    } else {
      return false;
    }
  }
  while (position < glob.size() && glob[position] == '*') ++position;
  return position == glob.size();
}

}  // namespace ringload::inline v0
