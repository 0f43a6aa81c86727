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

lanes::lanes(client_settings with) : how(std::make_shared<const client_settings>(std::move(with))) {
  for (std::uint32_t i = 0; i < how->lanes; ++i) all_.push_back(lane::make(how));
}

lanes::~lanes() {
  for (const auto& each : all_) each->close();
}

std::shared_ptr<lane> lanes::next() noexcept {
  return all_[next_.fetch_add(1, std::memory_order_relaxed) % all_.size()];
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

// Runs it and waits; not in a lane's thread.
std::future<result<void>> begin(lane& on, const std::shared_ptr<transfer>& one) {
  const auto promise = std::make_shared<outcome_promise>();
  auto future = promise->get_future();
  start(on, one, [promise, one](const result<void>& outcome) { tell(*promise, outcome); });
  return future;
}

class client final : public http_client {
 public:
  explicit client(client_settings how) : lanes_(std::make_shared<lanes>(std::move(how))) {}

  result<small_answer> fetch(const small_request& what, const std::stop_token& stop) override;
  result<std::shared_ptr<byte_source>> open(const remote_object& what,
                                            const std::stop_token& stop) override;
  std::vector<result<std::shared_ptr<byte_source>>> open_all(std::span<const remote_object> what,
                                                             const std::stop_token& stop) override;

 private:
  // Empty, or why nothing is fetched at all.
  std::optional<fault> offline(const remote_object& what) const;

  const std::shared_ptr<lanes> lanes_;
};

std::optional<fault> client::offline(const remote_object& what) const {
  if (!lanes_->how->offline) return std::nullopt;
  return fault(errc::source_not_found, what.name(), "remote_options::offline is set");
}

fault named(const fault& why, const remote_object& what) {
  return {why.code, why.where.empty() ? what.name() : what.name() + ": " + why.where, why.cause};
}

result<small_answer> client::fetch(const small_request& what, const std::stop_token& stop) {
  if (auto why = offline(what.what)) return *why;
  small_answer out;
  small_goal goal(what, out);
  const auto on = lanes_->next();
  const auto address = std::make_shared<object_address>(what.what);
  const auto one = std::make_shared<transfer>(on, address, goal);
  one->awaited = true;
  one->listen(stop);
  const result<void> how = begin(*on, one).get();
  if (!how) return named(how.error(), what.what);
  out.from = address->current();
  return out;
}

result<std::shared_ptr<byte_source>> client::open(const remote_object& what,
                                                  const std::stop_token& stop) {
  return std::move(open_all({&what, 1}, stop).front());
}

std::vector<result<std::shared_ptr<byte_source>>> client::open_all(
    std::span<const remote_object> what, const std::stop_token& stop) {
  struct opening {
    std::shared_ptr<object_address> address;
    std::shared_ptr<object_body> body;
    std::future<result<void>> ends;
  };
  std::vector<opening> all;
  std::vector<result<std::shared_ptr<byte_source>>> out;
  all.reserve(what.size());
  for (const remote_object& each : what) {
    opening& one = all.emplace_back();
    if (offline(each)) continue;
    const auto promise = std::make_shared<outcome_promise>();
    one.ends = promise->get_future();
    one.address = std::make_shared<object_address>(each);
    one.body = std::make_shared<object_body>(lanes_->next(), one.address);
    one.body->open(stop, [promise](const result<void>& how) { tell(*promise, how); });
  }
  for (std::size_t i = 0; i < what.size(); ++i) {
    if (!all[i].address) {
      out.emplace_back(*offline(what[i]));
      continue;
    }
    const result<void> how = all[i].ends.get();
    if (how) {
      out.emplace_back(make_http_object(lanes_, all[i].address, all[i].body));
    } else {
      out.emplace_back(named(how.error(), what[i]));
    }
  }
  return out;
}

}  // namespace

std::shared_ptr<http_client> make_client(client_settings how) {
  return std::make_shared<client>(std::move(how));
}

}  // namespace ringload::inline v0::remote_http
