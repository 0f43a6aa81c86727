// SPDX-License-Identifier: Apache-2.0
#include "keeper/server.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "core/packet_socket.hpp"
#include "core/signals_blocked.hpp"

namespace ringload::inline v0::detail {

namespace {

constexpr std::chrono::seconds request_within{10};
// With no descriptor left, the next connection is accepted after this.
constexpr std::chrono::milliseconds accept_pause{100};

::pollfd readable(const unique_fd& which) noexcept { return {which.get(), POLLIN, 0}; }

}  // namespace

result<std::unique_ptr<keeper_server>> keeper_server::make(std::string path, keeper_settings how) {
  unique_fd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return fault{system_code(errno), "eventfd"};
  auto listening = listen_at(path, how.mode);
  if (!listening) return listening.error();
  try {
    return std::make_unique<keeper_server>(path, std::move(how), std::move(*listening),
                                           std::move(wake));
  } catch (const std::system_error& e) {
    ::unlink(path.c_str());
    return thread_refused(e.code().value());
  }
}

keeper_server::keeper_server(std::string path, keeper_settings how, unique_fd listening,
                             unique_fd wake)
    : path_(std::move(path)),
      how_(std::move(how)),
      listening_(std::move(listening)),
      wake_(std::move(wake)) {
  struct ::stat is = {};
  if (::lstat(path_.c_str(), &is) == 0) made_ = {is.st_dev, is.st_ino};
  const signals_blocked in_the_thread;
  thread_ = std::thread([this] { run(); });
}

keeper_server::~keeper_server() {
  stop_ = true;
  const std::uint64_t one = 1;
  (void)::write(wake_.get(), &one, sizeof one);
  thread_.join();
  // Another keeper may have taken the path over.
  struct ::stat is = {};
  if (::lstat(path_.c_str(), &is) == 0 && made_ == std::pair(is.st_dev, is.st_ino)) {
    ::unlink(path_.c_str());
  }
}

void keeper_server::offer(const std::string& name, offered_model what) {
  auto shared = std::make_shared<offered_model>(std::move(what));
  std::shared_ptr<const offered_model> before;  // Freed after the lock is released.
  const std::lock_guard lock(mutex_);
  shared->version = ++versions_[name];
  before = std::exchange(offered_[name], std::move(shared));
}

bool keeper_server::withdraw(std::string_view name) {
  std::shared_ptr<const offered_model> before;
  const std::lock_guard lock(mutex_);
  const auto found = offered_.find(name);
  if (found == offered_.end()) return false;
  before = std::move(found->second);
  offered_.erase(found);
  return true;
}

std::vector<kept_model> keeper_server::models() const {
  const std::lock_guard lock(mutex_);
  std::vector<kept_model> all;
  for (const auto& [name, one] : offered_) {
    all.push_back({name, one->version, one->bytes, *one->attached});
  }
  return all;
}

std::shared_ptr<const offered_model> keeper_server::find(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = offered_.find(name);
  return found == offered_.end() ? nullptr : found->second;
}

void keeper_server::run() {
  while (!stop_) {
    std::vector<::pollfd> all = {readable(wake_), readable(listening_)};
    const bool full = connections_.size() >= how_.connections_max;
    if (full || clock::now() < accept_from_) all[1].fd = -1;
    for (const connection& each : connections_) all.push_back(readable(each.socket));
    if (::poll(all.data(), all.size(), milliseconds_to_wait()) < 0) continue;

    const auto now = clock::now();
    std::size_t at = 2;
    std::erase_if(connections_, [&](connection& each) {
      const bool spoke = all[at++].revents != 0;
      const bool stays = spoke ? answer(each) : each.counted_in || now < each.answer_until;
      if (!stays && each.counted_in) --*each.counted_in;
      return !stays;
    });
    if (all[1].revents != 0) accept_all();
  }
  for (const connection& each : connections_) {
    if (each.counted_in) --*each.counted_in;
  }
  connections_.clear();
}

// Until somebody has said nothing for too long, or more can be accepted. -1: for ever.
int keeper_server::milliseconds_to_wait() const {
  auto next = clock::time_point::max();
  const auto now = clock::now();
  if (now < accept_from_) next = accept_from_;
  for (const connection& each : connections_) {
    if (!each.counted_in) next = std::min(next, each.answer_until);
  }
  if (next == clock::time_point::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - now);
  return static_cast<int>(std::max<std::int64_t>(0, left.count()));
}

void keeper_server::accept_all() {
  while (connections_.size() < how_.connections_max) {
    unique_fd socket(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket) {
      connections_.push_back({std::move(socket), clock::now() + request_within, nullptr, nullptr});
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno != EAGAIN) accept_from_ = clock::now() + accept_pause;
    return;
  }
}

bool keeper_server::answer(connection& to) {
  std::array<std::byte, packet_bytes_max> room = {};
  const auto got = receive_packet(to.socket, room);
  // Its end; or a second request, which the protocol does not know.
  if (!got || got->bytes == 0 || to.counted_in) return false;
  keep_reply refusal;
  const auto request = unpacked_request(std::span(room).first(got->bytes));
  const auto user = user_at(to.socket);
  const bool admitted =
      user && (how_.users.empty() || std::ranges::find(how_.users, *user) != how_.users.end());
  if (!request) {
    refusal.answer = keep_answer::malformed;
  } else if (!admitted) {
    refusal.answer = keep_answer::not_admitted;
  } else if (const auto found = find(request->name)) {
    return give(to, found);
  } else {
    refusal.answer = keep_answer::no_such_model;
  }
  (void)send_packet(to.socket, packed(refusal));
  return false;
}

bool keeper_server::give(connection& to, const std::shared_ptr<const offered_model>& what) {
  const keep_reply reply = {keep_answer::attached, what->version, what->descriptors.size() - 1};
  // Before it is sent: who has attached is counted. If that fails, run() takes it back.
  to.counted_in = what->attached;
  if (what->owns_memory) to.uses = what;
  ++*to.counted_in;
  return send_packet(to.socket, packed(reply), what->descriptors).has_value();
}

}  // namespace ringload::inline v0::detail
