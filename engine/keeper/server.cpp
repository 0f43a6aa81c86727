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

#include "base/packet_socket.hpp"
#include "base/signals_blocked.hpp"

namespace ringload::inline v0::detail {

namespace {

constexpr std::chrono::seconds request_within{10};
// If no descriptor is left, the next connection is accepted after this pause.
constexpr std::chrono::milliseconds accept_pause{100};

::pollfd readable(const unique_fd& fd) noexcept { return {fd.get(), POLLIN, 0}; }

}  // namespace

result<std::unique_ptr<keeper_server>> keeper_server::make(std::string path,
                                                           keeper_options settings) {
  unique_fd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return fault{system_code(errno), "eventfd"};
  auto listening = listen_at(path, settings.mode);
  if (!listening) return listening.error();
  try {
    return std::make_unique<keeper_server>(path, std::move(settings), std::move(*listening),
                                           std::move(wake));
  } catch (const std::system_error& e) {
    ::unlink(path.c_str());
    return thread_refused(e.code().value());
  }
}

keeper_server::keeper_server(std::string path, keeper_options settings, unique_fd listening,
                             unique_fd wake)
    : path_(std::move(path)),
      settings_(std::move(settings)),
      listening_(std::move(listening)),
      wake_(std::move(wake)) {
  struct ::stat status = {};
  if (::lstat(path_.c_str(), &status) == 0) socket_id_ = {status.st_dev, status.st_ino};
  const signals_blocked in_the_thread;
  thread_ = std::thread([this] { run(); });
}

keeper_server::~keeper_server() {
  stop_ = true;
  const std::uint64_t increment = 1;
  (void)::write(wake_.get(), &increment, sizeof increment);
  thread_.join();
  // Another keeper may have replaced the socket.
  struct ::stat status = {};
  if (::lstat(path_.c_str(), &status) == 0 &&
      socket_id_ == std::pair(status.st_dev, status.st_ino)) {
    ::unlink(path_.c_str());
  }
}

void keeper_server::offer(const std::string& name, offered_model new_model) {
  auto shared = std::make_shared<offered_model>(std::move(new_model));
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
  std::vector<kept_model> list;
  for (const auto& [name, model_entry] : offered_) {
    list.push_back({name, model_entry->version, model_entry->bytes, *model_entry->attached});
  }
  return list;
}

std::shared_ptr<const offered_model> keeper_server::find(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = offered_.find(name);
  return found == offered_.end() ? nullptr : found->second;
}

void keeper_server::run() {
  while (!stop_) {
    std::vector<::pollfd> polled = {readable(wake_), readable(listening_)};
    const bool full = connections_.size() >= settings_.connections_max;
    if (full || clock::now() < accept_after_) polled[1].fd = -1;
    for (const connection& client : connections_) polled.push_back(readable(client.socket));
    if (::poll(polled.data(), polled.size(), milliseconds_to_wait()) < 0) continue;

    const auto now = clock::now();
    std::size_t polled_index = 2;
    std::erase_if(connections_, [&](connection& client) {
      const bool spoke = polled[polled_index++].revents != 0;
      const bool stays = spoke ? answer(client) : client.counted_in || now < client.answer_until;
      if (!stays && client.counted_in) --*client.counted_in;
      return !stays;
    });
    if (polled[1].revents != 0) accept_all();
  }
  for (const connection& client : connections_) {
    if (client.counted_in) --*client.counted_in;
  }
  connections_.clear();
}

// Milliseconds until a silent client times out or connections can be accepted again. -1: no limit.
int keeper_server::milliseconds_to_wait() const {
  auto next = clock::time_point::max();
  const auto now = clock::now();
  if (now < accept_after_) next = accept_after_;
  for (const connection& client : connections_) {
    if (!client.counted_in) next = std::min(next, client.answer_until);
  }
  if (next == clock::time_point::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - now);
  return static_cast<int>(std::max<std::int64_t>(0, left.count()));
}

void keeper_server::accept_all() {
  while (connections_.size() < settings_.connections_max) {
    unique_fd socket(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket) {
      connections_.push_back({std::move(socket), clock::now() + request_within, nullptr, nullptr});
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno != EAGAIN) accept_after_ = clock::now() + accept_pause;
    return;
  }
}

bool keeper_server::answer(connection& to) {
  std::array<std::byte, packet_bytes_max> room = {};
  const auto got = receive_packet(to.socket, room);
  // The client closed, or sent a second request, which the protocol does not allow.
  if (!got || got->bytes == 0 || to.counted_in) return false;
  keep_reply refusal;
  const auto request = unpacked_request(std::span(room).first(got->bytes));
  const auto user = user_at(to.socket);
  const bool admitted =
      user && (settings_.users.empty() ||
               std::ranges::find(settings_.users, *user) != settings_.users.end());
  if (!request) {
    refusal.answer = keep_answer::malformed;
  } else if (!admitted) {
    refusal.answer = keep_answer::not_admitted;
  } else if (const auto found = find(request->name)) {
    return attach_client(to, found);
  } else {
    refusal.answer = keep_answer::no_such_model;
  }
  (void)send_packet(to.socket, packed(refusal));
  return false;
}

bool keeper_server::attach_client(connection& to,
                                  const std::shared_ptr<const offered_model>& offered) {
  const keep_reply reply = {keep_answer::attached, offered->version,
                            offered->descriptors.size() - 1};
  // The client is counted before the reply is sent. If sending fails, run() corrects the count.
  to.counted_in = offered->attached;
  if (offered->owns_memory) to.uses = offered;
  ++*to.counted_in;
  return send_packet(to.socket, packed(reply), offered->descriptors).has_value();
}

}  // namespace ringload::inline v0::detail
