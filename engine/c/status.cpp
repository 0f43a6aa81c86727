// SPDX-License-Identifier: Apache-2.0

#include "c/status.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/error.hpp>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <system_error>

#include "c/error_name.hpp"

namespace ringload::c {

namespace {

// A text with a fixed capacity, which needs no allocation. A text that exceeds the capacity is
// truncated.
class fixed_text {
 public:
  void clear() noexcept { end_ = 0; }
  // Returns false if the text was truncated.
  bool append(std::string_view text) noexcept {
    std::size_t kept = std::min(text.size(), bytes_.size() - 1 - end_);
    // A truncated text ends before a UTF-8 character, not inside the character.
    const auto continues = [&](std::size_t at) { return (text[at] & 0xC0) == 0x80; };
    while (kept > 0 && kept < text.size() && continues(kept)) --kept;
    text.copy(bytes_.data() + end_, kept);
    end_ += kept;
    bytes_[end_] = 0;
    return kept == text.size();
  }
  const char* c_str() const noexcept { return bytes_.data(); }

 private:
  std::array<char, 4096> bytes_ = {};
  std::size_t end_ = 0;
};

struct failure {
  fixed_text text;   // "place: cause", or only the cause.
  fixed_text place;  // Empty if the failure has no place.
  const char* name = "";
  int number = 0;  // A value of errno, or 0.
};

thread_local failure last = {};

// Returns the number of bytes of the UTF-8 character at the start of `text`. Returns 0 if the bytes
// are not UTF-8.
std::size_t character_bytes(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t count = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < count) return 0;
  for (std::size_t i = 1; i < count; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  // Overlong encodings, surrogates, and code points above U+10FFFF.
  if (first == 0xE0 && byte(1) < 0xA0) return 0;
  if (first == 0xED && byte(1) > 0x9F) return 0;
  if (first == 0xF0 && byte(1) < 0x90) return 0;
  if (first == 0xF4 && byte(1) > 0x8F) return 0;
  return count;
}

// Returns true if `character` is a control character (C0, DEL or C1) or ends a line.
bool breaks_line(std::string_view character) noexcept {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return first < 0x20 || first == 0x7F;
  if (first == 0xC2) return static_cast<unsigned char>(character[1]) < 0xA0;
  return character == "\xE2\x80\xA8" || character == "\xE2\x80\xA9";  // U+2028 and U+2029.
}

// Appends `text` to `out` as one line of UTF-8. Writes each byte of a control character, of a line
// separator, or of invalid UTF-8 as "\xNN". The text may come from a function of a store or from
// another library.
void append_line(fixed_text& out, std::string_view text) noexcept {
  constexpr std::string_view hex = "0123456789abcdef";
  while (!text.empty()) {
    const std::size_t count = character_bytes(text);
    const std::string_view bytes = text.substr(0, std::max<std::size_t>(count, 1));
    text.remove_prefix(bytes.size());
    if (count > 0 && !breaks_line(bytes)) {
      if (!out.append(bytes)) return;
      continue;
    }
    for (const char c : bytes) {
      const auto value = static_cast<unsigned char>(c);
      const std::array<char, 4> escape = {'\\', 'x', hex[value >> 4], hex[value & 0xF]};
      if (!out.append({escape.data(), escape.size()})) return;
    }
  }
}

void set_last(std::string_view place, std::string_view cause,
              const boost::system::error_code& code = {}) noexcept {
  last.text.clear();
  append_line(last.text, place);
  if (!place.empty()) last.text.append(": ");
  append_line(last.text, cause);
  last.place.clear();
  append_line(last.place, place);
  const bool is_errno = code.category() == boost::system::system_category() ||
                        code.category() == boost::system::generic_category();
  last.name = error_name(code);
  last.number = is_errno ? code.value() : 0;
}

ringload_status status_of_errc(errc code) noexcept {
  switch (code) {
    case errc::source_not_found:
    case errc::no_such_tensor: return RINGLOAD_NOT_FOUND;

    case errc::invalid_source_name:
    case errc::invalid_options:
    case errc::invalid_destination:
    case errc::invalid_selection:
    case errc::invalid_tensor:
    case errc::invalid_saving: return RINGLOAD_INVALID_ARGUMENT;

    case errc::unsupported_feature:
    case errc::unsupported_dtype:
    case errc::not_mappable:
    case errc::codec_unavailable:
    case errc::digest_unavailable: return RINGLOAD_UNSUPPORTED;

    case errc::memory_exceeded: return RINGLOAD_NO_MEMORY;

    case errc::truncated_file:
    case errc::changed_file: return RINGLOAD_CHANGED_FILE;

    case errc::engine_unavailable:
    case errc::direct_unavailable:
    case errc::device_unavailable: return RINGLOAD_UNAVAILABLE;

    case errc::mismatched_call:
    case errc::unexpected_tensor:
    case errc::wrong_dtype:
    case errc::wrong_shape: return RINGLOAD_MISMATCH;

    case errc::access_denied:
    case errc::remote_failed:
    case errc::malformed_answer:
    case errc::read_back_differs:
    case errc::malformed_message:
    case errc::rank_failed:
    case errc::not_restored: return RINGLOAD_SYSTEM_ERROR;

    default: return RINGLOAD_INVALID_FILE;
  }
}

}  // namespace

ringload_status status_of(const boost::system::error_code& code) noexcept {
  if (code == boost::asio::error::operation_aborted) return RINGLOAD_CANCELLED;
  if (code.category() == category()) return status_of_errc(static_cast<errc>(code.value()));
  if (code == boost::system::errc::not_enough_memory) return RINGLOAD_NO_MEMORY;
  if (code == boost::system::errc::no_such_file_or_directory) return RINGLOAD_NOT_FOUND;
  return RINGLOAD_SYSTEM_ERROR;
}

namespace {

ringload_status report(const boost::system::error_code& code, std::string_view place,
                       std::string_view cause) noexcept {
  const ringload_status status = status_of(code);
  if (status == RINGLOAD_CANCELLED) {
    set_last({}, "the operation was cancelled", code);
  } else if (place.empty() && cause.empty()) {
    set_last({}, "out of memory", code);  // Only memory exhaustion has no text.
  } else {
    set_last(place, cause, code);
  }
  return status;
}

}  // namespace

ringload_status report(const boost::system::error_code& code, const diagnostics& info) noexcept {
  return report(code, info.place, info.cause);
}

boost::system::error_code code_of(const std::exception_ptr& failure, diagnostics& info) noexcept {
  try {
    try {
      std::rethrow_exception(failure);
    } catch (const std::bad_alloc&) {
      return errc::memory_exceeded;
    } catch (const boost::system::system_error& e) {
      info.cause = e.what();
      return e.code();
    } catch (const std::system_error& e) {
      info.cause = e.what();
      return {e.code().value(), boost::system::system_category()};
    } catch (const std::exception& e) {
      info.cause = e.what();
    } catch (...) {
      info.cause = "an exception that is not a std::exception";
    }
  } catch (const std::bad_alloc&) {
    return errc::memory_exceeded;
  }
  return {ENOTRECOVERABLE, boost::system::system_category()};
}

ringload_status report(const std::exception_ptr& failure) noexcept {
  if (!failure) return RINGLOAD_OK;
  try {
    std::rethrow_exception(failure);
  } catch (const invalid_argument& e) {
    set_last({}, e.what());
    return RINGLOAD_INVALID_ARGUMENT;
  } catch (const error& e) {
    std::string_view cause = e.what();  // "place: cause"
    if (!e.place().empty()) cause.remove_prefix(std::min(cause.size(), e.place().size() + 2));
    return report(e.code(), e.place(), cause);
  } catch (const boost::system::system_error& e) {
    return report(e.code(), {}, e.what());
  } catch (const std::system_error& e) {  // For example, a thread cannot be started.
    return report({e.code().value(), boost::system::system_category()}, {}, e.what());
  } catch (const std::bad_alloc&) {
    set_last({}, "out of memory");
    return RINGLOAD_NO_MEMORY;
  } catch (const std::exception& e) {
    set_last({}, e.what());
    return RINGLOAD_INTERNAL_ERROR;
  } catch (...) {
    set_last({}, "an exception that is not a std::exception");
    return RINGLOAD_INTERNAL_ERROR;
  }
}

}  // namespace ringload::c

