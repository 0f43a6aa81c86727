// SPDX-License-Identifier: Apache-2.0
#pragma once

// The functions by which tests control the stand-in for cuFile and read its state.

#include <dlfcn.h>

#include <stdexcept>
#include <string>

namespace ringload::testing {

class fake_cufile {
 public:
  explicit fake_cufile(const char* library) : library_(::dlopen(library, RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) throw std::runtime_error(::dlerror());
    reset();
  }
  fake_cufile(const fake_cufile&) = delete;
  fake_cufile& operator=(const fake_cufile&) = delete;

  // Resets files, registrations, counts and requested failures.
  void reset() { function<void()>("fake_cufile_reset")(); }

  // Makes the nth future call of the function fail, counted from 1: with an error of cuFile (5001
  // or larger) or, for a read, with an errno.
  void fail(const char* name, unsigned nth, int code) {
    function<void(const char*, unsigned, int)>("fake_cufile_fail")(name, nth, code);
  }
  // Each later read returns at most this number of bytes. 0 means all bytes.
  void shorten(std::size_t bytes_max) {
    function<void(std::size_t)>("fake_cufile_shorten")(bytes_max);
  }
  // The compatibility mode is on and cannot be disabled.
  void keep_compatibility() { function<void()>("fake_cufile_keep_compatibility")(); }
  // cuFileDriverOpen does not return until let_go().
  void hang() { function<void(bool)>("fake_cufile_hang")(true); }
  void let_go() { function<void(bool)>("fake_cufile_hang")(false); }
  // No read ends until let_reads_go().
  void hold_reads() { function<void(bool)>("fake_cufile_hold")(true); }
  void let_reads_go() { function<void(bool)>("fake_cufile_hold")(false); }
  unsigned waiting_reads() { return function<unsigned()>("fake_cufile_waiting")(); }

  unsigned calls(const char* name) {
    return function<unsigned(const char*)>("fake_cufile_calls")(name);
  }
  // The number of registered ranges and files.
  unsigned registered_memory() { return function<unsigned()>("fake_cufile_memory")(); }
  unsigned registered_files() { return function<unsigned()>("fake_cufile_files")(); }
  // The recorded misuse. Empty if there was none.
  std::string misuse() { return function<const char*()>("fake_cufile_misuse")(); }

 private:
  template <class Function>
  Function* function(const char* name) {
    auto* const found = reinterpret_cast<Function*>(::dlsym(library_, name));
    if (found == nullptr) throw std::runtime_error(::dlerror());
    return found;
  }

  void* const library_;
};

}  // namespace ringload::testing
