// SPDX-License-Identifier: Apache-2.0

// Several processes that share one copy of a model, and processes that are killed.

#include <doctest/doctest.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/asio/use_future.hpp>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <future>
#include <optional>
#include <ringload/keeper.hpp>
#include <ringload/loader.hpp>
#include <ringload/verify.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/packet_socket.hpp"
#include "base/unique_fd.hpp"
#include "keeper/messages.hpp"
#include "support/child_program.hpp"
#include "support/descriptors.hpp"
#include "support/made_checkpoint.hpp"
#include "support/skip.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

constexpr std::uint64_t model_bytes = std::uint64_t{32} << 20;

class kept_noise {
 public:
  explicit kept_noise(keeper_options how = {}) : keeps(socket, std::move(how)) {
    loader with(shared_host(), small_options(2));
    const model loaded = get(with.load_async(file_.name(), use_future));
    std::uint32_t sum = 0;
    for (const tensor& each : loaded) {
      sum = crc32c({static_cast<const std::byte*>(each.data()), each.size_bytes()}, sum);
    }
    std::array<char, 9> text = {};
    std::snprintf(text.data(), text.size(), "%08x", sum);
    digest = text.data();
    keeps.publish("m", loaded);
  }

 private:
  const made_file file_{equal_tensors(4, model_bytes / 4)};
  const temporary_folder folder_ = temporary_folder::for_sockets();

 public:
  const std::string socket = (folder_.path() / "keeper").string();
  std::string digest;
  keeper keeps;

  child_program attached(const std::string& name = "m") const {
    return child_program({ATTACH_TOOL, socket, name});
  }
  std::uint64_t count() const { return keeps.models().at(0).attached; }
};

// Sum of a number of the kernel, in KiB, over all mappings of a keeper's memory.
std::uint64_t of_shared_mappings(pid_t process, const std::string& field) {
  std::ifstream smaps("/proc/" + std::to_string(process) + "/smaps");
  std::uint64_t sum = 0;
  bool inside = false;
  for (std::string line; std::getline(smaps, line);) {
    if (line.find('-') < line.find(' ') && line.find(':') > line.find(' ')) {
      inside = holds(line, "/memfd:ringload");
    } else if (inside && line.starts_with(field + ":")) {
      sum += std::stoull(line.substr(field.size() + 1));
    }
  }
  return sum;
}

// Removes the capabilities of the calling thread and its later threads, because the limit of
// descriptors in packets does not apply to a thread with CAP_SYS_RESOURCE.
void drop_capabilities() {
  ::__user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  const std::array<::__user_cap_data_struct, 2> none = {};
  (void)::syscall(SYS_capset, &header, none.data());
}

// While the object exists, packets contain more descriptors of this user than the limit of this
// process allows.
class crowded_packets {
 public:
  crowded_packets() {
    std::array<int, 2> ends = {};
    REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) == 0);
    sender_ = unique_fd(ends[0]);
    receiver_ = unique_fd(ends[1]);
    const std::vector<int> descriptors(descriptors_max, STDERR_FILENO);
    REQUIRE(send_packet(sender_, std::vector<std::byte>(1), descriptors).has_value());
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
    ::rlimit limit = before_;
    limit.rlim_cur = descriptors_max - 1;
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
  }
  crowded_packets(const crowded_packets&) = delete;
  crowded_packets& operator=(const crowded_packets&) = delete;
  ~crowded_packets() { ::setrlimit(RLIMIT_NOFILE, &before_); }

  // Returns true if a thread without capabilities cannot send a descriptor.
  bool are_refused() const {
    bool is_refused = false;
    std::thread([&] {
      drop_capabilities();
      const std::array<int, 1> any = {STDERR_FILENO};
      const auto sent = send_packet(sender_, std::vector<std::byte>(1), any);
      is_refused = !sent && sent.error().code == system_code(ETOOMANYREFS);
    }).join();
    return is_refused;
  }

 private:
  unique_fd sender_;
  unique_fd receiver_;
  ::rlimit before_ = {};
};

// No more descriptors are open than before the first client came, and no client is attached.
bool settles(const kept_noise& kept, std::size_t descriptors) {
  return comes_true([&] { return kept.count() == 0 && open_descriptors() <= descriptors; });
}

}  // namespace

TEST_CASE("keeper: eight processes that have attached share one copy") {
  kept_noise kept;
  std::vector<child_program> all;
  for (int i = 0; i < 8; ++i) all.push_back(kept.attached());
  for (child_program& each : all) CHECK(each.read_line() == kept.digest);
  CHECK(kept.count() == 8);
  std::uint64_t shares_kib = of_shared_mappings(::getpid(), "Pss");
  for (child_program& each : all) {
    CHECK(of_shared_mappings(each.pid(), "Rss") * 1024 >= model_bytes);
    shares_kib += of_shared_mappings(each.pid(), "Pss");
  }
  // The share of a page in each process is its size divided by the number of processes that map it.
  CHECK(shares_kib * 1024 <= model_bytes + model_bytes / 8);
  for (child_program& each : all) {
    each.end_input();
    CHECK(each.exit_code() == 0);
  }
  CHECK(comes_true([&] { return kept.count() == 0; }));
}

