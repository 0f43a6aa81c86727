// SPDX-License-Identifier: Apache-2.0

#include "keeper/server.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <new>
#include <system_error>
#include <utility>

#include "base/packet_socket.hpp"
#include "base/signals_blocked.hpp"

namespace ringload::inline v0::detail {

namespace {

constexpr std::chrono::seconds request_timeout{10};
// The pause after a failure of accept(), of an allocation, or of a send.
constexpr std::chrono::milliseconds retry_pause{100};

// Returns a random number that is not 0.
std::uint64_t random_id() noexcept {
  std::uint64_t id = 0;
  if (::getrandom(&id, sizeof id, 0) == sizeof id && id != 0) return id;
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  return static_cast<std::uint64_t>(now) ^ (static_cast<std::uint64_t>(::getpid()) << 48U);
}

::pollfd poll_for_input(const unique_fd& fd) noexcept { return {fd.get(), POLLIN, 0}; }

// Returns true if the failed packet can be sent later. ETOOMANYREFS means that the packets of this
// user contain too many descriptors that no process has received yet. send_packet() returns
// ETIMEDOUT instead of EAGAIN.
bool can_send_later(const fault& problem) {
  constexpr std::array<int, 4> numbers = {ETOOMANYREFS, ETIMEDOUT, ENOBUFS, ENOMEM};
  return std::ranges::any_of(numbers,
                             [&](int number) { return problem.code == system_code(number); });
}

// Returns the path that names the same file after a change of the working folder.
std::string absolute_path(const std::string& path) {
  std::error_code failure;
  const std::filesystem::path absolute = std::filesystem::absolute(path, failure);
  return failure ? path : absolute.string();
}

}  // namespace

result<std::unique_ptr<keeper_server>> keeper_server::make(std::string path,
                                                           keeper_options options) {
  if (options.connections_max == 0) {
    return fault{errc::invalid_options, "", "connections_max is 0, expected at least 1"};
  }
  unique_fd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return fault{system_code(errno), "eventfd"};
  const bool is_passed = options.listening_socket >= 0;
  auto listening =
      is_passed ? adopt_listening(options.listening_socket) : listen_at(path, options.mode);
  if (!listening) return listening.error();
  try {
    return std::make_unique<keeper_server>(path, std::move(options), std::move(*listening),
                                           std::move(wake));
  } catch (const std::system_error& e) {
    if (!is_passed) ::unlink(path.c_str());
    return thread_refused(e.code().value());
  } catch (const std::bad_alloc&) {
    if (!is_passed) ::unlink(path.c_str());
    throw;
  }
}

keeper_server::keeper_server(std::string path, keeper_options options, unique_fd listening,
                             unique_fd wake)
    : path_(std::move(path)),
      absolute_path_(absolute_path(path_)),
      options_(std::move(options)),
      id_(random_id()),
      listening_(std::move(listening)),
      wake_(std::move(wake)) {
  struct ::stat status = {};
  const bool is_own = options_.listening_socket < 0;
  if (is_own && ::lstat(absolute_path_.c_str(), &status) == 0) {
    socket_id_ = {status.st_dev, status.st_ino};
  }
  accepting_ = is_own;
  const signals_blocked block_signals;
  thread_ = std::thread([this] { run(); });
}

keeper_server::~keeper_server() {
  // The file is removed while the socket still listens. Afterwards, another keeper could replace
  // the abandoned file, and this keeper would remove the file of the other keeper. If another
  // keeper has replaced the file already, the file is not removed.
  struct ::stat status = {};
  const bool is_own = options_.listening_socket < 0;
  if (is_own && ::lstat(absolute_path_.c_str(), &status) == 0 &&
      socket_id_ == std::pair(status.st_dev, status.st_ino)) {
    ::unlink(absolute_path_.c_str());
  }
  stop_ = true;
  wake();
  thread_.join();
}

void keeper_server::wake() const noexcept {
  const std::uint64_t increment = 1;
  (void)::write(wake_.get(), &increment, sizeof increment);
}

void keeper_server::offer(const std::string& name, offered_model new_model) {
  auto shared = std::make_shared<offered_model>(std::move(new_model));
  std::shared_ptr<const offered_model> before;  // Destroyed after the mutex is unlocked.
  const std::lock_guard lock(mutex_);
  // An allocation may fail, so both map entries are created before the first change.
  std::uint64_t& last_number = versions_[name];
  std::shared_ptr<const offered_model>& served = offered_[name];
  shared->version = {id_, ++last_number};
  before = std::exchange(served, std::move(shared));
  accepting_ = true;
  wake();
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
    list.push_back(
        {name, model_entry->version.number, model_entry->bytes, *model_entry->client_count});
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
    try {
      wait_and_serve();
    } catch (const std::bad_alloc&) {
      std::this_thread::sleep_for(retry_pause);
    }
  }
  end_connections();
}

