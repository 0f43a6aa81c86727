// SPDX-License-Identifier: Apache-2.0

// ringload load: loads a checkpoint and reports statistics.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <optional>
#include <ringload/atomic_file.hpp>
#include <ringload/loader.hpp>
#include <string>
#include <utility>
#include <vector>

#include "command_loop.hpp"
#include "commands.hpp"
#include "device.hpp"
#include "interrupts.hpp"
#include "open_request.hpp"
#include "openssl_hasher.hpp"
#include "progress_bar.hpp"
#include "report.hpp"
#include "text.hpp"
#include "trace_file.hpp"
#include "written_files.hpp"

namespace ringload::tool {

namespace {

namespace asio = boost::asio;

// Loads through a window, and drops each tensor as soon as it is loaded.
asio::awaitable<void> load_through_window(running_load& s) {
  auto started = co_await start_load(s.file_loader, s.request);
  s.started = std::move(started);
  s.loads = true;
  for (bool more = true; more;) {
    auto next = co_await s.started.tensors().next_async();
    more = next.has_value();
  }
}

allocation_log log_to(const std::string& path) {
  return path.empty() ? allocation_log() : allocation_log(path);
}

}  // namespace

void load_checkpoint(const load_request& request, output& out) {
  check_written_files(request.from,
                      {{"--trace", request.trace}, {"--allocation-log", request.allocation_log}},
                      request.verify);
  load_request checked = request;
  checked.how.verify.sha256 = [] { return openssl_hasher(::EVP_sha256()); };
  checksum_list listed;
  if (!request.verify.empty()) {
    listed = read_checksum_list(request.verify);
    listed.sha256 = [] { return openssl_hasher(::EVP_sha256()); };
    checked.how.verify.checksums = &listed;
  }
  const std::vector<device> targets = devices_named(request.device);
  trace_collector steps;
  std::optional<atomic_file> trace;
  if (!request.trace.empty()) {
    trace.emplace(request.trace, entry_kind::file, true);
    checked.how.trace = &trace_collector::add;
    checked.how.trace_context = &steps;
  }
  watch_for_interrupts();
  const auto before = std::chrono::steady_clock::now();
  const allocation_log log = log_to(request.allocation_log);
  loader file_loader(targets, request.options, extensions_for(request.from), log);
  const std::chrono::duration<double> starting = std::chrono::steady_clock::now() - before;

  asio::io_context context;
  progress_bar bar("loading", request.progress);
  running_load s{checked, file_loader};
  const bool windowed = request.window_bytes > 0;
  run_to_end(context, windowed ? load_through_window(s) : load_all(s), bar,
             [&s] { return so_far(s); });

  if (log.failed()) {
    throw error({EIO, boost::system::system_category()}, printable(request.allocation_log),
                "not all of the allocation log could be written");
  }
  if (trace) {
    trace->write(steps.text());
    trace->publish();
  }
  std::string device_names;
  for (const device& each : targets) {
    device_names += (device_names.empty() ? "" : ",") + each.name();
  }
  const load_stats stats = with_opening(
      windowed ? s.started.tensors().progress() : s.loaded.stats(), s.started.seconds_opening);
  const std::vector<file_stats> of_files =
      windowed ? s.started.tensors().progress_of_files() : s.loaded.stats_of_files();
  const load_report report{
      request.from.sources,
      device_names,
      windowed ? s.started.tensors().catalog() : s.loaded.catalog(),
      stats,
      of_files,
      starting.count(),
      !request.verify.empty() || request.how.verify.stored != embedded_digests::none,
      file_loader.memory().tensor_bytes_peak};
  if (request.json) {
    std::string text;
    append_report(text, report);
    out.write(text + "\n");
  } else {
    out.write(report_text(report));
  }
  out.flush();
}

}  // namespace ringload::tool
