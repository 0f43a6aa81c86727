// SPDX-License-Identifier: Apache-2.0
#pragma once

// The event loop of a command. Runs one coroutine in this thread, draws the progress bar, and
// cancels the coroutine after Ctrl-C.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <functional>

#include "progress_bar.hpp"

namespace ringload::tool {

/// Runs `work`, and returns when it has ended and `context` has no other work. Rethrows the
/// exception of `work`. Throws `interrupted` if a signal was received, even if `work` has
/// succeeded.
///
/// `so_far` returns the progress of `work`. It is called in this thread, while `work` is suspended.
void run_to_end(boost::asio::io_context& context, boost::asio::awaitable<void> work,
                progress_bar& bar, std::function<progress()> so_far);

}  // namespace ringload::tool
