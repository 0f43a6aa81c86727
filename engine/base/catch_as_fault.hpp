// SPDX-License-Identifier: Apache-2.0
#pragma once

// Turns exceptions into faults for code that returns `result`.

#include <boost/system/system_error.hpp>
#include <cerrno>
#include <exception>
#include <new>
#include <system_error>

#include "base/fault.hpp"

namespace ringload::inline v0 {

// `work` returns a result. Any exception, mostly std::bad_alloc, is returned as a fault.
template <class Work>
auto catch_as_fault(Work&& work) noexcept -> decltype(work()) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return fault(errc::memory_exceeded, {});
  } catch (const error& e) {
    return to_fault(e);
  } catch (const boost::system::system_error& e) {
    return fault(e.code(), {});
  } catch (const std::system_error& e) {
    return fault(system_code(e.code().value()), {});
  } catch (const std::exception& e) {
    return fault(system_code(ENOTRECOVERABLE), {}, e.what());
  } catch (...) {
    return fault(system_code(ENOTRECOVERABLE), {}, "an exception that is no std::exception");
  }
}

}  // namespace ringload::inline v0
