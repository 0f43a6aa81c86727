// SPDX-License-Identifier: Apache-2.0
#pragma once

// Makes the kernel refuse a system call with a chosen errno, as containers do. Affects all present
// and future threads of the process, and cannot be undone. Use it in a child process or in a
// separate executable.

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <system_error>
#include <vector>

namespace ringload::testing {

inline void refuse_calls(std::initializer_list<long> numbers, int error_number) {
  std::vector<::sock_filter> program;
  program.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
  for (const long number : numbers) {
    // If the call is one of these, continues with the next instruction. Otherwise skips it.
    program.push_back(
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(number), 0, 1));
    program.push_back(
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error_number)));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  ::sock_fprog filter = {};
  filter.len = static_cast<unsigned short>(program.size());
  filter.filter = program.data();

  // Without this call, only root may install a filter.
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    throw std::system_error(errno, std::generic_category(), "PR_SET_NO_NEW_PRIVS");
  }
  const long refused =
      ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter);
  if (refused != 0) {
    // A positive result is the id of a thread with another filter.
    throw std::system_error(refused < 0 ? errno : EBUSY, std::generic_category(), "seccomp");
  }
}

// Refuses io_uring: with EPERM as in containers, or with ENOSYS as in an old kernel.
inline void refuse_io_uring(int error_number) { refuse_calls({SYS_io_uring_setup}, error_number); }

}  // namespace ringload::testing
