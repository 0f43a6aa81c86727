// SPDX-License-Identifier: Apache-2.0

// ringload keep: loads models once, and holds them for other processes to attach.

#include <fmt/format.h>
#include <poll.h>

#include <boost/asio/io_context.hpp>
#include <ringload/keeper.hpp>
#include <ringload/loader.hpp>
#include <string>
#include <utility>

#include "command_loop.hpp"
#include "commands.hpp"
#include "device.hpp"
#include "interrupts.hpp"
#include "open_request.hpp"
#include "progress_bar.hpp"
#include "text.hpp"

namespace ringload::tool {

namespace {

model load(loader& with, load_request one) {
  boost::asio::io_context context;
  progress_bar bar("loading", one.progress);
  running_load s{one, with};
  run_to_end(context, load_all(s), bar, [&s] { return so_far(s); });
  return std::move(s.loaded);
}

void wait_for_interrupt() {
  ::pollfd until = {interrupt_fd(), POLLIN, 0};
  while (interrupt_signal() == 0) (void)::poll(&until, 1, -1);
  throw_if_interrupted();
}

}  // namespace

void keep_models(const keep_request& request, output& out) {
  watch_for_interrupts();
  keeper_options how;
  how.mode = request.mode;
  how.users = request.users;
  // Before the loads: if the socket is taken, nothing need be loaded.
  keeper keeps(request.socket, how);
  const device target = device_named(request.load.device);
  loader with(target.kind() == device_kind::host ? shared_host() : target, request.load.within,
              extensions_for(request.load.from));
  for (const auto& [name, source] : request.models) {
    load_request one = request.load;
    one.from.sources = {source};
    const model loaded = load(with, std::move(one));
    keeps.publish(name, loaded);
    out.write(fmt::format("{}: {} tensors, {} bytes\n", printable(name), loaded.size(),
                          loaded.catalog().size_bytes()));
    out.flush();
  }
  wait_for_interrupt();
}

}  // namespace ringload::tool
