// SPDX-License-Identifier: Apache-2.0

#include "remote/http/client.hpp"

#include <atomic>
#include <boost/asio/post.hpp>
#include <cstring>
#include <new>
#include <semaphore>
#include <utility>

#include "remote/http/http_object.hpp"
#include "remote/http/http_transfer.hpp"
#include "remote/http/net_thread_pool.hpp"
#include "remote/http/object_body.hpp"
#include "remote/http/transfer_kinds.hpp"

namespace ringload::inline v0::remote_http {

namespace asio = boost::asio;

net_thread_pool::net_thread_pool(client_settings options)
    : settings(std::make_shared<const client_settings>(std::move(options))) {
  try {
    threads_.reserve(settings->threads);
    for (std::uint32_t i = 0; i < settings->threads; ++i)
      threads_.push_back(net_thread::make(settings));
  } catch (...) {
    for (const auto& thread : threads_) thread->close();
    throw;
  }
}

net_thread_pool::~net_thread_pool() {
  for (const auto& thread : threads_) thread->close();
}

std::shared_ptr<net_thread> net_thread_pool::next() noexcept {
  return threads_[next_.fetch_add(1, std::memory_order_relaxed) % threads_.size()];
}

namespace {

// Lets a thread wait for the outcome of a request. set() works even if no memory is left.
class awaited_outcome {
 public:
  void set(const result<void>& outcome) noexcept {
    try {
      outcome_ = outcome;
    } catch (const std::bad_alloc&) {
      outcome_ = fault{errc::memory_exceeded, ""};
    }
    is_set_.release();
  }
  // Must be called once, and not in a network thread.
  const result<void>& wait() {
    is_set_.acquire();
    return outcome_;
  }

 private:
  result<void> outcome_;
  std::binary_semaphore is_set_{0};
};

class client final : public http_client {
 public:
  explicit client(client_settings settings)
      : threads_(std::make_shared<net_thread_pool>(std::move(settings))) {}

  result<small_response> fetch(const small_request& request, const std::stop_token& stop) override;
  void start_fetch(small_request request, const std::stop_token& stop, fetch_handler done) override;
  result<std::shared_ptr<byte_source>> open(const remote_object& object,
                                            const std::stop_token& stop) override;
  std::vector<result<std::shared_ptr<byte_source>>> open_all(std::span<const remote_object> objects,
                                                             const std::stop_token& stop) override;

 private:
  std::optional<fault> offline(const remote_object& object) const;

  const std::shared_ptr<net_thread_pool> threads_;
};

std::optional<fault> client::offline(const remote_object& object) const {
  if (!threads_->settings->offline) return std::nullopt;
  return fault(errc::source_not_found, object.name(),
               "offline mode is set, so no connection is opened");
}

fault named(const fault& failure, const remote_object& object) {
  return {failure.code,
          failure.where().empty() ? object.name() : object.name() + ": " + failure.where(),
          failure.cause()};
}

// A request that is in progress, and the objects that must exist until the request ends.
struct started_fetch {
  started_fetch(small_request sent, std::shared_ptr<net_thread> net)
      : request(std::move(sent)),
        kind(request, response),
        thread(std::move(net)),
        address(std::make_shared<object_address>(request.object)),
        transfer(std::make_shared<http_transfer>(thread, address, kind)) {}

  // Starts the request. `done(result<void>)` is called when the request ends.
  template <class Done>
  void begin(const std::stop_token& stop, Done&& done) {
    transfer->time_max = request.time_max;
    transfer->listen(stop);
    start(*thread, transfer, std::forward<Done>(done));
  }

  // Returns the response. The request must have ended with `outcome`.
  result<small_response> take(const result<void>& outcome) {
    if (!outcome) return named(outcome.error(), request.object);
    response.from = address->current();
    response.was_repeated = transfer->was_repeated;
    return std::move(response);
  }

  const small_request request;
  small_response response;
  small_body_kind kind;
  const std::shared_ptr<net_thread> thread;
  const std::shared_ptr<object_address> address;
  const std::shared_ptr<http_transfer> transfer;
};

result<small_response> client::fetch(const small_request& request, const std::stop_token& stop) {
  if (auto failure = offline(request.object)) return *failure;
  const auto task = std::make_shared<started_fetch>(request, threads_->next());
  const auto ended = std::make_shared<awaited_outcome>();
  task->transfer->awaited = true;
  task->begin(stop, [ended, task](const result<void>& outcome) { ended->set(outcome); });
  return task->take(ended->wait());
}

void client::start_fetch(small_request request, const std::stop_token& stop, fetch_handler done) {
  if (auto failure = offline(request.object)) return done(*failure);
  const auto task = std::make_shared<started_fetch>(std::move(request), threads_->next());
  task->begin(stop, [task, done = std::move(done)](const result<void>& outcome) {
    done(task->take(outcome));
  });
}

result<std::shared_ptr<byte_source>> client::open(const remote_object& object,
                                                  const std::stop_token& stop) {
  return std::move(open_all({&object, 1}, stop).front());
}

std::vector<result<std::shared_ptr<byte_source>>> client::open_all(
    std::span<const remote_object> objects, const std::stop_token& stop) {
  struct opening {
    std::shared_ptr<object_address> address;
    std::shared_ptr<object_body> body;
    std::shared_ptr<awaited_outcome> ended;
  };
  std::vector<opening> openings;
  std::vector<result<std::shared_ptr<byte_source>>> out;
  openings.reserve(objects.size());
  for (const remote_object& object : objects) {
    opening& entry = openings.emplace_back();
    if (offline(object)) continue;
    const auto ended = entry.ended = std::make_shared<awaited_outcome>();
    entry.address = std::make_shared<object_address>(object);
    entry.body = std::make_shared<object_body>(threads_->next(), entry.address);
    entry.body->open(stop, [ended](const result<void>& outcome) { ended->set(outcome); });
  }
  for (std::size_t i = 0; i < objects.size(); ++i) {
    if (!openings[i].address) {
      out.emplace_back(*offline(objects[i]));
      continue;
    }
    const result<void>& outcome = openings[i].ended->wait();
    if (outcome) {
      out.emplace_back(make_http_object(threads_, openings[i].address, openings[i].body));
    } else {
      out.emplace_back(named(outcome.error(), objects[i]));
    }
  }
  return out;
}

}  // namespace

std::shared_ptr<http_client> make_client(client_settings settings) {
  return std::make_shared<client>(std::move(settings));
}

}  // namespace ringload::inline v0::remote_http
