// SPDX-License-Identifier: Apache-2.0
#pragma once

// Ends an operation in a thread of the library, in which an exception would end the process.

#include <memory>
#include <new>
#include <utility>

namespace ringload::inline v0::detail {

// Completes an operation with a result. Without memory to post the handler, destroys the handler
// without a call, as Asio does.
template <class Operation, class Result>
void end_operation(std::unique_ptr<Operation>& waiting, Result outcome) noexcept {
  try {
    if (outcome) {
      waiting->complete(std::move(*outcome));
    } else {
      waiting->fail(outcome.error());
    }
  } catch (const std::bad_alloc&) {
    waiting.reset();
  }
}

}  // namespace ringload::inline v0::detail
