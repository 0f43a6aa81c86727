// SPDX-License-Identifier: Apache-2.0
#include "operation.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace ringload::python {

waker::waker() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (event_ < 0) throw std::system_error(errno, std::system_category(), "eventfd");
}

waker::~waker() { ::close(event_); }

void waker::add(std::uint64_t token) {
  const std::lock_guard lock(mutex_);
  tokens_.push_back(token);
  if (tokens_.size() > 1) return;  // The descriptor has been readable since the first token.
  // The write cannot fail, because the counter is 0 or 1.
  while (::eventfd_write(event_, 1) != 0 && errno == EINTR) {
  }
}

std::vector<std::uint64_t> waker::drain() {
  const std::lock_guard lock(mutex_);
  eventfd_t count = 0;
  static_cast<void>(::eventfd_read(event_, &count));
  return std::exchange(tokens_, {});
}

void operation_state::settle(const boost::system::error_code& code, any_result result) noexcept {
  const std::lock_guard lock(mutex_);
  code_ = code;
  settle_locked(std::move(result));
}

void operation_state::settle(std::exception_ptr failure, any_result result) noexcept {
  const std::lock_guard lock(mutex_);
  failure_ = std::move(failure);
  settle_locked(std::move(result));
}

void operation_state::settle_locked(any_result result) noexcept {
  result_ = std::move(result);
  ended_ = true;
  over_.notify_all();
  for (const auto& [with, token] : subscribers_) with->add(token);
  subscribers_.clear();
}

bool operation_state::wait_for(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return over_.wait_for(lock, time, [this] { return ended_; });
}

bool operation_state::ended() const {
  const std::lock_guard lock(mutex_);
  return ended_;
}

void operation_state::subscribe(std::shared_ptr<waker> with, std::uint64_t token) {
  const std::lock_guard lock(mutex_);
  if (ended_) {
    with->add(token);
  } else {
    subscribers_.emplace_back(std::move(with), token);
  }
}

void operation_state::set_cancel(std::function<void(boost::asio::cancellation_type)> request) {
  const std::lock_guard lock(mutex_);
  request_cancel_.swap(request);
}

void operation_state::cancel() {
  std::function<void(boost::asio::cancellation_type)> request;
  {
    const std::lock_guard lock(mutex_);
    request = request_cancel_;
  }
  if (request) request(boost::asio::cancellation_type::all);
}

any_result operation_state::take() {
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  if (code_) {
    const error failed(code_, info_.place, info_.cause);
    if (info_.whole.empty() && info_.torn.empty()) throw failed;
    throw fill_error(failed, info_.whole, info_.torn);
  }
  return std::exchange(result_, std::monostate());
}

}  // namespace ringload::python
