// SPDX-License-Identifier: Apache-2.0
#pragma once

// The event loop of a command that loads: this thread's own io_context, which carries one coroutine
// to its end. Meanwhile it draws the progress bar, and Ctrl-C cancels the coroutine.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <functional>

#include "progress_bar.hpp"

namespace ringload::tool {

/// Returns when `work` has ended and nothing is left to do in `context`. Throws what `work` threw,
/// or `interrupted` if a signal came, in time or not.
///
/// `so_far` is called on this thread, between the steps of `work`.
void run_to_end(boost::asio::io_context& context, boost::asio::awaitable<void> work,
                progress_bar& bar, std::function<progress()> so_far);

}  // namespace ringload::tool
