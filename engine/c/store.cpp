// SPDX-License-Identifier: Apache-2.0

// Implements byte_store with the C functions of a ringload_store.

#include <ringload/c.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <cstring>
#include <exception>
#include <memory>
#include <ringload/byte_source.hpp>
#include <ringload/error.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "c/handles.hpp"
#include "c/operation.hpp"
#include "c/status.hpp"
#include "c/structs.hpp"

using namespace ringload::c;

struct ringload_store_call {
  const std::stop_token& stop;
  std::vector<std::string>* names = nullptr;  // The result of `list`. Null in other calls.
  std::string reason = {};
};

namespace {

constexpr std::uint32_t store_threads_by_default = 4;
constexpr std::uint32_t store_threads_max = 64;  // An error text contains this number.

// Converts the status of a store function to an error code.
boost::system::error_code code_of(ringload_status status) noexcept {
  switch (status) {
    case RINGLOAD_INVALID_ARGUMENT: return ringload::errc::invalid_source_name;
    case RINGLOAD_NOT_FOUND: return ringload::errc::source_not_found;
    case RINGLOAD_INVALID_FILE: return ringload::errc::not_a_checkpoint;
    case RINGLOAD_UNSUPPORTED: return ringload::errc::unsupported_feature;
    case RINGLOAD_NO_MEMORY: return ringload::errc::memory_exceeded;
    case RINGLOAD_CHANGED_FILE: return ringload::errc::changed_file;
    case RINGLOAD_UNAVAILABLE: return ringload::errc::device_unavailable;
    case RINGLOAD_MISMATCH: return ringload::errc::mismatched_call;
    default: return ringload::errc::remote_failed;
  }
}

// Throws an error unless `status` is RINGLOAD_OK. The error has no place, because the caller of the
// store adds the place.
void check_status(ringload_status status, const std::string& reason) {
  if (status == RINGLOAD_OK) return;
  const std::string by_default =
      std::string("the store returned the status '") + ringload_status_name(status) + "'";
  throw ringload::error(code_of(status), "", reason.empty() ? by_default : reason);
}

void check_bytes(std::uint64_t received, std::uint64_t requested) {
  if (received == requested) return;
  const auto code =
      received < requested ? ringload::errc::truncated_file : ringload::errc::remote_failed;
  throw ringload::error(code, "",
                        "the store read " + std::to_string(received) + " bytes, expected " +
                            std::to_string(requested));
}

// The functions and the context of a store. The extension, the objects and the tasks of the threads
// share the ownership of the function_store.
class function_store {
 public:
  function_store(const ringload_store& c_store, std::uint32_t thread_count)
      : functions_(c_store), prefix_(c_store.prefix), threads_(thread_count) {}
  function_store(const function_store&) = delete;
  function_store& operator=(const function_store&) = delete;

  const ringload_store& functions() const noexcept { return functions_; }
  const std::string& prefix() const noexcept { return prefix_; }
  boost::asio::io_context& context() const noexcept { return threads_.context(); }

  /// Makes the destructor call the function `release` of the store.
  void own_context() noexcept {
    owned_.release = functions_.release;
    owned_.context = functions_.context;
  }

 private:
  struct owned_context {
    void (*release)(void*) = nullptr;
    void* context = nullptr;
    ~owned_context() {
      if (release) release(context);
    }
  };

  const ringload_store functions_;
  const std::string prefix_;
  owned_context owned_;      // Destroyed after threads_.
  context_threads threads_;  // Threads that call `read` and completion handlers.
};

}  // namespace

// A read that `begin_read` has started. The read is complete after two events, in any order:
// `begin_read` returns, and the program reports the end of the read.
struct ringload_store_read {
  ringload_store_read(const ringload::source_read& read,
                      ringload::byte_source::read_handler handler)
      : request(read), done(std::move(handler)) {}

  const ringload::source_read request;
  ringload::byte_source::read_handler done;
  std::exception_ptr failure = nullptr;  // Set before the read has ended.
  // True after the first of the two events described above.
  std::atomic<bool> has_first_event = false;
};