const char* ringload_last_error(void) { return ringload::c::last.text.c_str(); }
const char* ringload_last_error_place(void) { return ringload::c::last.place.c_str(); }
const char* ringload_last_error_name(void) { return ringload::c::last.name; }
int ringload_last_errno(void) { return ringload::c::last.number; }

const char* ringload_status_name(ringload_status status) {
  switch (status) {
    case RINGLOAD_OK: return "ok";
    case RINGLOAD_PENDING: return "pending";
    case RINGLOAD_END: return "end";
    case RINGLOAD_CANCELLED: return "cancelled";
    case RINGLOAD_INVALID_ARGUMENT: return "invalid_argument";
    case RINGLOAD_NOT_FOUND: return "not_found";
    case RINGLOAD_INVALID_FILE: return "invalid_file";
    case RINGLOAD_UNSUPPORTED: return "unsupported";
    case RINGLOAD_NO_MEMORY: return "no_memory";
    case RINGLOAD_CHANGED_FILE: return "changed_file";
    case RINGLOAD_UNAVAILABLE: return "unavailable";
    case RINGLOAD_MISMATCH: return "mismatch";
    case RINGLOAD_SYSTEM_ERROR: return "system_error";
    case RINGLOAD_INTERNAL_ERROR: return "internal_error";
  }
  return "unknown";
}
