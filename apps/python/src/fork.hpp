// SPDX-License-Identifier: Apache-2.0
#pragma once

// What was made before a fork: in the child none of the library's threads runs, and any of its
// locks may be held for ever. So objects of the parent are refused there, and never destroyed.

#include <memory>
#include <utility>

namespace ringload::python {

/// The number of forks between the first program and this process, from the first call on.
unsigned fork_generation();

/// A value that is destroyed in the process that made it, and forgotten in its children.
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
