// SPDX-License-Identifier: Apache-2.0
#include "remote/http/client.hpp"

#include <atomic>
#include <boost/asio/post.hpp>
#include <cstring>
#include <exception>
#include <future>
#include <new>
#include <utility>

#include "remote/http/http_object.hpp"
#include "remote/http/http_transfer.hpp"
#include "remote/http/net_thread_pool.hpp"
#include "remote/http/object_body.hpp"
#include "remote/http/transfer_kinds.hpp"

namespace ringload::inline v0::remote_http {

namespace asio = boost::asio;

lanes::lanes(client_settings options)
    : settings(std::make_shared<const client_settings>(std::move(options))) {
  for (std::uint32_t i = 0; i < settings->lanes; ++i) threads_.push_back(lane::make(settings));
}

lanes::~lanes() {
  for (const auto& thread : threads_) thread->close();
}

std::shared_ptr<lane> lanes::next() noexcept {
  return threads_[next_.fetch_add(1, std::memory_order_relaxed) % threads_.size()];
}

namespace {

using outcome_promise = std::promise<result<void>>;

void tell(outcome_promise& promise, const result<void>& outcome) noexcept {
  try {
    promise.set_value(outcome);
  } catch (const std::bad_alloc&) {
    promise.set_exception(std::current_exception());
  }
}

// Starts the transfer. Wait for the future, but not in a lane's thread.
std::future<result<void>> begin(lane& on, const std::shared_ptr<transfer>& task) {
  const auto promise = std::make_shared<outcome_promise>();
  auto future = promise->get_future();
  start(on, task, [promise, task](const result<void>& outcome) { tell(*promise, outcome); });
  return future;
}

class client final : public http_client {
 public:
  explicit client(client_settings settings)
      : lanes_(std::make_shared<lanes>(std::move(settings))) {}

  result<small_answer> fetch(const small_request& request, const std::stop_token& stop) override;
  result<std::shared_ptr<byte_source>> open(const remote_object& object,
                                            const std::stop_token& stop) override;
  std::vector<result<std::shared_ptr<byte_source>>> open_all(std::span<const remote_object> objects,
                                                             const std::stop_token& stop) override;

 private:
  // Returns a fault if remote_options::offline is set.
  std::optional<fault> offline(const remote_object& object) const;

  const std::shared_ptr<lanes> lanes_;
};

std::optional<fault> client::offline(const remote_object& object) const {
  if (!lanes_->settings->offline) return std::nullopt;
  return fault(errc::source_not_found, object.name(), "remote_options::offline is set");
}

fault named(const fault& failure, const remote_object& object) {
  return {failure.code,
          failure.where.empty() ? object.name() : object.name() + ": " + failure.where,
          failure.cause};
}

result<small_answer> client::fetch(const small_request& request, const std::stop_token& stop) {
  if (auto failure = offline(request.object)) return *failure;
  small_answer out;
  small_goal goal(request, out);
  const auto on = lanes_->next();
  const auto address = std::make_shared<object_address>(request.object);
  const auto task = std::make_shared<transfer>(on, address, goal);
  task->awaited = true;
  task->listen(stop);
  const result<void> outcome = begin(*on, task).get();
  if (!outcome) return named(outcome.error(), request.object);
  out.from = address->current();
  return out;
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
    std::future<result<void>> ends;
  };
  std::vector<opening> openings;
  std::vector<result<std::shared_ptr<byte_source>>> out;
  openings.reserve(objects.size());
  for (const remote_object& object : objects) {
    opening& entry = openings.emplace_back();
    if (offline(object)) continue;
    const auto promise = std::make_shared<outcome_promise>();
    entry.ends = promise->get_future();
    entry.address = std::make_shared<object_address>(object);
    entry.body = std::make_shared<object_body>(lanes_->next(), entry.address);
    entry.body->open(stop, [promise](const result<void>& outcome) { tell(*promise, outcome); });
  }
  for (std::size_t i = 0; i < objects.size(); ++i) {
    if (!openings[i].address) {
      out.emplace_back(*offline(objects[i]));
      continue;
    }
    const result<void> outcome = openings[i].ends.get();
    if (outcome) {
      out.emplace_back(make_http_object(lanes_, openings[i].address, openings[i].body));
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
