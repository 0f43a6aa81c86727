// SPDX-License-Identifier: Apache-2.0
#pragma once

// Releases the GIL, also while the interpreter ends.
//
// If a thread requests the GIL while the interpreter ends, CPython before 3.14 ends the thread by
// pthread_exit(), which unwinds its frames. If the unwinding leaves a destructor, std::terminate()
// is called. Destructors of Python objects also need the GIL. Therefore this code makes the thread
// wait until the process has ended, as CPython 3.14 does.
//
// A destructor makes the thread wait. A catch block would call std::terminate() if another
// exception is being handled, which happens while an error of the library is converted to a Python
// exception.

#include <nanobind/nanobind.h>
#include <unistd.h>

namespace ringload::python {

/// Makes the thread wait forever if a Python call is unwound.
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

/// Releases the GIL. The destructor takes the GIL again.
class without_gil {
 public:
  without_gil() noexcept : state_(PyEval_SaveThread()) {}
  without_gil(const without_gil&) = delete;
  without_gil& operator=(const without_gil&) = delete;
  // Throws nothing. With noexcept, unwinding would call std::terminate() and not destroy the guard.
  ~without_gil() noexcept(false) {
    unwinding_guard guard;
    PyEval_RestoreThread(state_);
    guard.call_returned();
  }

 private:
  PyThreadState* const state_;
};

/// Calls function(*arguments), which may release the GIL. Throws Python exceptions.
inline nanobind::object call_python(nanobind::handle function, const nanobind::tuple& arguments) {
  unwinding_guard guard;
  PyObject* const made = PyObject_CallObject(function.ptr(), arguments.ptr());
  guard.call_returned();
  if (made == nullptr) throw nanobind::python_error();
  return nanobind::steal(made);
}

}  // namespace ringload::python
