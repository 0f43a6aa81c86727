// SPDX-License-Identifier: Apache-2.0

// The cost of a failed load: exceptions from its start to its handler, and allocations from the
// moment at which the load fails to its handler. Counts all threads of the process.
//
// A load that fails while it opens its files learns of the failure from open() or pread(). These
// tests replace both functions, and count from the return of the last call. So the count includes
// the message. All other failures are counted from the moment at which the load stops. The message
// then exists, and no later step may copy it.

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/types.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <optional>
#include <ringload/ringload.hpp>
#include <stdexcept>
#include <stop_token>
#include <tuple>

#include "load/job.hpp"
#include "support/counted_throws.hpp"
#include "support/failing_new.hpp"
#include "support/made_checkpoint.hpp"
#include "support/safetensors_text.hpp"
#include "support/scripted_loader.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

namespace asio = boost::asio;
using namespace ringload;
using namespace ringload::testing;

namespace {

const char* const missing = "/no/such/folder/or/model.safetensors";
const char* const forbidden = "/no/permission/for/model.safetensors";

// The number of allocations when the library's last open() or pread() returned.
std::atomic<std::int64_t> count_at_file_call = 0;

template <class Result>
Result after_file_call(Result returned) noexcept {
  count_at_file_call = allocations.load();
  return returned;
}

}  // namespace

// The tests run as root as well, who may open every file. Therefore one name is always refused.
extern "C" int open(const char* path, int flags, ...) {
  static const auto real =
      reinterpret_cast<int (*)(const char*, int, ...)>(::dlsym(RTLD_NEXT, "open"));
  if (std::strcmp(path, forbidden) == 0) {
    errno = EACCES;
    return after_file_call(-1);
  }
  std::va_list arguments;
  va_start(arguments, flags);
  const bool creates = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  const ::mode_t mode = creates ? va_arg(arguments, ::mode_t) : 0;
  va_end(arguments);
  return after_file_call(real(path, flags, mode));
}

extern "C" ::ssize_t pread(int file, void* into, std::size_t bytes, ::off_t offset) {
  static const auto real = reinterpret_cast<::ssize_t (*)(int, void*, std::size_t, ::off_t)>(
      ::dlsym(RTLD_NEXT, "pread"));
  return after_file_call(real(file, into, bytes, offset));
}

namespace {

enum class failure_kind {
  none,  // The load succeeds. The count then begins when the last tensor is complete.
  missing_file,
  no_permission,
  malformed_header,
  wrong_selection,
  read_error,
  cancelled,
  wrong_digest,
  memory_exceeded,
};

enum class token_kind { callback, as_tuple, redirect_error, diagnostics };

// One load, and the number of allocations when it fails and when its handler is called.
struct observed_load {
  // Called by the load when it fails.
  struct at_failure {
    observed_load* observer;
    void operator()() const noexcept { observer->count_before = allocations.load(); }
  };

  detail::engine_ptr engine;
  std::optional<std::stop_callback<at_failure>> failure;
  std::int64_t count_before = -1;
  std::int64_t count_after = -1;
  int calls = 0;
  diagnostics info;
  boost::system::error_code code;
  std::size_t tensors = 0;

