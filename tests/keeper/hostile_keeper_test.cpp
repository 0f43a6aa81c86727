// SPDX-License-Identifier: Apache-2.0

// Attaching to a malicious keeper. Every message that it sends causes at most an error.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <ringload/keeper.hpp>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/packet_socket.hpp"
#include "base/shared_memory.hpp"
#include "keeper/description.hpp"
#include "keeper/messages.hpp"
#include "support/temporary_folder.hpp"
#include "support/waiting.hpp"

using namespace ringload;
using namespace ringload::testing;
using namespace ringload::detail;

namespace {

std::vector<std::byte> one_tensor() {
  kept_description all;
  all.contents.files = {{"f", 8192, "safetensors"}};
  tensor_info t;
  t.name = "t";
  t.shape = {4096};
  t.bytes = 4096;
  all.contents.tensors = {t};
  all.tensors = {{0, 0, {}}};
  return pack(all);
}

shared_memory memory_of(std::span<const std::byte> bytes, bool seal = true) {
  auto made = shared_memory::make(bytes.size(), page_kind::small);
  REQUIRE(made.has_value());
  std::ranges::copy(bytes, made->span().begin());
  if (seal) REQUIRE(made->seal().has_value());
  return std::move(*made);
}

// Returns the error of attaching to a keeper that calls `answer` for its only client.
std::string said_to(const std::function<void(const unique_fd& client)>& answer) {
  const temporary_folder folder = temporary_folder::for_sockets();
  const std::string path = (folder.path() / "s").string();
  const auto listening = listen_at(path, 0600);
  REQUIRE(listening.has_value());
  std::jthread server([&] {
    unique_fd client;
    while (!client) client = unique_fd(::accept4(listening->get(), nullptr, nullptr, SOCK_CLOEXEC));
    std::array<std::byte, packet_bytes_max> room = {};
    if (receive_packet(client, room)) answer(client);
  });
  try {
    attach(path, "m");
  } catch (const error& e) {
    return std::string(e.what()).substr((path + ": model 'm': ").size());
  }
  return "attached";
}

std::string said_to(const keep_reply& reply, const std::vector<int>& descriptors) {
  return said_to([&](const unique_fd& to) { (void)send_packet(to, pack(reply), descriptors); });
}

// Interrupts the system calls of the thread that creates the object, for at most ten seconds.
class periodic_signals {
 public:
  periodic_signals() {
    struct ::sigaction action = {};
    action.sa_handler = [](int) {};
    ::sigaction(SIGUSR1, &action, &before_);
    sender_ = std::jthread([this, target = ::pthread_self()](const std::stop_token& stop) {
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
      while (!stop.stop_requested() && std::chrono::steady_clock::now() < end) {
        ::pthread_kill(target, SIGUSR1);
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      have_ended_ = true;
    });
  }
  periodic_signals(const periodic_signals&) = delete;
  periodic_signals& operator=(const periodic_signals&) = delete;
  ~periodic_signals() {
    sender_.request_stop();
    sender_.join();
    ::sigaction(SIGUSR1, &before_, nullptr);
  }

  bool have_ended() const { return have_ended_; }

 private:
  struct ::sigaction before_ = {};
  std::atomic<bool> have_ended_ = false;
  std::jthread sender_;
};

}  // namespace

TEST_CASE("attach: an error shows the name of a GPU with escapes") {
  kept_description all = unpack_description(one_tensor(), std::vector<std::uint64_t>{8192}).value();
  all.device_regions.push_back({"\x1b[31mred\n", 8192, {}});
  const shared_memory description = memory_of(pack(all));
  const int any = description.descriptor();
  CHECK(said_to(keep_reply{keep_answer::attached, {1, 1}, 0, 1}, {description.descriptor(), any}) ==
        "the model is in memory of the GPU \\u001b[31mred\\u000a: attach for that device");
}

TEST_CASE("attach: a reply that is none is refused") {
  const std::string text(200, 'x');
  CHECK(said_to([&](const unique_fd& to) {
          (void)send_packet(to, std::as_bytes(std::span(text)));
        }) == "malformed keeper reply");
  const std::string long_text(2 * packet_bytes_max, 'x');
  CHECK(holds(said_to([&](const unique_fd& to) {
                (void)send_packet(to, std::as_bytes(std::span(long_text)));
              }),
              "a packet is larger than the protocol allows"));
  CHECK(said_to([](const unique_fd&) {}) == "the keeper closed the connection");
  CHECK(said_to(keep_reply{keep_answer::malformed, {}, 0}, {}) ==
        "the keeper refused the request as malformed: its version of ringload may differ");
}

TEST_CASE("attach: a keeper that says nothing is left when the time is over") {
  const temporary_folder folder = temporary_folder::for_sockets();
  const std::string path = (folder.path() / "s").string();
  const auto listening = listen_at(path, 0600);
  try {
    attach(path, "m", std::chrono::milliseconds(10));
    FAIL("it attached");
  } catch (const error& e) {
    CHECK(e.code() == boost::system::errc::timed_out);
  }
}

TEST_CASE("attach: what came must be as many descriptors as it says, of sealed memory") {
  const shared_memory description = memory_of(one_tensor());
  const shared_memory region = memory_of(std::vector<std::byte>(4096));
  const shared_memory open_region = memory_of(std::vector<std::byte>(4096), false);
  const std::array files = {unique_fd(::open("/dev/zero", O_RDONLY | O_CLOEXEC)),
                            unique_fd(::memfd_create("empty", MFD_CLOEXEC | MFD_ALLOW_SEALING))};
  ::fcntl(files[1].get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK);
  const int d = description.descriptor();
  const int r = region.descriptor();
  const keep_reply reply = {keep_answer::attached, {1, 1}, 1};

  CHECK(said_to(reply, {d, r}) == "attached");
  CHECK(said_to(reply, {}) == "received 0 descriptors, expected 2");
  CHECK(said_to(reply, {d}) == "received 1 descriptors, expected 2");
  CHECK(said_to(reply, {d, r, r}) == "received 3 descriptors, expected 2");
  CHECK(said_to(reply, {d, open_region.descriptor()}) == "the received memory is not sealed");
  CHECK(said_to(reply, {open_region.descriptor(), r}) == "the received memory is not sealed");
  CHECK(said_to(reply, {d, files[0].get()}) == "the received memory is not sealed");
  CHECK(said_to(reply, {d, files[1].get()}) == "the received memory is empty");
  CHECK(said_to(reply, {r, d}) == "the model description has version 0, expected 5");
}

TEST_CASE("attach: a tensor that is not in the memory that came is refused") {
  const shared_memory description = memory_of(one_tensor());
  const keep_reply none = {keep_answer::attached, {1, 1}, 0};
  CHECK(said_to(none, {description.descriptor()}) ==
        "tensor 't': its memory region was not received");
}

TEST_CASE("attach: signals do not prolong the time limit") {
  const temporary_folder folder = temporary_folder::for_sockets();
  const std::string path = (folder.path() / "s").string();
  const auto listening = listen_at(path, 0600);
  REQUIRE(listening.has_value());
  const std::chrono::milliseconds limit(50);
  const auto code_after = [](const std::function<void()>& work) {
    try {
      work();
    } catch (const error& failure) {
      return failure.code();
    }
    return boost::system::error_code();
  };
  const periodic_signals signals;
  // The keeper does not answer.
  CHECK(code_after([&] { attach(path, "m", limit); }) == boost::system::errc::timed_out);
  CHECK(code_after([&] { attach_next(path, "m", {}, limit); }) == boost::system::errc::timed_out);
  CHECK(code_after([&] { served_version(path, "m", limit); }) == boost::system::errc::timed_out);
  // The queue of connections is full.
  const std::string full_path = (folder.path() / "full").string();
  const auto full = listen_at(full_path, 0600);
  REQUIRE(full.has_value());
  REQUIRE(::listen(full->get(), 0) == 0);
  const auto queued = connect_to(full_path, std::chrono::seconds(1));
  REQUIRE(queued.has_value());
  CHECK(code_after([&] { attach(full_path, "m", limit); }) == boost::system::errc::timed_out);
  CHECK_FALSE(signals.have_ended());
}