namespace {

void complete(std::unique_ptr<ringload_store_read> read) {
  auto done = std::move(read->done);
  const std::exception_ptr failure = std::move(read->failure);
  read.reset();
  std::move(done)(failure);
}

// Ends a read. If `check` throws, the read fails with this exception.
template <class Check>
void end_read(ringload_store_read* ended, const Check& check) noexcept {
  if (!ended) return;
  std::unique_ptr<ringload_store_read> read(ended);
  try {
    check();
  } catch (...) {
    read->failure = std::current_exception();
  }
  if (read->has_first_event.exchange(true)) {
    complete(std::move(read));
  } else {
    static_cast<void>(read.release());  // begin_read() completes the read.
  }
}

class store_object final : public ringload::byte_source {
 public:
  explicit store_object(std::shared_ptr<function_store> store) noexcept
      : store_(std::move(store)) {}
  ~store_object() override {
    if (is_open_ && functions().close) functions().close(object_);
  }

  void open(const std::string& name, const std::stop_token& stop) {
    ringload_store_call call{stop};
    check_status(functions().open(functions().context, name.c_str(), &object_, &bytes_, &call),
                 call.reason);
    is_open_ = true;
  }

  std::uint64_t bytes() const noexcept override { return bytes_; }

  std::string identity() const override {
    if (!functions().identity) return {};
    const std::stop_token never_stops;
    ringload_store_call call{never_stops};
    char text[RINGLOAD_STORE_IDENTITY_BYTES] = {};
    check_status(functions().identity(object_, text, &call), call.reason);
    const std::size_t length = strnlen(text, sizeof text);
    if (length < sizeof text) return {text, length};
    throw ringload::error(ringload::errc::remote_failed, "",
                          "the identity of the object does not end with a 0 byte");
  }

  void read_async(const ringload::source_read& request, read_handler done) override {
    if (functions().begin_read) return begin_read(request, std::move(done));
    boost::asio::post(store_->context(),
                      [this, store = store_, request, done = std::move(done)]() mutable {
                        std::exception_ptr failure;
                        try {
                          read(request);
                        } catch (...) {
                          failure = std::current_exception();
                        }
                        std::move(done)(failure);  // May destroy this object.
                      });
  }

 private:
  const ringload_store& functions() const noexcept { return store_->functions(); }

  void read(const ringload::source_read& request) const {
    if (request.stop.stop_requested()) {
      throw ringload::error(boost::asio::error::operation_aborted, "", "");
    }
    ringload_store_call call{request.stop};
    std::uint64_t received = 0;
    const ringload_status status = functions().read(object_, request.offset, request.into.data(),
                                                    request.into.size(), &received, &call);
    check_status(status, call.reason);
    check_bytes(received, request.into.size());
  }

  void begin_read(const ringload::source_read& request, read_handler done) const {
    auto* const read = new ringload_store_read(request, std::move(done));
    functions().begin_read(object_, request.offset, request.into.data(), request.into.size(), read);
    if (!read->has_first_event.exchange(true)) return;
    // The program has already reported the end of the read. The handler is posted, because
    // read_async() must not call a handler.
    std::unique_ptr<ringload_store_read> ended(read);
    boost::asio::post(store_->context(), [store = store_, ended = std::move(ended)]() mutable {
      complete(std::move(ended));
    });
  }

  const std::shared_ptr<function_store> store_;
  void* object_ = nullptr;
  std::uint64_t bytes_ = 0;
  bool is_open_ = false;
};

class store_folder final : public ringload::byte_folder {
 public:
  store_folder(std::shared_ptr<function_store> store, std::string name) noexcept
      : store_(std::move(store)), name_(std::move(name)) {}

  std::vector<std::string> names(const std::stop_token& stop) override {
    const ringload_store& functions = store_->functions();
    if (!functions.list) {
      throw ringload::error(ringload::errc::unsupported_feature, "", "the store cannot list files");
    }
    std::vector<std::string> file_names;
    ringload_store_call call{stop, &file_names};
    check_status(functions.list(functions.context, name_.c_str(), &call), call.reason);
    return file_names;
  }

  std::shared_ptr<ringload::byte_source> open(const std::string& name,
                                              const std::stop_token& stop) override {
    auto object = std::make_shared<store_object>(store_);
    object->open(path_of(name), stop);
    return object;
  }

  std::string path_of(const std::string& name) const override {
    const bool has_end = name.empty() || name_.ends_with('/') || name_ == store_->prefix();
    return name_ + (has_end ? "" : "/") + name;
  }

 private:
  const std::shared_ptr<function_store> store_;
  const std::string name_;
};

class function_byte_store final : public ringload::byte_store {
 public:
  explicit function_byte_store(std::shared_ptr<function_store> store) noexcept
      : store_(std::move(store)) {}

  bool has_name(std::string_view source) const noexcept override {
    return source.starts_with(store_->prefix());
  }

