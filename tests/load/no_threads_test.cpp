// SPDX-License-Identifier: Apache-2.0

// The creation of each thread of a loader fails in turn, and that of the thread of an attach.

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <pthread.h>

#include <atomic>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <cerrno>
#include <chrono>
#include <exception>
#include <memory>
#include <ringload/ringload.hpp>
#include <string>
#include <utility>
#include <vector>

#include "runtime/engine.hpp"
#include "support/counted_device.hpp"
#include "support/in_child.hpp"
#include "support/made_checkpoint.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

namespace asio = boost::asio;
using namespace ringload;
using namespace ringload::testing;

namespace {

std::atomic<int> until_failure = -1;  // If negative, no failure follows.
std::atomic<bool> has_failed = false;

}  // namespace

// For clang's sanitizers, which notice threads only in this function.
extern "C" [[gnu::weak]] int ___interceptor_pthread_create(::pthread_t*, const ::pthread_attr_t*,
                                                           void* (*)(void*), void*);

// Replaces the function of the C library.
extern "C" int pthread_create(::pthread_t* thread, const ::pthread_attr_t* how,
                              void* (*work)(void*), void* with) noexcept {
  using function = int (*)(::pthread_t*, const ::pthread_attr_t*, void* (*)(void*), void*);
  static const auto real = ___interceptor_pthread_create != nullptr
                               ? &___interceptor_pthread_create
                               : reinterpret_cast<function>(::dlsym(RTLD_NEXT, "pthread_create"));
  if (until_failure.load() >= 0 && until_failure.fetch_sub(1) == 0) {
    has_failed = true;
    return EAGAIN;
  }
  return real(thread, how, work, with);
}

// The first case of the file, because Asio starts the threads of its system_executor at the first
// use, once for the process. In a child, because ThreadSanitizer does not allow a second attempt.
TEST_CASE("no threads: an attach whose thread is refused fails with the reason") {
  const std::string said = said_in_child([]() -> std::string {
    asio::io_context context;
    std::string text = "no result";
    const auto handler = [&](const std::exception_ptr& failure, const model&) {
      try {
        if (failure) std::rethrow_exception(failure);
        text = "a model";
      } catch (const error& e) {
        const boost::system::error_code expected(EAGAIN, boost::system::system_category());
        text = e.code() == expected ? e.what() : "another code";
      }
    };
    until_failure = 0;
    attach_async("/no/such/socket", "a",
                 as_exception(asio::bind_executor(context.get_executor(), handler)));
    context.run();
    return text;
  });
  CAPTURE(said);
  CHECK(said.starts_with("a thread could not be started: "));
}

TEST_CASE("no threads: an update whose thread is refused may keep the last owner of its loader") {
  char memory = 0;
  auto owner = std::make_shared<loader>(counted_host(), small_options(2));
  loader& used = *owner;
  std::vector<destination> into = {{"a", &memory, dtype::u8, {1}}};
  into.front().owner = std::move(owner);
  asio::io_context context;
  boost::system::error_code code;
  const auto handler = [&](const boost::system::error_code& failed, const update_result&) {
    code = failed;
  };
  const auto begin = std::chrono::steady_clock::now();
  until_failure = 0;
  update_async(used, std::move(into), "/no/such/file",
               asio::bind_executor(context.get_executor(), handler));
  until_failure = -1;
  context.run();
  CHECK(code == boost::system::error_code(EAGAIN, boost::system::system_category()));
  // The destructor of the loader has not waited for the operation.
  CHECK(std::chrono::steady_clock::now() - begin < detail::engine::drain_max / 2);
}

TEST_CASE("no threads: whichever is refused, the loader says so, and ends those that it has") {
  const made_file file({{"a", 999}, f32("b", 20'000)});
  checksum_list listed;
  for (const char* name : {"a", "b"}) {
    tensor_digest one;
    one.name = name;
    one.algorithm = digest_algorithm::crc32c;
    one.bytes.resize(4);
    listed.tensors.push_back(one);
  }
  load_options checked;
  checked.verify = &listed;
  // Asio starts its own threads, which complete futures, at the first use.
  {
    loader first;
    get(first.load_async(file.name(), use_future));
  }
  loader_options within = small_options(2);
  within.copy_threads = 3;
  int refused = 0;
  for (bool more = true; more; ++refused) {
    REQUIRE(refused < 100);
    CAPTURE(refused);
    has_failed = false;
    until_failure = refused;
    try {
      loader with(counted_host(), within);
      // The hashing threads are started for the first load that needs digests.
      const auto failed = failure_of(with.load_async(file.name(), checked, use_future));
      until_failure = -1;
      REQUIRE(failed);
      CHECK(holds(failed->what(), "a thread could not be started: ") == has_failed);
      const auto wanted = has_failed
                              ? boost::system::error_code(EAGAIN, boost::system::system_category())
                              : make_error_code(errc::wrong_digest);
      CHECK(failed->code() == wanted);
      CHECK(first_difference(get(with.load_async(file.name(), use_future))) == "");
    } catch (const error& e) {
      CHECK(e.code() == boost::system::error_code(EAGAIN, boost::system::system_category()));
      CHECK(holds(e.what(), "a thread could not be started: "));
    }
    more = has_failed;
    until_failure = -1;
    CHECK(arenas_taken == 0);
  }
  CHECK(refused > 6);
}
