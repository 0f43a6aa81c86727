// SPDX-License-Identifier: Apache-2.0
#include "c/status.hpp"

#include <array>
#include <boost/asio/error.hpp>
#include <cstring>
#include <new>
#include <ringload/error.hpp>
#include <string_view>

namespace ringload::c {

namespace {

// The size is fixed, so that an error text needs no allocation.
thread_local std::array<char, 4096> last_error = {};

void keep(std::string_view text) noexcept {
  const std::size_t kept = std::min(text.size(), last_error.size() - 1);
  std::memcpy(last_error.data(), text.data(), kept);
  last_error[kept] = 0;
}

ringload_status status_of(errc code) noexcept {
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
    case errc::rank_failed: return RINGLOAD_SYSTEM_ERROR;

    default: return RINGLOAD_INVALID_FILE;
  }
}

ringload_status status_of(const boost::system::error_code& code) noexcept {
  if (code == boost::asio::error::operation_aborted) return RINGLOAD_CANCELLED;
  if (code.category() == category()) return status_of(static_cast<errc>(code.value()));
  if (code == boost::system::errc::not_enough_memory) return RINGLOAD_NO_MEMORY;
  if (code == boost::system::errc::no_such_file_or_directory) return RINGLOAD_NOT_FOUND;
  return RINGLOAD_SYSTEM_ERROR;
}

// Returns the status of a failure. If `keep_text` is true, also stores the text as the last error.
ringload_status examine(const std::exception_ptr& failure, bool keep_text) noexcept {
  const auto say = [&](std::string_view text) {
    if (keep_text) keep(text);
  };
  try {
    std::rethrow_exception(failure);
  } catch (const invalid_argument& e) {
    say(e.what());
    return RINGLOAD_INVALID_ARGUMENT;
  } catch (const boost::system::system_error& e) {
    const ringload_status status = status_of(e.code());
    say(status == RINGLOAD_CANCELLED ? "the operation was cancelled" : e.what());
    return status;
  } catch (const std::bad_alloc&) {
    say("out of memory");
    return RINGLOAD_NO_MEMORY;
  } catch (const std::exception& e) {
    say(e.what());
    return RINGLOAD_INTERNAL_ERROR;
  } catch (...) {
    say("an exception that is not a std::exception");
    return RINGLOAD_INTERNAL_ERROR;
  }
}

}  // namespace

ringload_status status_of(const std::exception_ptr& failure) noexcept {
  return failure ? examine(failure, false) : RINGLOAD_OK;
}

ringload_status report(const std::exception_ptr& failure) noexcept {
  return failure ? examine(failure, true) : RINGLOAD_OK;
}

}  // namespace ringload::c

const char* ringload_last_error(void) { return ringload::c::last_error.data(); }

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