TEST_CASE("keeper: processes that are killed, also while they attach, leave nothing behind") {
  kept_noise kept;
  const std::size_t before = open_descriptors();
  for (int i = 0; i < 60; ++i) {
    child_program early = kept.attached();
    child_program held = kept.attached();
    if (i % 3 == 0) CHECK(held.read_line() == kept.digest);
    if (i % 2 == 0) early.kill();
    held.kill();
  }
  CHECK(settles(kept, before));
  CHECK(kept.attached().read_line() == kept.digest);
}

TEST_CASE("keeper: 1,000 clients that leave at every step of attaching leave nothing behind") {
  kept_noise kept;
  const std::size_t before = open_descriptors();
  const auto request = detail::pack(detail::keep_request{"m"});
  for (int i = 0; i < 1000; ++i) {
    const auto client = connect_to(kept.socket, patience);
    REQUIRE(client.has_value());
    if (i % 4 == 0) continue;  // Sends no request.
    REQUIRE(send_packet(*client, request).has_value());
    if (i % 4 == 1) continue;  // Does not read the reply.
    std::array<std::byte, detail::packet_bytes_max> room = {};
    const auto answer = receive_packet(*client, room);
    REQUIRE(answer.has_value());
    CHECK(answer->descriptors.size() == 2);
    // Sends a second request, so the keeper closes the connection.
    if (i % 4 == 3) (void)send_packet(*client, request);
  }
  CHECK(settles(kept, before));
  CHECK(kept.attached().read_line() == kept.digest);
}

TEST_CASE("keeper: what is no request is answered with a refusal, and others are served on") {
  kept_noise kept;
  std::vector<std::byte> request = detail::pack(detail::keep_request{"m"});
  for (std::size_t bytes = 1; bytes < request.size(); ++bytes) {
    const auto client = connect_to(kept.socket, patience);
    REQUIRE(client.has_value());
    REQUIRE(send_packet(*client, std::span(request).first(bytes)).has_value());
    std::array<std::byte, detail::packet_bytes_max> room = {};
    const auto answer = receive_packet(*client, room);
    REQUIRE(answer.has_value());
    const auto reply = detail::unpack_reply(std::span(room).first(answer->bytes));
    REQUIRE(reply.has_value());
    CHECK(reply->answer == detail::keep_answer::malformed);
    CHECK(answer->descriptors.empty());
  }
  CHECK(kept.attached().read_line() == kept.digest);
}

TEST_CASE("keeper: users whom it does not admit are told so") {
  keeper_options how;
  how.users = {::getuid() + 1};
  const kept_noise kept(how);
  child_program refused = kept.attached();
  CHECK(refused.read_line() == kept.socket + ": model 'm': the keeper does not admit this user");
  CHECK(refused.exit_code() == 1);
}

TEST_CASE("keeper: the socket's mode keeps other users out") {
  if (::getuid() != 0) return skip("only root can become another user");
  const kept_noise kept;
  ::chmod(std::filesystem::path(kept.socket).parent_path().c_str(), 0755);
  child_program refused({ATTACH_TOOL, kept.socket, "m", "65534"});
  CHECK(refused.read_line() == kept.socket + ": model 'm': Permission denied");
  CHECK(kept.count() == 0);
}

TEST_CASE("keeper: with too many descriptors in packets, clients wait for their answers") {
  kept_noise kept;
  const model source = attach(kept.socket, "m");
  const std::string path = kept.socket + "-limited";
  std::optional<keeper> limited;
  std::thread([&] {
    drop_capabilities();
    limited.emplace(path);
  }).join();
  limited->publish("m", source);

  std::optional<crowded_packets> crowd(std::in_place);
  if (!crowd->are_refused()) return skip("the kernel does not limit descriptors in packets");
  auto attaching = attach_async(path, "m", use_future);
  auto next = attach_next_async(path, "m", {}, use_future);
  CHECK(attaching.wait_for(std::chrono::milliseconds(300)) == std::future_status::timeout);
  CHECK_FALSE(ready(next));
  // A client is counted during each attempt to send the answer.
  CHECK(comes_true([&] { return limited->models().at(0).attached == 0; }));
  crowd.reset();
  const std::array<model, 2> attached = {get(std::move(attaching)), get(std::move(next))};
  for (const model& each : attached) CHECK(each.size() == source.size());
  CHECK(limited->models().at(0).attached == 2);
}

TEST_CASE("keeper: a waiting client learns of the end of a keeper whose process has forked") {
  kept_noise kept;
  const model source = attach(kept.socket, "m");
  const std::string path = kept.socket + "-forked";
  std::optional<keeper> forked(std::in_place, path);
  forked->publish("m", source);
  const std::string other_path = path + "-link";
  std::filesystem::create_hard_link(path, other_path);
  const kept_version current = served_version(path, "m");
  const std::size_t before = open_descriptors();
  auto waiting = attach_next_async(path, "m", current, use_future);
  // The keeper has accepted the connection.
  CHECK(comes_true([&] { return open_descriptors() >= before + 2; }));

  const ::pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) ::pause();
  }
  REQUIRE(child > 0);
  forked.reset();
  CHECK(code_of(std::move(waiting)) == boost::system::errc::connection_reset);
  boost::system::error_code refused;
  try {
    attach(other_path, "m", std::chrono::seconds(1));
  } catch (const error& failure) {
    refused = failure.code();
  }
  CHECK(refused == boost::system::errc::connection_refused);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}
