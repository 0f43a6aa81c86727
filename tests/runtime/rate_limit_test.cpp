// SPDX-License-Identifier: Apache-2.0

// Loads with loader_options::bytes_per_second_max.

#include <doctest/doctest.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <ringload/ringload.hpp>

#include "support/made_checkpoint.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

namespace asio = boost::asio;
using namespace ringload;
using namespace ringload::testing;

TEST_CASE("rate limit: a load with a high limit is complete") {
  const made_file file(equal_tensors(8, small_slot));
  loader_options within = small_options();
  within.bytes_per_second_max = std::uint64_t{1} << 40;
  loader with(host(), within);
  const model loaded = get(with.load_async(file.path(), use_future));
  CHECK(loaded.size() == 8);
}

TEST_CASE("rate limit: a load that waits for its turn is cancelled, and another one goes on") {
  const made_file file(equal_tensors(8, small_slot));
  loader_options within = small_options();
  within.bytes_per_second_max = 1;  // The second read would start after 18 hours.
  loader with(host(), within);
  asio::cancellation_signal first_signal;
  asio::cancellation_signal second_signal;
  auto first =
      with.load_async(file.path(), asio::bind_cancellation_slot(first_signal.slot(), use_future));
  auto second =
      with.load_async(file.path(), asio::bind_cancellation_slot(second_signal.slot(), use_future));
  first_signal.emit(asio::cancellation_type::terminal);
  CHECK(code_of(std::move(first)) == asio::error::operation_aborted);
  CHECK(!ready(second));
  second_signal.emit(asio::cancellation_type::terminal);
  CHECK(code_of(std::move(second)) == asio::error::operation_aborted);
}

TEST_CASE("rate limit: the loader ends while a load waits") {
  const made_file file(equal_tensors(8, small_slot));
  loader_options within = small_options();
  within.bytes_per_second_max = 1;
  auto with = std::make_unique<loader>(host(), within);
  auto load = with->load_async(file.path(), use_future);
  with.reset();
  CHECK(code_of(std::move(load)) == asio::error::operation_aborted);
}

TEST_CASE("rate limit: copies of tensors and populated mappings do not count") {
  const made_file file(equal_tensors(8, small_slot));
  loader_options within = small_options();
  within.bytes_per_second_max = 1;  // A second read that counts would start after 18 hours.
  loader with(host(), within);
  load_options mapped;
  mapped.memory = tensor_memory::mapped;
  mapped.populate = true;
  const model loaded = get(with.load_async(file.path(), mapped, use_future));
  CHECK(loaded.size() == 8);
  for (const tensor& original : loaded) {
    const tensor copy = get(with.copy_async(original, use_future));
    CHECK(bytes_of(copy) == bytes_of(original));
  }
}
