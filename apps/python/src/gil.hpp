// SPDX-License-Identifier: Apache-2.0
#pragma once

// Being without the GIL, also while the interpreter ends.
//
// CPython before 3.14 ends a thread that asks for the GIL of an interpreter at its end by
// pthread_exit(), which unwinds the thread's frames. Destructors let nothing pass, which would be
// std::terminate(), and those of Python's objects need the GIL. So the thread stays where it asks,
// as it does in 3.14, until the process has ended.

#include <nanobind/nanobind.h>
#include <unistd.h>

namespace ringload::python {

[[noreturn]] inline void stay() {
  while (true) ::pause();
}

/// The thread has the GIL again when this ends.
class without_gil {
 public:
  without_gil() noexcept : state_(PyEval_SaveThread()) {}
  without_gil(const without_gil&) = delete;
  without_gil& operator=(const without_gil&) = delete;
  ~without_gil() {
    try {
      PyEval_RestoreThread(state_);
    } catch (...) {
      stay();
    }
  }

 private:
  PyThreadState* const state_;
};

/// function(*arguments), which may let others have the GIL meanwhile. Throws Python's exceptions.
inline nanobind::object call_python(nanobind::handle function, const nanobind::tuple& arguments) {
  PyObject* made = nullptr;
  try {
    made = PyObject_CallObject(function.ptr(), arguments.ptr());
  } catch (...) {  // Python's own exceptions do not come this way.
    stay();
  }
  if (made == nullptr) throw nanobind::python_error();
  return nanobind::steal(made);
}

}  // namespace ringload::python
