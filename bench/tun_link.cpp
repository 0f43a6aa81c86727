// SPDX-License-Identifier: Apache-2.0

// tun_link NAME: simulates a link with a delay, a rate and losses, for kernels without netem. The
// program creates the tun device NAME, both ends of which are on this machine. It swaps the two
// addresses of each packet: a packet to 10.213.77.2 arrives at 10.213.77.1 and seems to come from
// 10.213.77.2. So clients reach a server that listens on .1 at the address .2, in one network
// namespace, through the kernel's TCP with its windows and retransmissions.
//
//   tun_link rl0 --delay-ms 20 --loss-percent 0.1 --mbit 1000 --port 28080
//
// Only the server's answers, which are packets from that port, are delayed and lost, as with netem
// on the server's side. Prints "ready" when packets pass. SIGTERM ends the program. Needs root or
// CAP_NET_ADMIN.

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <deque>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "arguments.hpp"

namespace {

using clock_type = std::chrono::steady_clock;

constexpr std::size_t packet_bytes_max = 2048;
constexpr std::size_t ip_header_bytes = 20;

struct wishes {
  std::string name;
  double delay_ms = 0;
  double loss_percent = 0;
  double mbit = 1000;
  std::uint16_t port = 28080;
  std::uint64_t queue_bytes =
      std::uint64_t{16} << 20;  // Limit of the queue at the bottleneck. Packets above it are lost.
  std::uint64_t seed = 1;
};

struct packet {
  clock_type::time_point leaves;
  std::vector<char> bytes;
};

volatile std::sig_atomic_t ended = 0;

void checked(int result, const char* what) {
  if (result < 0) throw std::runtime_error(fmt::format("{}: {}", what, std::strerror(errno)));
}

void set_address(int socket, ::ifreq& request, const std::array<unsigned char, 4>& address,
                 unsigned long what) {
  auto* const to = reinterpret_cast<::sockaddr_in*>(&request.ifr_addr);
  *to = {};
  to->sin_family = AF_INET;
  std::memcpy(&to->sin_addr, address.data(), address.size());
  checked(::ioctl(socket, what, &request), "an address of the device");
}

int make_device(const std::string& name) {
  const int device = ::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  checked(device, "/dev/net/tun");
  ::ifreq request = {};
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  checked(::ioctl(device, TUNSETIFF, &request), "a tun device");
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  checked(socket, "socket");
  set_address(socket, request, {10, 213, 77, 1}, SIOCSIFADDR);
  set_address(socket, request, {255, 255, 255, 0}, SIOCSIFNETMASK);
  request.ifr_qlen = 10'000;
  checked(::ioctl(socket, SIOCSIFTXQLEN, &request), "the device's queue");
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  checked(::ioctl(socket, SIOCSIFFLAGS, &request), "starting the device");
  ::close(socket);
  return device;
}

// One direction of the link: the queue before the bottleneck, and the delay after it.
class one_way {
 public:
  one_way(double delay_ms, double mbit, std::uint64_t queue_bytes)
      : delay_(std::chrono::nanoseconds(static_cast<std::int64_t>(delay_ms * 1e6))),
        nanoseconds_per_byte_(mbit > 0 ? 8e3 / mbit : 0),
        queue_bytes_(queue_bytes) {}

  void add(std::span<const char> bytes, clock_type::time_point now) {
    const auto takes = [this](double count) {
      return std::chrono::nanoseconds(static_cast<std::int64_t>(nanoseconds_per_byte_ * count));
    };
    if (free_at_ > now + takes(static_cast<double>(queue_bytes_))) return;
    free_at_ = std::max(free_at_, now) + takes(static_cast<double>(bytes.size()));
    waiting_.push_back({free_at_ + delay_, {bytes.begin(), bytes.end()}});
  }

  void pass(int device, clock_type::time_point now) {
    while (!waiting_.empty() && waiting_.front().leaves <= now) {
      const packet& first = waiting_.front();
      // A packet that the device does not accept is lost, as on any link.
      static_cast<void>(!::write(device, first.bytes.data(), first.bytes.size()));
      waiting_.pop_front();
    }
  }

  std::chrono::nanoseconds idle(clock_type::time_point now) const {
    const std::chrono::nanoseconds longest = std::chrono::milliseconds(100);
    if (waiting_.empty()) return longest;
    return std::clamp<std::chrono::nanoseconds>(waiting_.front().leaves - now, {}, longest);
  }

 private:
  const std::chrono::nanoseconds delay_;
  const double nanoseconds_per_byte_;
  const std::uint64_t queue_bytes_;
  clock_type::time_point free_at_;
  std::deque<packet> waiting_;
};

bool comes_from(std::span<const char> bytes, std::uint16_t port) {
  const std::size_t header = static_cast<std::size_t>(bytes[0] & 15) * 4;
  if (bytes.size() < header + 2) return false;
  const auto high = static_cast<unsigned char>(bytes[header]);
  const auto low = static_cast<unsigned char>(bytes[header + 1]);
  return high * 256U + low == port;
}

void forward(int device, const wishes& how) {
  one_way answers(how.delay_ms, how.mbit, how.queue_bytes);
  one_way requests(0, 0, how.queue_bytes);
  std::mt19937_64 random(how.seed);
  std::bernoulli_distribution lost(how.loss_percent / 100);
  std::array<char, packet_bytes_max> bytes = {};
  while (ended == 0) {
    auto now = clock_type::now();
    for (int i = 0; i < 64; ++i) {
      const ::ssize_t got = ::read(device, bytes.data(), bytes.size());
      if (got < static_cast<::ssize_t>(ip_header_bytes)) break;
      const std::span one(bytes.data(), static_cast<std::size_t>(got));
      if ((one[0] >> 4) != 4) continue;
      // The sum of both addresses does not change, so the checksums stay valid.
      std::swap_ranges(one.begin() + 12, one.begin() + 16, one.begin() + 16);
      const bool answer = comes_from(one, how.port);
      if (answer && lost(random)) continue;
      (answer ? answers : requests).add(one, now);
    }
    now = clock_type::now();
    answers.pass(device, now);
    requests.pass(device, now);
    const std::chrono::nanoseconds idle = std::min(answers.idle(now), requests.idle(now));
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(idle);
    const ::timespec wait = {seconds.count(), (idle - seconds).count()};
    ::pollfd one = {device, POLLIN, 0};
    if (idle.count() > 0) ::ppoll(&one, 1, &wait, nullptr);
  }
}

}  // namespace

int main(int argc, char** argv) {
  wishes how;
  ringload::bench::arguments app("A link with a delay, a rate and losses, as a tun device",
                                 "tun_link");
  app.add_option("NAME", how.name, "Of the device").required();
  app.add_option("--delay-ms", how.delay_ms, "Of answers").between(0.0, 10'000.0);
  app.add_option("--loss-percent", how.loss_percent, "Of answers").between(0.0, 100.0);
  app.add_option("--mbit", how.mbit, "Of answers, a second. 0: as fast as can be")
      .between(0.0, 1e6);
  app.add_option("--port", how.port, "Of the server");
  app.add_option("--seed", how.seed, "Of the losses");
  if (const auto code = app.parse(argc, argv)) return *code;
  try {
    const auto end = [](int) { ended = 1; };
    std::signal(SIGTERM, end);
    std::signal(SIGINT, end);
    const int device = make_device(how.name);
    fmt::print("ready\n");
    std::fflush(stdout);
    forward(device, how);
  } catch (const std::exception& failed) {
    fmt::print(stderr, "tun_link: {}\n", failed.what());
    return 1;
  }
  return 0;
}
