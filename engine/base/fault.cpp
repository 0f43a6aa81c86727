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
    case errc::invalid_source_name: return "neither a path nor a model's name";
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
    case errc::trailing_bytes: return "the file goes on after the last tensor";
    case errc::unsupported_feature: return "the file uses what is not supported";
    case errc::malformed_index: return "the shard index is malformed";
    case errc::duplicate_tensor: return "one tensor name stands in two places";
    case errc::missing_tensor: return "a listed tensor is not in its shard";
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
    case errc::unexpected_tensor: return "no destination is for this tensor";
    case errc::wrong_dtype: return "the element types differ";
    case errc::wrong_shape: return "the shapes differ";
    case errc::invalid_selection: return "the selection does not fit the checkpoint";
    case errc::access_denied: return "the server gives no access";
    case errc::remote_failed: return "the server does not give what was asked for";
    case errc::malformed_answer: return "the server's answer breaks its protocol";
    case errc::invalid_tensor: return "the tensor cannot be saved as it is described";
    case errc::invalid_saving: return "the settings of the save contradict themselves";
    case errc::read_back_differs: return "what was read back is not what was written";
    case errc::not_mappable: return "the tensor cannot be mapped";
    case errc::malformed_manifest: return "the manifest is malformed";
    case errc::incomplete_manifest: return "manifest and checkpoint do not have the same tensors";
    case errc::digest_unavailable: return "a digest cannot be computed here";
    case errc::wrong_digest: return "the bytes do not match the digest";
    case errc::wrong_indices: return "the indices do not fit the sparse tensor";
    case errc::malformed_message: return "another process breaks the protocol";
    case errc::mismatched_call: return "the ranks made different calls";
    case errc::rank_failed: return "another rank has failed";
  }
  return "unknown error " + std::to_string(value);
}

// Adds the limit that was reached, because the system's message does not name it.
std::string words_for(const boost::system::error_code& code) {
  if (code == system_code(EMFILE)) {
    return code.message() + ": the limit of this process is reached (ulimit -n)";
  }
  if (code == system_code(ENFILE)) {
    return code.message() + ": the system's limit is reached (fs.file-max)";
  }
  return code.message();
}

std::string sentence(const boost::system::error_code& code, const std::string& place,
                     const std::string& cause) {
  const std::string message = cause.empty() ? words_for(code) : cause;
  return place.empty() ? message : place + ": " + message;
}

}  // namespace

const boost::system::error_category& category() noexcept {
  static const category_type the_category;
  return the_category;
}

error::error(boost::system::error_code code, std::string place, std::string cause)
    : system_error(code), place_(std::move(place)), text_(sentence(code, place_, cause)) {}

error::~error() = default;

// Exported for ringload_remote, like the functions below.
RINGLOAD_EXPORT fault fault::in(const std::string& outer) const {
  // A store has named the file already.
  if (where == outer || where.starts_with(outer + ": ")) return *this;
  return {code, where.empty() ? outer : outer + ": " + where, cause};
}

RINGLOAD_EXPORT boost::system::error_code system_code(int error_number) noexcept {
  return {error_number, boost::system::system_category()};
}

namespace {

// Whether another thread's stack would exceed the limit of addresses (RLIMIT_AS). pthread_create
// reports that as it does a limit of threads.
bool has_no_room_for_stack() {
  ::rlimit addresses = {};
  if (::getrlimit(RLIMIT_AS, &addresses) != 0 || addresses.rlim_cur == RLIM_INFINITY) return false;
  ::pthread_attr_t usual;
  std::size_t stack_bytes = 0;
  if (::pthread_getattr_default_np(&usual) != 0) return false;
  ::pthread_attr_getstacksize(&usual, &stack_bytes);
  ::pthread_attr_destroy(&usual);
  std::ifstream statm("/proc/self/statm");
  std::uint64_t pages = 0;
  if (!(statm >> pages)) return false;
  const auto page_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return pages * page_bytes + stack_bytes > addresses.rlim_cur;
}

}  // namespace

fault thread_refused(int error_number) {
  std::string cause = "a thread could not be started: " + system_code(error_number).message();
  if (error_number == EAGAIN && has_no_room_for_stack()) {
    cause += ": the limit of address space leaves no room for its stack (ulimit -v)";
  } else if (error_number == EAGAIN) {
    cause += ": a limit of threads is reached (ulimit -u, or the control group's pids.max)";
  }
  return {system_code(error_number), "", std::move(cause)};
}

RINGLOAD_EXPORT std::string message_of(const fault& problem) {
  return sentence(problem.code, problem.where, problem.cause);
}

RINGLOAD_EXPORT error to_error(const fault& problem) {
  return {problem.code, problem.where, problem.cause};
}

fault to_fault(const error& problem) {
  const std::string_view text = problem.what();
  // Skips the place and the colon.
  const std::size_t cause = problem.place().empty() ? 0 : problem.place().size() + 2;
  return {problem.code(), problem.place(), std::string(text.substr(std::min(cause, text.size())))};
}

std::exception_ptr to_exception(const fault& problem) {
  return std::make_exception_ptr(to_error(problem));
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
