// SPDX-License-Identifier: Apache-2.0
#include "command_loop.hpp"

#include <fcntl.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <chrono>
#include <exception>
#include <ringload/error.hpp>
#include <utility>

#include "interrupts.hpp"

namespace ringload::tool {

namespace {

namespace asio = boost::asio;

constexpr auto redraw_every = std::chrono::milliseconds(100);

int duplicate(int descriptor) {
  const int own = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (own < 0) throw error({errno, boost::system::system_category()}, {}, {});
  return own;
}

class session {
 public:
  session(asio::io_context& context, progress_bar& bar, std::function<progress()> so_far)
      : context_(context),
        bar_(bar),
        so_far_(std::move(so_far)),
        redraw_(context),
        interrupts_(context, duplicate(interrupt_fd())) {}

  void run(asio::awaitable<void> work) {
    asio::co_spawn(context_, std::move(work),
                   asio::bind_cancellation_slot(cancel_.slot(), [this](std::exception_ptr failure) {
                     failure_ = std::move(failure);
                     ended_ = true;
                     redraw_.cancel();
                     interrupts_.cancel();
                   }));
    interrupts_.async_wait(asio::posix::descriptor_base::wait_read,
                           [this](const boost::system::error_code& stopped) {
                             if (!stopped) cancel_.emit(asio::cancellation_type::terminal);
                           });
    if (bar_.visible()) draw_and_again();
    context_.run();
    bar_.erase();

    throw_if_interrupted();
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void draw_and_again() {
    bar_.show(so_far_());
    redraw_.expires_after(redraw_every);
    redraw_.async_wait([this](const boost::system::error_code& stopped) {
      // The timer may have expired just before it was cancelled.
      if (!stopped && !ended_) draw_and_again();
    });
  }

  asio::io_context& context_;
  progress_bar& bar_;
  std::function<progress()> so_far_;
  asio::cancellation_signal cancel_;
  asio::steady_timer redraw_;
  asio::posix::stream_descriptor interrupts_;
  std::exception_ptr failure_;
  bool ended_ = false;
};

}  // namespace

void run_to_end(asio::io_context& context, asio::awaitable<void> work, progress_bar& bar,
                std::function<progress()> so_far) {
  session(context, bar, std::move(so_far)).run(std::move(work));
}

}  // namespace ringload::tool
