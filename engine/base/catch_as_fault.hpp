// SPDX-License-Identifier: Apache-2.0
#pragma once

// Converts exceptions to faults. Used by code that returns `result`, mostly for std::bad_alloc.

#include <boost/system/system_error.hpp>
#include <cerrno>
#include <exception>
#include <new>
#include <system_error>

#include "base/fault.hpp"

namespace ringload::inline v0 {

// Calls `work`, which must return a `result`. Converts an exception of `work` to a fault. Converts
// std::bad_alloc to errc::memory_exceeded. Also returns errc::memory_exceeded if there is no memory
// for the text of a fault.
template <class Work>
auto catch_as_fault(Work&& work) noexcept -> decltype(work()) {
  try {
    try {
      return work();
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const error& e) {
      return to_fault(e);
    } catch (const boost::system::system_error& e) {
      return fault(e.code(), {});
    } catch (const std::system_error& e) {
      return fault(system_code(e.code().value()), {});
    } catch (const std::exception& e) {
      return fault(system_code(ENOTRECOVERABLE), {}, e.what());
    } catch (...) {
      return fault(system_code(ENOTRECOVERABLE), {}, "an exception that is not a std::exception");
    }
  } catch (const std::bad_alloc&) {
    return fault(errc::memory_exceeded, {});
  }
}

}  // namespace ringload::inline v0
