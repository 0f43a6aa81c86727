// SPDX-License-Identifier: Apache-2.0

#include "base/fault.hpp"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <boost/system/generic_category.hpp>
#include <boost/system/system_category.hpp>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <new>
#include <optional>
#include <string_view>

namespace ringload::inline v0 {

namespace {

class category_type final : public boost::system::error_category {
 public:
  const char* name() const noexcept override { return "ringload"; }
  std::string message(int value) const override;
};

std::string category_type::message(int value) const {
  switch (static_cast<errc>(value)) {
    case errc::source_not_found: return "no such checkpoint";
    case errc::not_a_checkpoint: return "not a checkpoint";
    case errc::ambiguous_source: return "more than one checkpoint";
    case errc::incomplete_series: return "a shard is missing";
    case errc::invalid_source_name: return "not a valid name of a checkpoint";
    case errc::path_outside_source: return "a path leaves the model's folder";
    case errc::not_a_regular_file: return "not a regular file";
    case errc::header_too_small: return "too short to hold a header";
    case errc::header_too_large: return "the header is too large";
    case errc::header_outside_file: return "the header ends past the end of the file";
    case errc::header_not_utf8: return "the header is not UTF-8";
    case errc::malformed_header: return "the header is malformed";
    case errc::invalid_offsets: return "offsets leave a hole, overlap or are reversed";
    case errc::wrong_tensor_bytes: return "shape and dtype do not match the number of bytes";
    case errc::size_overflow: return "a size does not fit in 64 bits";
    case errc::fractional_bytes: return "the tensor does not end on a whole byte";
    case errc::extent_outside_file: return "tensor data ends past the end of the file";
    case errc::trailing_bytes: return "bytes follow the last tensor";
    case errc::unsupported_feature: return "the file uses an unsupported feature";
    case errc::malformed_index: return "the shard index is malformed";
    case errc::duplicate_tensor: return "duplicate tensor name";
    case errc::missing_tensor: return "a tensor of the index is not in its shard";
    case errc::truncated_file: return "the file became shorter while it was read";
    case errc::changed_file: return "the file was changed while it was loaded";
    case errc::malformed_stream: return "the stored bytes cannot be decoded";
    case errc::codec_unavailable: return "this build lacks the codec";
    case errc::no_such_tensor: return "no such tensor";
    case errc::memory_exceeded: return "not enough memory";
    case errc::engine_unavailable: return "the read engine is not available";
    case errc::direct_unavailable: return "direct reads are not available";
    case errc::invalid_options: return "two options contradict each other";
    case errc::device_unavailable: return "the device is not available";
    case errc::unsupported_dtype: return "tensors cannot be converted to that dtype";
    case errc::invalid_destination: return "the destination cannot be filled";
    case errc::unexpected_tensor: return "the tensor has no destination";
    case errc::wrong_dtype: return "the element types differ";
    case errc::wrong_shape: return "the shapes differ";
    case errc::invalid_selection: return "the selection does not fit the checkpoint";
    case errc::access_denied: return "the server denies access";
    case errc::remote_failed: return "the server does not return the requested object";
    case errc::malformed_answer: return "the server's response violates the protocol";
    case errc::invalid_tensor: return "the tensor cannot be saved as it is described";
    case errc::invalid_saving: return "two options of the save contradict each other";
    case errc::read_back_differs: return "the bytes read back differ from the bytes written";
    case errc::not_mappable: return "the tensor cannot be mapped";
    case errc::malformed_checksum_list: return "the checksum list is malformed";
    case errc::incomplete_checksum_list:
      return "checksum list and checkpoint list different tensors";
    case errc::digest_unavailable: return "a digest cannot be computed here";
    case errc::wrong_digest: return "the bytes do not match the digest";
    case errc::wrong_indices: return "the indices do not fit the sparse tensor";
    case errc::malformed_message: return "a message of another process violates the protocol";
    case errc::mismatched_call: return "the ranks made different calls";
    case errc::rank_failed: return "another rank has failed";
    case errc::not_restored: return "the old bytes could not be restored";
  }
  return "unknown error " + std::to_string(value);
}

// Returns the system's message. For EMFILE and ENFILE, adds the name of the exceeded limit.
std::string message_with_limit(const boost::system::error_code& code) {
  if (code == system_code(EMFILE)) {
    return code.message() + ": the limit of this process is reached (RLIMIT_NOFILE, ulimit -n)";
  }
  if (code == system_code(ENFILE)) {
    return code.message() + ": the system's limit is reached (fs.file-max)";
  }
  return code.message();
}

std::string sentence(const boost::system::error_code& code, const std::string& place,
                     const std::string& cause) {
  const std::string message = cause.empty() ? message_with_limit(code) : cause;
  return place.empty() ? message : place + ": " + message;
}

}  // namespace

namespace {

class condition_category_type final : public boost::system::error_category {
 public:
  const char* name() const noexcept override { return "ringload.condition"; }
  std::string message(int value) const override;
  bool equivalent(const boost::system::error_code& code, int value) const noexcept override;
};

std::string condition_category_type::message(int value) const {
  switch (static_cast<condition>(value)) {
    case condition::not_found: return "not found";
    case condition::retryable: return "the call may succeed later";
    case condition::malformed_file: return "the file is malformed";
    case condition::no_memory: return "not enough memory";
    case condition::cancelled: return "cancelled";
  }
  return "unknown condition " + std::to_string(value);
}

std::optional<condition> condition_of(errc code) noexcept {
  switch (code) {
    case errc::source_not_found:
    case errc::no_such_tensor: return condition::not_found;

    case errc::remote_failed:
    case errc::rank_failed:
    case errc::changed_file: return condition::retryable;

    case errc::header_too_small:
    case errc::header_too_large:
    case errc::header_outside_file:
    case errc::header_not_utf8:
    case errc::malformed_header:
    case errc::invalid_offsets:
    case errc::wrong_tensor_bytes:
    case errc::size_overflow:
    case errc::fractional_bytes:
    case errc::extent_outside_file:
    case errc::trailing_bytes:
    case errc::malformed_index:
    case errc::duplicate_tensor:
    case errc::missing_tensor:
    case errc::truncated_file:
    case errc::malformed_stream:
    case errc::malformed_checksum_list:
    case errc::incomplete_checksum_list:
    case errc::wrong_digest:
    case errc::wrong_indices: return condition::malformed_file;

    case errc::memory_exceeded: return condition::no_memory;

    default: return std::nullopt;
  }
}

std::optional<condition> condition_of(int error_number) noexcept {
  switch (error_number) {
    case ENOENT: return condition::not_found;
    case EAGAIN:
    case EINTR:
    case EBUSY:
    case ETIMEDOUT:
    case ECONNREFUSED:
    case ECONNRESET:
    case ENETUNREACH:
    case EHOSTUNREACH:
    case EMFILE:
    case ENFILE: return condition::retryable;
    case ENOMEM: return condition::no_memory;
    case ECANCELED: return condition::cancelled;
    default: return std::nullopt;
  }
}

bool condition_category_type::equivalent(const boost::system::error_code& code,
                                         int value) const noexcept {
  const auto expected = static_cast<condition>(value);
  if (code.category() == category())
    return condition_of(static_cast<errc>(code.value())) == expected;
  const bool is_errno = code.category() == boost::system::system_category() ||
                        code.category() == boost::system::generic_category();
  return is_errno && condition_of(code.value()) == expected;
}

}  // namespace

const boost::system::error_category& condition_category() noexcept {
  static const condition_category_type the_category;
  return the_category;
}

const boost::system::error_category& category() noexcept {
  static const category_type the_category;
  return the_category;
}

error::error(boost::system::error_code code, std::string place, std::string cause)
    : system_error(code), place_(std::move(place)), text_(sentence(code, place_, cause)) {}

error::~error() = default;

namespace {

const std::string& no_text() noexcept {
  static const std::string empty;
  return empty;
}

}  // namespace

fault::fault(boost::system::error_code c, std::string place_text, std::string cause_text)
    : code(c) {
  if (place_text.empty() && cause_text.empty()) return;
  texts_ = std::make_shared<const diagnostics>(
      diagnostics{std::move(place_text), std::move(cause_text)});
}

const std::string& fault::where() const noexcept { return texts_ ? texts_->place : no_text(); }

const std::string& fault::cause() const noexcept { return texts_ ? texts_->cause : no_text(); }

fault fault::in(const std::string& outer) const {
  const std::string& inner = where();
  // A lower layer may have added the place already.
  if (inner == outer || inner.starts_with(outer + ": ")) return *this;
  return {code, inner.empty() ? outer : outer + ": " + inner, cause()};
}

// Exported for ringload_remote.
RINGLOAD_EXPORT boost::system::error_code system_code(int error_number) noexcept {
  return {error_number, boost::system::system_category()};
}

bool exceeds_address_space(std::uint64_t bytes) {
  ::rlimit addresses = {};
  if (::getrlimit(RLIMIT_AS, &addresses) != 0 || addresses.rlim_cur == RLIM_INFINITY) return false;
  std::ifstream statm("/proc/self/statm");
  std::uint64_t pages = 0;
  if (!(statm >> pages)) return false;
  const std::uint64_t used = pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return used > addresses.rlim_cur || bytes > addresses.rlim_cur - used;
}

namespace {

// Returns true if the stack of a new thread would exceed the limit of address space. In this case,
// pthread_create returns EAGAIN, the same error as for a limit of threads.
bool stack_exceeds_address_space() {
  ::pthread_attr_t usual;
  std::size_t stack_bytes = 0;
  if (::pthread_getattr_default_np(&usual) != 0) return false;
  ::pthread_attr_getstacksize(&usual, &stack_bytes);
  ::pthread_attr_destroy(&usual);
  return exceeds_address_space(stack_bytes);
}

}  // namespace

fault thread_refused(int error_number) {
  std::string cause = "a thread could not be started: " + system_code(error_number).message();
  if (error_number == EAGAIN && stack_exceeds_address_space()) {
    cause += ": its stack would exceed the limit of address space (ulimit -v)";
  } else if (error_number == EAGAIN) {
    cause += ": a limit of threads is reached (ulimit -u, or the control group's pids.max)";
  }
  return {system_code(error_number), "", std::move(cause)};
}

RINGLOAD_EXPORT std::string message_of(const fault& problem) {
  return sentence(problem.code, problem.where(), problem.cause());
}

RINGLOAD_EXPORT error to_error(const fault& problem) {
  return {problem.code, problem.where(), problem.cause()};
}

// Exported for ringload_remote.
RINGLOAD_EXPORT fault to_fault(const error& problem) {
  const std::string_view text = problem.what();
  // Removes the place and the colon from the text.
  const std::size_t cause = problem.place().empty() ? 0 : problem.place().size() + 2;
  return {problem.code(), problem.place(), std::string(text.substr(std::min(cause, text.size())))};
}

void detail::operation_failure::describe(diagnostics& into) const noexcept {
  try {
    if (texts) into = *texts;
    if (!texts) into = diagnostics();
    if (into.cause.empty()) into.cause = message_with_limit(code);
  } catch (const std::bad_alloc&) {
    into = diagnostics();
  }
}

void throw_exception_from_error(const fault& problem, const boost::source_location&) {
  throw to_error(problem);
}

std::string grouped(std::uint64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t position = digits.size(); position > 3; position -= 3)
    digits.insert(position - 3, 1, ',');
  return digits;
}

}  // namespace ringload::inline v0
