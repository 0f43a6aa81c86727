// SPDX-License-Identifier: Apache-2.0

#include "formats/checksum_list.hpp"

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "base/printable.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::string_view hex_digits = "0123456789abcdef";

// Accepts lower and upper case.
std::optional<unsigned> digit(char c) noexcept {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a' + 10);
  if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A' + 10);
  return std::nullopt;
}

std::optional<std::vector<std::byte>> bytes_of_hex(std::string_view text, std::size_t count) {
  if (text.size() != 2 * count) return std::nullopt;
  std::vector<std::byte> bytes;
  bytes.reserve(count);
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const auto high = digit(text[i]);
    const auto low = digit(text[i + 1]);
    if (!high || !low) return std::nullopt;
    bytes.push_back(static_cast<std::byte>(*high << 4U | *low));
  }
  return bytes;
}

bool is_one_byte_control(char c) noexcept {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
}

// Returns true for the two bytes of U+0080 to U+009F, which are control characters too.
bool is_two_byte_control(std::string_view bytes) noexcept {
  return bytes.size() == 2 && bytes[0] == '\xC2' && static_cast<unsigned char>(bytes[1]) < 0xA0;
}

void append_hex_escape(std::string& text, char c) {
  text += "\\x";
  text += hex_digits[static_cast<unsigned char>(c) >> 4U];
  text += hex_digits[static_cast<unsigned char>(c) & 15U];
}

std::string escaped(std::string_view name) {
  std::string text;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    switch (c) {
      case '\\': text += "\\\\"; break;
      case '\n': text += "\\n"; break;
      case '\r': text += "\\r"; break;
      case '\t': text += "\\t"; break;
      default:
        if (is_one_byte_control(c)) {
          append_hex_escape(text, c);
        } else if (is_two_byte_control(name.substr(i, 2))) {
          append_hex_escape(text, c);
          append_hex_escape(text, name[++i]);
        } else {
          text += c;
        }
    }
  }
  return text;
}

std::optional<std::string> unescaped(std::string_view text) {
  std::string name;
  while (!text.empty()) {
    const char c = text.front();
    text.remove_prefix(1);
    if (c != '\\') {
      name += c;
      continue;
    }
    if (text.empty()) return std::nullopt;
    const char kind = text.front();
    text.remove_prefix(1);
    switch (kind) {
      case '\\': name += '\\'; break;
      case 'n': name += '\n'; break;
      case 'r': name += '\r'; break;
      case 't': name += '\t'; break;
      case 'x': {
        const auto code = bytes_of_hex(text.substr(0, 2), 1);
        if (!code) return std::nullopt;
        name += static_cast<char>(code->front());
        text.remove_prefix(2);
        break;
      }
      default: return std::nullopt;
    }
  }
  return name;
}

std::optional<digest_algorithm> algorithm_named(std::string_view word) noexcept {
  for (const auto algorithm : {digest_algorithm::crc32c, digest_algorithm::sha256}) {
    if (name(algorithm) == word) return algorithm;
  }
  return std::nullopt;
}

result<tensor_digest> parse_line(std::string_view line) {
  const auto wrong = [](std::string cause) {
    return fault{errc::malformed_checksum_list, "", std::move(cause)};
  };
  const bool is_escaped = line.starts_with('\\');
  if (is_escaped) line.remove_prefix(1);

  const std::size_t space = line.find(' ');
  const auto algorithm = algorithm_named(line.substr(0, space));
  if (!algorithm) {
    return wrong("'" + printable(line.substr(0, space)) +
                 "' is an unknown algorithm, expected crc32c or sha256");
  }
  line.remove_prefix(std::min(space, line.size() - 1) + 1);

  const std::size_t gap = line.find("  ");
  const std::size_t count = digest_bytes(*algorithm);
  auto expected = bytes_of_hex(line.substr(0, gap), count);
  if (!expected) {
    return wrong("a " + std::string(name(*algorithm)) + " has " + std::to_string(2 * count) +
                 " hexadecimal digits");
  }
  if (gap == std::string_view::npos)
    return wrong("expected two spaces and the tensor's name after the digest");
  line.remove_prefix(gap + 2);

  // U+0080 to U+009F are accepted, because ringload wrote them without an escape until 2026-11.
  if (std::ranges::any_of(line, is_one_byte_control)) {
    return wrong("an unescaped control character; a line must end with \\n only");
  }
  auto name = is_escaped ? unescaped(line) : std::string(line);
  if (!name) return wrong("an invalid escape in the name, expected \\\\, \\n, \\r, \\t or \\x00");
  tensor_digest digest;
  digest.name = std::move(*name);
  digest.algorithm = *algorithm;
  digest.bytes = std::move(*expected);
  return digest;
}

}  // namespace

std::string_view name(digest_algorithm algorithm) noexcept {
  switch (algorithm) {
    case digest_algorithm::crc32c: return "crc32c";
    case digest_algorithm::sha256: return "sha256";
  }
  return "unknown";
}

std::size_t digest_bytes(digest_algorithm algorithm) noexcept {
  return algorithm == digest_algorithm::crc32c ? 4 : 32;
}

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte b : bytes) {
    text += hex_digits[static_cast<unsigned>(b) >> 4U];
    text += hex_digits[static_cast<unsigned>(b) & 15U];
  }
  return text;
}

result<checksum_list> parse_checksum_text(std::string_view text, const std::string& place) {
  checksum_list parsed;
  parsed.place = place;
  std::unordered_set<std::string> names;
  for (std::uint64_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == '#') continue;

    auto digest = parse_line(line);
    if (digest && !names.insert(digest->name).second) {
      digest =
          fault{errc::malformed_checksum_list, "", tensor_place(digest->name) + " is listed twice"};
    }
    if (!digest) return digest.error().in(printable_path(place) + ": line " + grouped(number));
    parsed.tensors.push_back(std::move(*digest));
  }
  return parsed;
}

checksum_list parse_checksum_list(std::string_view text, std::string place) {
  auto parsed = parse_checksum_text(text, place);
  if (!parsed) throw to_error(parsed.error());
  return std::move(*parsed);
}

std::string checksum_line(const tensor_digest& digest) {
  const std::string shown = escaped(digest.name);
  return (shown == digest.name ? "" : "\\") + std::string(name(digest.algorithm)) + " " +
         hex(digest.bytes) + "  " + shown + "\n";
}

}  // namespace ringload::inline v0
