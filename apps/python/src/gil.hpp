// SPDX-License-Identifier: Apache-2.0
#pragma once

// Being without the GIL, also while the interpreter ends.
//
// CPython before 3.14 ends a thread that asks for the GIL of an interpreter at its end by
// pthread_exit(), which unwinds the thread's frames. Destructors let nothing pass, which would be
// std::terminate(), and those of Python's objects need the GIL. So the thread stays where it asks,
// as it does in 3.14, until the process has ended.
//
// The thread is held by a destructor. A catch block would be std::terminate() if another exception
// is being handled, as it is while an error of the library becomes Python's.

#include <nanobind/nanobind.h>
#include <unistd.h>

namespace ringload::python {

/// Holds the thread for ever if a call of Python's ends by unwinding.
class unwinding_guard {
 public:
  unwinding_guard() = default;
  unwinding_guard(const unwinding_guard&) = delete;
  unwinding_guard& operator=(const unwinding_guard&) = delete;
  ~unwinding_guard() {
    while (!returned_) ::pause();
  }

  void call_returned() noexcept { returned_ = true; }

 private:
  bool returned_ = false;
};

/// The thread has the GIL again when this ends.
class without_gil {
 public:
  without_gil() noexcept : state_(PyEval_SaveThread()) {}
  without_gil(const without_gil&) = delete;
  without_gil& operator=(const without_gil&) = delete;
  // Throws nothing, but with noexcept the guard would not be destroyed.
  ~without_gil() noexcept(false) {
    unwinding_guard guard;
    PyEval_RestoreThread(state_);
    guard.call_returned();
  }

 private:
  PyThreadState* const state_;
};

/// function(*arguments), which may let others have the GIL meanwhile. Throws Python's exceptions.
inline nanobind::object call_python(nanobind::handle function, const nanobind::tuple& arguments) {
  unwinding_guard guard;
  PyObject* const made = PyObject_CallObject(function.ptr(), arguments.ptr());
  guard.call_returned();
  if (made == nullptr) throw nanobind::python_error();
  return nanobind::steal(made);
}

}  // namespace ringload::python