  void handle(boost::system::error_code with, const model& loaded) {
    count_after = allocations.load();
    ++calls;
    code = with;
    tensors = loaded.size();
  }
};

// Does what begin_load() does, and observes the failure of the load.
void begin_observed(observed_load* const& observer, const source& from, load_options options,
                    std::unique_ptr<detail::operation<model>> waiting) {
  auto load = std::make_shared<detail::job>(observer->engine,
                                            detail::load_request(from, std::move(options)));
  observer->failure.emplace(load->stop_token(), observed_load::at_failure{observer});
  observer->engine->post([load, w = std::move(waiting)]() mutable {
    load->delivery.deliver_once();
    load->delivery.await_finish(std::move(w));
    detail::run_job(load);
  });
}

template <class Token>
auto load_observed(observed_load& load, asio::io_context& context, const std::string& path,
                   load_options options, Token&& token) {
  return detail::initiate<model, &begin_observed>(
      std::forward<Token>(token), context.get_executor(), &load, source(path), std::move(options));
}

asio::awaitable<void> load_as_tuple(observed_load& load, asio::io_context& context,
                                    std::string path, load_options options) {
  constexpr auto token = asio::as_tuple(asio::use_awaitable);
  auto result = co_await load_observed(load, context, path, options, token);
  load.handle(std::get<0>(result), std::get<1>(result));
}

asio::awaitable<void> load_redirected(observed_load& load, asio::io_context& context,
                                      std::string path, load_options options) {
  boost::system::error_code code;
  auto loaded = co_await load_observed(load, context, path, options,
                                       asio::redirect_error(asio::use_awaitable, code));
  load.handle(code, loaded);
}

void start(token_kind token, observed_load& load, asio::io_context& context,
           asio::cancellation_slot slot, const std::string& path, const load_options& options) {
  const auto spawn = [&](asio::awaitable<void> program) {
    asio::co_spawn(context, std::move(program), asio::bind_cancellation_slot(slot, asio::detached));
  };
  switch (token) {
    case token_kind::callback:
      load_observed(load, context, path, options,
                    asio::bind_cancellation_slot(
                        slot, [&load](boost::system::error_code code, const model& loaded) {
                          load.handle(code, loaded);
                        }));
      return;
    case token_kind::diagnostics: {
      const auto handle = [&load](boost::system::error_code code, const model& loaded) {
        load.handle(code, loaded);
      };
      load_observed(load, context, path, options,
                    bind_diagnostics(load.info, asio::bind_cancellation_slot(slot, handle)));
      return;
    }
    case token_kind::as_tuple: return spawn(load_as_tuple(load, context, path, options));
    case token_kind::redirect_error: return spawn(load_redirected(load, context, path, options));
  }
}

read_fate fate_of(failure_kind kind, std::uint64_t number) {
  if (kind == failure_kind::cancelled) return {.until_released = read_fate::hold::start};
  if (kind == failure_kind::read_error && number >= 3) return {.result = -EIO};
  return {};
}

boost::system::error_code code_of(failure_kind kind) {
  switch (kind) {
    case failure_kind::none: return {};
    case failure_kind::missing_file: return errc::source_not_found;
    case failure_kind::no_permission: return system_code(EACCES);
    case failure_kind::malformed_header: return errc::malformed_header;
    case failure_kind::wrong_selection: return errc::no_such_tensor;
    case failure_kind::read_error: return system_code(EIO);
    case failure_kind::cancelled: return asio::error::operation_aborted;
    case failure_kind::wrong_digest: return errc::wrong_digest;
    case failure_kind::memory_exceeded: return errc::memory_exceeded;
  }
  return {};
}

// The files and options of the loads below.
class failing_loads {
 public:
  failing_loads()
      : file_(equal_tensors(6, small_slot)), broken_(made_file::as_it_is::text, text()) {
    for (const made_tensor& t : equal_tensors(6, small_slot)) {
      tensor_digest wrong;
      wrong.name = t.name;
      wrong.algorithm = digest_algorithm::crc32c;
      wrong.bytes.resize(4);
      wrong_digests_.tensors.push_back(std::move(wrong));
    }
  }

  // The allocations from a moment to the handler.
  struct cost {
    std::int64_t from_stop;       // From the moment at which the load stops.
    std::int64_t from_file_call;  // From the last open() or pread(), so with the message.
  };
  cost run(failure_kind kind, token_kind token) const {
    read_script script(
        [kind](const io_request&, std::uint64_t number) { return fate_of(kind, number); });
    loader_options limits = small_options(2);
    if (kind == failure_kind::memory_exceeded) limits.arena_bytes_max = small_slot;
    scripted_loader with(script, limits);
    asio::io_context context;
    asio::cancellation_signal signal;
    observed_load load;
    load.engine = with.loader_engine();
    load_options options;
    if (kind == failure_kind::wrong_digest) options.verify = &wrong_digests_;
    if (kind == failure_kind::wrong_selection) options.select.names({"no tensor has this name"});
    if (kind == failure_kind::none) count_from_last_tensor(options, load);
    const int thrown_before = thrown;
    start(token, load, context, signal.slot(), path(kind), options);
    if (kind == failure_kind::cancelled) cancel(context, script, with, signal);
    context.run_for(patience);
    CHECK(thrown == thrown_before);  // Includes exceptions that the library catches.
    CHECK(load.calls == 1);
    CHECK(load.code == code_of(kind));
    CHECK(load.tensors == (kind == failure_kind::none ? 6 : 0));
    REQUIRE(load.count_before >= 0);
    const bool described = token == token_kind::diagnostics && kind != failure_kind::none;
    CHECK(load.info.place.starts_with(path(kind)) == described);
    CHECK(load.info.cause.empty() != described);
    load.engine.reset();
    return {load.count_after - load.count_before, load.count_after - count_at_file_call};
  }

 private:
  static std::string text() { return safetensors_text("{\"a\": 1}", ""); }

  static void count_from_last_tensor(load_options& options, observed_load& load) {
    options.trace_context = &load;
    options.trace = [](const trace_event& event, void* context) noexcept {
      if (event.step != load_step::landed) return;
      static_cast<observed_load*>(context)->count_before = allocations.load();
    };
  }

  static void cancel(asio::io_context& context, read_script& script, scripted_loader& with,
                     asio::cancellation_signal& signal) {
    context.poll();
    REQUIRE(script.wait_until_held(1));
    const certain_memory for_the_test;
    signal.emit(asio::cancellation_type::terminal);
    with.settle();
    script.release_all();
  }