  ringload::found_source find(std::string_view source, const std::stop_token&) override {
    const ringload_store& functions = store_->functions();
    const std::string name(source);
    check_components(name);
    ringload::found_source found;
    if (functions.is_folder && functions.is_folder(functions.context, name.c_str()) != 0) {
      found.folder = std::make_shared<store_folder>(store_, name);
      return found;
    }
    const std::size_t slash = name.rfind('/');
    std::size_t start = slash == std::string::npos ? 0 : slash + 1;
    start = std::max(start, store_->prefix().size());
    found.file = name.substr(start);
    if (found.file.empty()) {
      throw ringload::error(ringload::errc::invalid_source_name, name,
                            "expected the name of a file after the last '/'");
    }
    std::string folder = name.substr(0, start);
    // Only the name of the root folder may end with '/'.
    if (start > store_->prefix().size() + 1) folder.pop_back();
    found.folder = std::make_shared<store_folder>(store_, std::move(folder));
    return found;
  }

 private:
  // Refuses "..", because a store that opens files could open a file outside its folder.
  void check_components(const std::string& name) const {
    std::string_view rest = std::string_view(name).substr(store_->prefix().size());
    while (!rest.empty()) {
      const std::size_t bytes = std::min(rest.find('/'), rest.size());
      if (rest.substr(0, bytes) == "..") {
        throw ringload::error(ringload::errc::invalid_source_name, name,
                              "the name has a component '..', expected none");
      }
      rest.remove_prefix(std::min(bytes + 1, rest.size()));
    }
  }

  const std::shared_ptr<function_store> store_;
};

// Returns the number of threads that the store needs. Throws invalid_argument if a member of
// `c_store` is invalid.
std::uint32_t check_store(const ringload_store& c_store) {
  required(c_store.prefix, "the prefix of the store is null");
  if (*c_store.prefix == 0) throw invalid_argument("the prefix of the store is empty");
  if (!c_store.open) throw invalid_argument("the function 'open' of the store is null");
  if (!c_store.read == !c_store.begin_read) {
    throw invalid_argument("the store needs either 'read' or 'begin_read'");
  }
  if (c_store.threads > store_threads_max)
    throw invalid_argument("the number of threads of the store is greater than 64");
  if (c_store.begin_read) return 1;
  return c_store.threads == 0 ? store_threads_by_default : c_store.threads;
}

}  // namespace

ringload_status ringload_store_extension(const ringload_store* store, ringload_extension** result) {
  return guarded([&] {
    required(result, "the output pointer for the extension is null") = nullptr;
    const ringload_store c_store = read_struct(&required(store, "the store is null"));
    auto shared = std::make_shared<function_store>(c_store, check_store(c_store));
    auto handle = std::make_unique<ringload_extension>(
        ringload_extension{ringload::extension(std::make_shared<function_byte_store>(shared))});
    shared->own_context();
    *result = handle.release();
    return RINGLOAD_OK;
  });
}

// --- Functions that a store calls

ringload_status ringload_store_fail(ringload_store_call* call, ringload_status status,
                                    const char* reason) {
  if (call && reason) {
    // If no memory is left for the reason, only the status is reported.
    guarded([&] {
      call->reason = reason;
      return RINGLOAD_OK;
    });
  }
  return status;
}

int ringload_store_is_cancelled(const ringload_store_call* call) {
  return call && call->stop.stop_requested() ? 1 : 0;
}

ringload_status ringload_store_add_name(ringload_store_call* call, const char* name) {
  return guarded([&] {
    std::vector<std::string>* const names = required(call, "the call is null").names;
    required(names, "the call is not a call of 'list'")
        .emplace_back(&required(name, "the name is null"));
    return RINGLOAD_OK;
  });
}

void ringload_store_read_done(ringload_store_read* read, uint64_t bytes_read) {
  end_read(read, [&] { check_bytes(bytes_read, read->request.into.size()); });
}

void ringload_store_read_failed(ringload_store_read* read, ringload_status status,
                                const char* reason) {
  end_read(read, [&] {
    // RINGLOAD_OK is reported as a failure too, because the program did not read the bytes.
    check_status(status == RINGLOAD_OK ? RINGLOAD_SYSTEM_ERROR : status, reason ? reason : "");
  });
}

int ringload_store_read_is_cancelled(const ringload_store_read* read) {
  return read && read->request.stop.stop_requested() ? 1 : 0;
}
