// SPDX-License-Identifier: Apache-2.0

// uring-bench legs: the drive alone, the device's copies alone, both without a format, and the real
// loader, in turns. The slower of the first two is the wall; what the loader has less than both
// together is its own.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/asio/use_future.hpp>
#include <future>
#include <ringload/catalog.hpp>
#include <ringload/loader.hpp>

#include "accounts.hpp"
#include "commands.hpp"
#include "device.hpp"
#include "failure.hpp"
#include "interrupts.hpp"
#include "json.hpp"
#include "machine.hpp"
#include "repeated.hpp"
#include "run.hpp"
#include "size.hpp"
#include "stream.hpp"

namespace ringload::bench {

namespace {

struct leg {
  const char* name;
  const char* title;
  std::vector<double> gb_per_s = {};
  std::vector<double> cpu_s_per_gib = {};

  double rate() const { return median(gb_per_s); }
};

enum leg_index : std::uint8_t { drive, copies, both, whole, legs_count };

struct found_legs {
  std::array<leg, legs_count> legs = {{{"disk", "drive alone, into slots"},
                                       {"copies", "device copies alone"},
                                       {"both", "both, without a format"},
                                       {"loader", "ringload, whole load"}}};
  std::vector<double> seconds_to_first_tensor;
  std::vector<double> loader_seconds;
  std::uint64_t pinned_bytes = 0;

  const leg& wall() const {
    return legs[drive].rate() < legs[copies].rate() ? legs[drive] : legs[copies];
  }
  double share_of_wall() const { return legs[whole].rate() / wall().rate(); }
};

class legs_run {
 public:
  legs_run(const legs_request& request, const device& to)
      : request_(request), to_(to), of_(request.source, files_of(request.source), route::direct) {}

  found_legs run() {
    for (std::uint32_t i = 0; i < request_.runs; ++i) {
      drive_alone();
      streamed(copies, half::copies);
      of_.establish(cache_state::cold);
      streamed(both, half::both);
      of_.establish(cache_state::cold);
      load();
    }
    return std::move(found_);
  }

 private:
  static std::vector<std::string> files_of(const std::string& source) {
    std::vector<std::string> files;
    for (const file_info& one : read_catalog(source).files) files.push_back(one.path);
    return files;
  }

  void add(leg_index which, double seconds, double bytes, double cpu_seconds) {
    found_.legs[which].gb_per_s.push_back(bytes / seconds * 1e-9);
    found_.legs[which].cpu_s_per_gib.push_back(cpu_seconds / bytes * (1 << 30));
  }

  void drive_alone() {
    cell what = cell_of(within_);
    what.registered_buffers = false;
    what.bytes_max = of_.bytes();
    what.seconds = 3600;
    const measurement m = bench::run(of_, what, memory_);
    add(drive, m.seconds, static_cast<double>(m.bytes), m.cpu_seconds);
  }

  void streamed(leg_index which, half half_of_it) {
    const cpu_times before = cpu_now();
    const double seconds = stream(of_, to_, within_, half_of_it);
    const cpu_times after = cpu_now();
    add(which, seconds, static_cast<double>(of_.bytes()), after.own - before.own);
  }

  void load() {
    const cpu_times before = cpu_now();
    loader with(to_, within_);
    auto waiting = with.load_async(request_.source, boost::asio::use_future);
    using namespace std::chrono_literals;
    while (waiting.wait_for(50ms) != std::future_status::ready) tool::throw_if_interrupted();
    const load_stats stats = waiting.get().stats();
    const cpu_times after = cpu_now();
    add(whole, stats.seconds, static_cast<double>(stats.bytes), after.own - before.own);
    found_.seconds_to_first_tensor.push_back(stats.seconds_to_first_tensor);
    found_.loader_seconds.push_back(stats.seconds);
    found_.pinned_bytes = stats.pinned_bytes_peak;
  }

  const legs_request& request_;
  const device to_;
  const limits within_;
  const target of_;
  room memory_;
  found_legs found_;
};

std::string legs_text(const legs_request& request, const found_legs& found, std::uint64_t bytes) {
  std::string text = describe_machine(request.source) + "\n";
  text += fmt::format("{} of {}, cold and verified, medians of {} runs in turns, into {}\n\n",
                      tool::both_sizes(bytes), request.source, request.runs, request.device);
  text += fmt::format("{:<26} {:>7}  {:<16} {:>11}\n", "", "GB/s", "least .. most", "CPU s/GiB");
  for (const leg& one : found.legs) {
    const auto [least, most] = std::minmax_element(one.gb_per_s.begin(), one.gb_per_s.end());
    text += fmt::format("{:<26} {:>7.2f}  {:>5.2f} .. {:<7.2f} {:>11.4f}\n", one.title, one.rate(),
                        *least, *most, median(one.cpu_s_per_gib));
  }
  const double seconds = median(found.loader_seconds);
  const double first = median(found.seconds_to_first_tensor);
  text += fmt::format(
      "\nThe wall is {}. The loader reaches {:.3f} of it, and {:.3f} of what both "
      "give without a format.\n",
      found.wall().title, found.share_of_wall(),
      found.legs[whole].rate() / found.legs[both].rate());
  text += fmt::format("First tensor after {:.1f} ms, {:.1f} % of the load; {} pinned.\n",
                      first * 1e3, first / seconds * 100, tool::both_sizes(found.pinned_bytes));
  return text;
}

void append_legs(std::string& to, const legs_request& request, const found_legs& found) {
  tool::json_object object(to);
  object.field("source", request.source)
      .field("device", request.device)
      .field("runs", std::uint64_t{request.runs});
  tool::json_object legs(object.key_of_next("legs"));
  for (const leg& one : found.legs) {
    tool::json_object(legs.key_of_next(one.name))
        .field("gb_per_s", one.rate())
        .list("runs_gb_per_s", one.gb_per_s)
        .field("cpu_s_per_gib", median(one.cpu_s_per_gib))
        .close();
  }
  legs.close();
  object.field("wall", std::string_view(found.wall().name))
      .field("loader_share_of_wall", found.share_of_wall())
      .field("loader_share_of_both", found.legs[whole].rate() / found.legs[both].rate())
      .field("seconds_to_first_tensor", median(found.seconds_to_first_tensor))
      .field("loader_seconds", median(found.loader_seconds))
      .field("pinned_bytes_peak", found.pinned_bytes)
      .close();
}

}  // namespace

void measure_legs(const legs_request& request, tool::output& out) {
  const device to = tool::device_named(request.device);
  tool::watch_for_interrupts();
  const std::uint64_t bytes = read_catalog(request.source).bytes();
  if (bytes == 0) fail(request.source, "there is not one byte in its tensors to load");
  const found_legs found = legs_run(request, to).run();
  std::string text;
  if (request.json) {
    append_legs(text, request, found);
    text += '\n';
  } else {
    text = legs_text(request, found, bytes);
  }
  out.write(text);
  out.flush();
}

}  // namespace ringload::bench
