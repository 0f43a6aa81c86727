// SPDX-License-Identifier: Apache-2.0

#include "io/ring/setup.hpp"

#include <array>
#include <cerrno>
#include <fstream>

// Flags of newer kernels, which the headers of Debian 12 may not have.
#ifndef IORING_SETUP_COOP_TASKRUN
#define IORING_SETUP_COOP_TASKRUN (1U << 8)
#endif
#ifndef IORING_SETUP_SINGLE_ISSUER
#define IORING_SETUP_SINGLE_ISSUER (1U << 12)
#endif
#ifndef IORING_SETUP_DEFER_TASKRUN
#define IORING_SETUP_DEFER_TASKRUN (1U << 13)
#endif

namespace ringload::inline v0 {

namespace {

struct flag_set {
  unsigned flags;
  const char* text;
};

// The sets are tried in this order. The first set needs Linux 6.1. The last set has no flags.
constexpr std::array<flag_set, 4> flag_sets = {{
    {IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_SUBMIT_ALL,
     "SINGLE_ISSUER, DEFER_TASKRUN, SUBMIT_ALL"},
    {IORING_SETUP_COOP_TASKRUN | IORING_SETUP_SUBMIT_ALL, "COOP_TASKRUN, SUBMIT_ALL"},
    {IORING_SETUP_SUBMIT_ALL, "SUBMIT_ALL"},
    {0, "no flags"},
}};

std::string refusal_message(int error_number) {
  switch (error_number) {
    case EPERM: {
      std::ifstream setting("/proc/sys/kernel/io_uring_disabled");
      int disabled = 0;
      if (setting >> disabled && disabled != 0) {
        return "io_uring_setup: not permitted: kernel.io_uring_disabled is " +
               std::to_string(disabled);
      }
      return "io_uring_setup: not permitted: a seccomp filter refuses it, as the default filter "
             "of containers does";
    }
    case ENOSYS: return "io_uring_setup: this kernel has no io_uring";
    case ENOMEM:
      return "io_uring_setup: no memory: RLIMIT_MEMLOCK or the control group's limit is too low";
    case EMFILE:
    case ENFILE: return "io_uring_setup: too many open files";
    default: return "io_uring_setup: " + system_code(error_number).message();
  }
}

// Checks that the kernel has IORING_OP_READ, which exists since Linux 5.6.
result<void> check_reads(::io_uring& ring) {
  ::io_uring_probe* probe = ::io_uring_get_probe_ring(&ring);
  if (!probe) {
    return fault{errc::engine_unavailable, "",
                 "io_uring_register: refused: the kernel is older than 5.6, or a seccomp filter "
                 "refuses it"};
  }
  const bool reads = ::io_uring_opcode_supported(probe, IORING_OP_READ) != 0 &&
                     ::io_uring_opcode_supported(probe, IORING_OP_READ_FIXED) != 0;
  ::io_uring_free_probe(probe);
  if (!reads)
    return fault{errc::engine_unavailable, "", "io_uring: this kernel has no IORING_OP_READ"};
  return {};
}

// Tests io_uring_enter, which a seccomp filter may refuse although the filter allows
// io_uring_setup.
result<void> check_use(::io_uring& ring) {
  ::io_uring_prep_nop(::io_uring_get_sqe(&ring));
  int answer = 0;
  do {
    answer = ::io_uring_submit_and_wait(&ring, 1);
  } while (answer == -EINTR);
  ::io_uring_cqe* cqe = nullptr;
  if (answer >= 0) answer = ::io_uring_wait_cqe(&ring, &cqe);
  if (answer < 0) {
    const bool filtered = answer == -EPERM || answer == -ENOSYS;
    return fault{errc::engine_unavailable, "",
                 "io_uring_enter: " + system_code(-answer).message() +
                     (filtered ? ": a seccomp filter may refuse it" : "")};
  }
  ::io_uring_cqe_seen(&ring, cqe);
  return {};
}

// Closes the ring in the destructor, unless keep() was called.
class ring_guard {
 public:
  explicit ring_guard(::io_uring& ring) noexcept : ring_(&ring) {}
  ring_guard(const ring_guard&) = delete;
  ring_guard& operator=(const ring_guard&) = delete;
  ~ring_guard() {
    if (ring_) ::io_uring_queue_exit(ring_);
  }
  void keep() noexcept { ring_ = nullptr; }

 private:
  ::io_uring* ring_;
};

}  // namespace

result<ring_setup> set_up(::io_uring& ring, unsigned entries) {
  int refused = 0;
  for (const flag_set& r : flag_sets) {
    ::io_uring_params params = {};
    params.flags = r.flags | IORING_SETUP_CLAMP | IORING_SETUP_CQSIZE;
    params.cq_entries = 4 * entries;
    refused = -::io_uring_queue_init_params(entries, &ring, &params);
    if (refused == EINVAL) continue;
    if (refused != 0) break;
    ring_guard guard(ring);
    auto usable = check_reads(ring);
    if (usable) usable = check_use(ring);
    if (!usable) return usable.error();
    result<ring_setup> setup = ring_setup{(r.flags & IORING_SETUP_DEFER_TASKRUN) != 0, r.text};
    guard.keep();
    return setup;
  }
  return fault{errc::engine_unavailable, "", refusal_message(refused)};
}

}  // namespace ringload::inline v0
