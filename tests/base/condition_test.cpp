// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <boost/asio/error.hpp>
#include <boost/system/generic_category.hpp>
#include <boost/system/system_category.hpp>
#include <cerrno>
#include <map>
#include <optional>
#include <ringload/error.hpp>
#include <vector>

using namespace ringload;

namespace {

const std::vector<condition> all = {condition::not_found, condition::retryable,
                                    condition::malformed_file, condition::no_memory,
                                    condition::cancelled};

// The condition of a code, which must have at most one.
std::optional<condition> condition_of(const boost::system::error_code& code) {
  std::optional<condition> found;
  for (const condition c : all) {
    if (code != c) continue;
    CHECK_FALSE(found);
    found = c;
  }
  return found;
}

const std::map<errc, condition> expected = {
    {errc::source_not_found, condition::not_found},
    {errc::no_such_tensor, condition::not_found},
    {errc::changed_file, condition::retryable},
    {errc::remote_failed, condition::retryable},
    {errc::rank_failed, condition::retryable},
    {errc::header_too_small, condition::malformed_file},
    {errc::header_too_large, condition::malformed_file},
    {errc::header_outside_file, condition::malformed_file},
    {errc::header_not_utf8, condition::malformed_file},
    {errc::malformed_header, condition::malformed_file},
    {errc::invalid_offsets, condition::malformed_file},
    {errc::wrong_tensor_bytes, condition::malformed_file},
    {errc::size_overflow, condition::malformed_file},
    {errc::fractional_bytes, condition::malformed_file},
    {errc::extent_outside_file, condition::malformed_file},
    {errc::trailing_bytes, condition::malformed_file},
    {errc::malformed_index, condition::malformed_file},
    {errc::duplicate_tensor, condition::malformed_file},
    {errc::missing_tensor, condition::malformed_file},
    {errc::truncated_file, condition::malformed_file},
    {errc::malformed_stream, condition::malformed_file},
    {errc::malformed_checksum_list, condition::malformed_file},
    {errc::incomplete_checksum_list, condition::malformed_file},
    {errc::wrong_digest, condition::malformed_file},
    {errc::wrong_indices, condition::malformed_file},
    {errc::memory_exceeded, condition::no_memory},
};

}  // namespace

TEST_CASE("condition: each errc has the condition of its comment, or none") {
  for (int value = 1; value <= static_cast<int>(errc::rank_failed); ++value) {
    const auto code = static_cast<errc>(value);
    CAPTURE(value);
    const auto wanted = expected.find(code);
    const auto found = condition_of(code);
    CHECK(found.has_value() == (wanted != expected.end()));
    if (found && wanted != expected.end()) CHECK(*found == wanted->second);
  }
}

TEST_CASE("condition: errno values of both categories have one") {
  const std::map<int, condition> of_errno = {
      {ENOENT, condition::not_found},       {EAGAIN, condition::retryable},
      {EINTR, condition::retryable},        {EBUSY, condition::retryable},
      {ETIMEDOUT, condition::retryable},    {ECONNREFUSED, condition::retryable},
      {ECONNRESET, condition::retryable},   {ENETUNREACH, condition::retryable},
      {EHOSTUNREACH, condition::retryable}, {EMFILE, condition::retryable},
      {ENFILE, condition::retryable},       {ENOMEM, condition::no_memory},
      {ECANCELED, condition::cancelled}};
  for (const auto& [number, wanted] : of_errno) {
    CAPTURE(number);
    CHECK(condition_of({number, boost::system::system_category()}) == wanted);
    CHECK(condition_of({number, boost::system::generic_category()}) == wanted);
  }
  for (const int number : {EIO, EACCES, EEXIST, ENOSPC}) {
    CHECK_FALSE(condition_of({number, boost::system::system_category()}));
  }
}

TEST_CASE("condition: a cancelled operation of Asio is cancelled") {
  CHECK(boost::system::error_code(boost::asio::error::operation_aborted) == condition::cancelled);
}

TEST_CASE("condition: success, and codes of other categories, have none") {
  CHECK_FALSE(condition_of({}));
  CHECK_FALSE(condition_of({1, boost::asio::error::get_misc_category()}));
  CHECK_FALSE(condition_of({ENOENT, boost::asio::error::get_misc_category()}));
}

TEST_CASE("condition: each has a message of its own") {
  CHECK(make_error_condition(condition::not_found).message() == "not found");
  CHECK(make_error_condition(condition::cancelled).message() == "cancelled");
  CHECK(condition_category().message(9) == "unknown condition 9");
}