  std::string path(failure_kind kind) const {
    if (kind == failure_kind::missing_file) return missing;
    if (kind == failure_kind::no_permission) return forbidden;
    return kind == failure_kind::malformed_header ? broken_.name() : file_.name();
  }

  const made_file file_;
  const made_file broken_;
  checksum_list wrong_digests_;
};

// The allocations from the stop of a load to its handler. They do not depend on the size of the
// checkpoint. The end of a load that succeeds needs them as well. Asio and the allocator of
// coroutine frames reuse memory, so a load may need fewer.
//
//   1  the post of the handler
//   1  the end of the load's coroutine, which may come before the handler is called
constexpr std::int64_t end_before_open = 2;
//   2  the wake of the load's coroutine: the waiting handler and its post
//   3  the frames of the coroutines that close the files and free the memory in another thread
//   2  the handlers that wait for this thread: for the files and for the memory
//   2  the posts to this thread, if Asio has no memory to reuse at this moment
//   2  the two workers, which wait for their next read
constexpr std::int64_t end_after_open = end_before_open + 11;
//   2  the timer of loader_options::stop_time_max: its handler, and the list of timers
constexpr std::int64_t stop_timer = 2;
//   2  the place and the cause, if the handler asks for them
constexpr std::int64_t text_copies = 2;

std::int64_t end_of(failure_kind kind) {
  switch (kind) {
    case failure_kind::missing_file:
    case failure_kind::no_permission:
    case failure_kind::malformed_header:
    case failure_kind::wrong_selection:
    case failure_kind::memory_exceeded: return end_before_open;
    // A load that succeeds has three texts of statistics instead. Its memory is not freed.
    case failure_kind::none: return end_after_open;
    // Reads are in flight.
    case failure_kind::read_error:
    case failure_kind::cancelled:
    case failure_kind::wrong_digest: return end_after_open + stop_timer;
  }
  return 0;
}

// The allocations of the message, if the load learns of the failure from open() or pread().
std::optional<std::int64_t> message_of(failure_kind kind) {
  switch (kind) {
    // The place, and the object that all copies of the message share.
    case failure_kind::no_permission: return 2;
    // Also the cause. The path is examined once more, as it may be a symlink without a target.
    case failure_kind::missing_file: return 6;
    // The place and the cause are built from pieces. Two layers add their part of the place.
    case failure_kind::malformed_header: return 13;
    default: return std::nullopt;
  }
}

}  // namespace

TEST_CASE("a failed load: allocates its message once, and no more than the end of any load needs") {
  const failing_loads loads;
  for (const failure_kind kind :
       {failure_kind::none, failure_kind::missing_file, failure_kind::no_permission,
        failure_kind::malformed_header, failure_kind::wrong_selection, failure_kind::read_error,
        failure_kind::cancelled, failure_kind::wrong_digest, failure_kind::memory_exceeded}) {
    for (const token_kind token : {token_kind::callback, token_kind::as_tuple,
                                   token_kind::redirect_error, token_kind::diagnostics}) {
      CAPTURE(static_cast<int>(kind));
      CAPTURE(static_cast<int>(token));
      const bool asks = token == token_kind::diagnostics && kind != failure_kind::none;
      const std::int64_t end = end_of(kind) + (asks ? text_copies : 0);
      for (int round = 0; round < 4; ++round) {
        const failing_loads::cost cost = loads.run(kind, token);
        CHECK(cost.from_stop <= end);
        if (const auto message = message_of(kind)) CHECK(cost.from_file_call <= *message + end);
      }
    }
  }
}

TEST_CASE("a failed operation: throws no exception unless the token throws") {
  if (!counts_throws) {
    MESSAGE("skipped: exceptions are counted with glibc and without a sanitizer");
    return;
  }
  const made_file file(equal_tensors(3, 1000));
  asio::io_context context;
  loader with(context, host(), small_options());
  int calls = 0;
  diagnostics info;
  const int before = thrown;
  const auto failed = [&](const boost::system::error_code& code, const auto&) {
    calls += code ? 1 : 0;
  };
  with.load_async(missing, bind_diagnostics(info, failed));
  context.run();
  context.restart();
  CHECK(info.place.find(missing) != std::string::npos);
  with.start_async(file.name(), select().names({"no such tensor"}), failed);
  with.stream_async(file.name(), 1, failed);
  with.fill_async(file.name(), {destination("z", &calls, dtype::i32, {1})}, failed);
  context.run();
  CHECK(calls == 4);
  CHECK(thrown == before);

  with.load_async(missing, as_exception([&](std::exception_ptr failure, const model&) {
                    calls += failure ? 1 : 0;
                  }));
  context.restart();
  context.run();
  CHECK(calls == 5);
  CHECK(thrown == before);  // make_exception_ptr does not throw with libstdc++.
  try {
    throw std::runtime_error("counted");
  } catch (const std::runtime_error&) {
  }
  CHECK(thrown == before + 1);
}