// Shuts down all sockets before they are closed, because a process that was forked from this
// process may hold the same sockets. Otherwise clients would wait for that process.
void keeper_server::end_connections() {
  for (const connection& client : connections_) {
    if (client.client_count) --*client.client_count;
    ::shutdown(client.socket.get(), SHUT_RDWR);
  }
  connections_.clear();
  if (options_.listening_socket >= 0) return;
  ::shutdown(listening_.get(), SHUT_RDWR);
  // Closes the connections that were not accepted. If accept4() fails, for example because no
  // descriptor is free, the other connections end when the last process closes the socket.
  for (bool more = true; more;) {
    const unique_fd left(
        ::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    more = left || errno == EINTR || errno == ECONNABORTED;
  }
}

void keeper_server::wait_and_serve() {
  std::vector<::pollfd> polled = {poll_for_input(wake_), poll_for_input(listening_)};
  const bool full = connections_.size() >= options_.connections_max;
  if (full || !accepting_ || clock::now() < accept_paused_until_) polled[1].fd = -1;
  for (const connection& client : connections_) polled.push_back(poll_for_input(client.socket));
  if (::poll(polled.data(), polled.size(), milliseconds_to_wait()) < 0) return;

  std::uint64_t wake_count = 0;
  (void)::read(wake_.get(), &wake_count, sizeof wake_count);
  const auto now = clock::now();
  std::size_t polled_index = 2;
  std::erase_if(connections_, [&](connection& client) {
    const bool has_input = polled[polled_index++].revents != 0;
    bool is_kept_open = client.client_count || now < client.request_deadline;
    if (has_input) {
      is_kept_open = answer(client);
    } else if (client.waiting) {
      is_kept_open = answer_waiting(client);
    }
    if (!is_kept_open && client.client_count) --*client.client_count;
    return !is_kept_open;
  });
  if (polled[1].revents != 0) accept_all();
}

// Returns the time limit for poll(): the time until a client without a request times out, or until
// accept() may be called or an answer may be sent again. Returns -1 if there is no time limit.
int keeper_server::milliseconds_to_wait() const {
  auto next = clock::time_point::max();
  const auto now = clock::now();
  if (now < accept_paused_until_) next = accept_paused_until_;
  for (const connection& client : connections_) {
    if (client.client_count) continue;
    if (!client.waiting) next = std::min(next, client.request_deadline);
    if (client.retry_time) next = std::min(next, *client.retry_time);
  }
  if (next == clock::time_point::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - now);
  return static_cast<int>(std::max<std::int64_t>(0, left.count()));
}

void keeper_server::accept_all() {
  while (connections_.size() < options_.connections_max) {
    unique_fd socket(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket) {
      connections_.push_back({std::move(socket), clock::now() + request_timeout});
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno != EAGAIN) accept_paused_until_ = clock::now() + retry_pause;
    return;
  }
}

bool keeper_server::answer(connection& client) noexcept {
  try {
    return answer_request(client);
  } catch (const std::bad_alloc&) {
    return false;  // The server then closes the connection.
  }
}

bool keeper_server::answer_request(connection& client) {
  std::array<std::byte, packet_bytes_max> buffer = {};
  const auto got = receive_packet(client.socket, buffer);
  // The connection has failed, the client has closed it, or the client has sent a second request,
  // which is not allowed.
  if (!got || got->bytes == 0 || client.client_count || client.waiting) return false;
  keep_reply reply;
  const auto request = unpack_request(std::span(buffer).first(got->bytes));
  const auto user = peer_user_id(client.socket);
  const bool admitted = user && (options_.users.empty() ||
                                 std::ranges::find(options_.users, *user) != options_.users.end());
  if (!request) {
    reply.answer = keep_answer::malformed;
  } else if (!admitted) {
    reply.answer = keep_answer::not_admitted;
  } else if (request->action != keep_action::read_version) {
    client.waiting = *request;
    return answer_waiting(client);
  } else if (const auto found = find(request->name)) {
    reply = {keep_answer::version, found->version};
  } else {
    reply.answer = keep_answer::no_such_model;
  }
  (void)send_packet(client.socket, pack(reply));
  return false;
}

bool keeper_server::answer_waiting(connection& client) noexcept {
  try {
    client.retry_time.reset();
    const bool is_for_next = client.waiting->action == keep_action::attach_next;
    const auto found = find(client.waiting->name);
    if (is_for_next && (!found || found->version == client.waiting->current)) return true;
    if (found) return attach_client(client, found);
    keep_reply reply;
    reply.answer = keep_answer::no_such_model;
    (void)send_packet(client.socket, pack(reply));
    return false;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

bool keeper_server::attach_client(connection& client,
                                  const std::shared_ptr<const offered_model>& offered) {
  const std::uint64_t regions = offered->descriptors.size() - 1;
  keep_reply reply = {keep_answer::attached, offered->version, regions};
  if (!offered->on_device.empty()) std::swap(reply.host_regions, reply.device_regions);
  // The client is counted before the send. If the send fails, wait_and_serve() decrements the
  // count.
  client.client_count = offered->client_count;
  ++*client.client_count;
  const auto sent = send_packet(client.socket, pack(reply), offered->descriptors);
  if (!sent && can_send_later(sent.error())) {
    --*client.client_count;
    client.client_count = nullptr;
    client.retry_time = clock::now() + retry_pause;
    return true;
  }
  client.waiting.reset();
  return sent.has_value();
}

}  // namespace ringload::inline v0::detail
