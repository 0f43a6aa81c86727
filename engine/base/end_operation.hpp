// SPDX-License-Identifier: Apache-2.0
#pragma once

// Completes an operation in a library thread. Handles std::bad_alloc, because an uncaught exception
// in a library thread would end the process.

#include <memory>
#include <new>
#include <utility>

namespace ringload::inline v0::detail {

// Completes the operation `waiting` with `outcome`. If there is no memory to post the handler of
// the operation, destroys the operation without calling the handler.
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
