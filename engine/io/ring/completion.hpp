// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ringload::inline v0 {

// The completion of one read or write. The object must not move until `done` is called.
struct io_completion {
  // Called once, when the kernel no longer uses the memory. `res` is a number of bytes, or -errno.
  void (*done)(io_completion& self, int res) = nullptr;
  io_completion* next = nullptr;  // Next operation in a queue of operations.
};

}  // namespace ringload::inline v0
