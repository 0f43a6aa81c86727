// SPDX-License-Identifier: Apache-2.0
#pragma once

// Handles objects of the library after a fork. In the child process, no thread of the library runs,
// and any lock may be held forever. Therefore the child process refuses objects of the parent, and
// never destroys them.

#include <memory>
#include <utility>

namespace ringload::python {

/// Returns the number of forks since the first call. The number differs between a process and its
/// child.
unsigned fork_generation();

/// Owns a value. Destroys the value in the process that created it, and leaks the value in child
/// processes.
template <class T>
class of_this_process {
 public:
  explicit of_this_process(T value) : value_(std::move(value)), made_in_(fork_generation()) {}
  of_this_process(of_this_process&&) = delete;
  ~of_this_process() {
    if (inherited()) std::make_unique<T>(std::move(value_)).release();
  }

  bool inherited() const { return made_in_ != fork_generation(); }
  T& operator*() noexcept { return value_; }
  const T& operator*() const noexcept { return value_; }
  T* operator->() noexcept { return &value_; }
  const T* operator->() const noexcept { return &value_; }

 private:
  T value_;
  unsigned made_in_;
};

}  // namespace ringload::python
