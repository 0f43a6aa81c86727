// SPDX-License-Identifier: Apache-2.0
#include "aws_profile.hpp"

#include <algorithm>

#include "text.hpp"

namespace ringload::tool {

namespace {

constexpr std::string_view blanks = " \t\r";

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return out;
}

std::string_view take_line(std::string_view& text) noexcept {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text = end == text.npos ? std::string_view() : text.substr(end + 1);
  return line;
}

// Returns the name of the section that begins in this line. Several blanks become one blank: the
// name of "[profile  x ]" is "profile x".
std::string section_of(std::string_view line) {
  std::string_view name = trimmed(line.substr(1, line.find(']') - 1));
  std::string out;
  for (const char c : name) {
    const bool blank = blanks.find(c) != blanks.npos;
    if (!blank || !out.ends_with(' ')) out += blank ? ' ' : c;
  }
  return out;
}

}  // namespace

std::map<std::string, std::string> aws_section(std::string_view text, std::string_view section) {
  std::map<std::string, std::string> out;
  bool inside = false;
  std::string parent;
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    const std::string_view content = trimmed(line);
    if (content.empty() || content.front() == '#' || content.front() == ';') continue;
    if (content.front() == '[') {
      inside = content.find(']') != content.npos && section_of(content) == section;
      parent.clear();
      continue;
    }
    const std::size_t equals = content.find('=');
    if (!inside || equals == content.npos) continue;
    const std::string key = lower(trimmed(content.substr(0, equals)));
    // A '#' or ';' begins a comment only after a blank. Otherwise the character belongs to the
    // value, for example to a secret.
    std::string_view value = content.substr(equals + 1);
    for (const std::string_view mark : {" #", " ;", "\t#", "\t;"}) {
      value = value.substr(0, value.find(mark));
    }
    value = trimmed(value);
    const bool nested = blanks.find(line.front()) != blanks.npos;
    if (!nested) parent = value.empty() ? key : std::string();
    out[nested && !parent.empty() ? parent + "." + key : key] = value;
  }
  return out;
}

std::string aws_config_section(const std::string& profile) {
  return profile == "default" ? profile : "profile " + profile;
}

}  // namespace ringload::tool
