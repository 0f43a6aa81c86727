// SPDX-License-Identifier: Apache-2.0
#pragma once

// The event loop of a command that loads. Runs one coroutine in this thread, draws the progress
// bar, and cancels the coroutine on Ctrl-C.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <functional>

#include "progress_bar.hpp"

namespace ringload::tool {

/// Returns when `work` has ended and `context` has no work left. Rethrows the exception of `work`.
/// Throws `interrupted` if a signal was received, even if `work` has succeeded.
///
/// `so_far` is called in this thread, between the steps of `work`.
void run_to_end(boost::asio::io_context& context, boost::asio::awaitable<void> work,
                progress_bar& bar, std::function<progress()> so_far);

}  // namespace ringload::tool
