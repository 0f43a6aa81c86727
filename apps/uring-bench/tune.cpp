// SPDX-License-Identifier: Apache-2.0

// uring-bench tune: measures many settings for a short time, and the best settings longer. If the
// target is a checkpoint and time is left, measures the loader too. A difference within the noise
// is not a gain.

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <future>
#include <ringload/loader.hpp>

#include "commands.hpp"
#include "interrupts.hpp"
#include "json.hpp"
#include "repeat_runs.hpp"
#include "run.hpp"
#include "size.hpp"
#include "text.hpp"

namespace ringload::bench {

namespace {

using clock = std::chrono::steady_clock;

constexpr std::uint64_t pinned_bytes_max = std::uint64_t{128} << 20;
// A setting must be faster than the best earlier setting by this factor.
constexpr double gain_min = 1.03;
constexpr double quick_seconds = 0.2;
constexpr double close_seconds = 0.5;
constexpr double close_seconds_min = 0.05;
constexpr std::size_t finalists = 3;
constexpr std::size_t loads_max = 9;  // For each setting.

struct candidate {
  loader_options options;
  repeated quick;
  repeated close;
};

loader_options usual_options() { return chosen_options({}, device_kind::host); }

loader_options loader_options_of(std::uint64_t slot_bytes, std::uint64_t bytes_in_flight) {
  loader_options one = usual_options();
  one.slot_bytes = slot_bytes;
  one.bytes_in_flight = bytes_in_flight;
  // Twice the reads in flight, because other slots are being copied or populated.
  const std::uint64_t slots = std::max<std::uint64_t>(4, 2 * bytes_in_flight / slot_bytes);
  one.slots = static_cast<std::uint32_t>(std::min(slots, pinned_bytes_max / slot_bytes));
  return one;
}

bool same(const loader_options& a, const loader_options& b) {
  return a.slot_bytes == b.slot_bytes &&
         cell_of(a).bytes_in_flight() == cell_of(b).bytes_in_flight();
}

std::vector<candidate> candidates() {
  std::vector<candidate> all = {{usual_options(), {}, {}}};
  for (const std::uint64_t slot_bytes : {512U << 10, 1U << 20, 2U << 20, 4U << 20, 8U << 20}) {
    for (std::uint64_t in_flight = 2U << 20; in_flight <= (64U << 20); in_flight *= 2) {
      if (in_flight < slot_bytes) continue;
      const loader_options one = loader_options_of(slot_bytes, in_flight);
      if (!same(one, usual_options())) all.push_back({one, {}, {}});
    }
  }
  return all;
}

cell lasting(double seconds, const loader_options& options) {
  cell config = cell_of(options);
  config.seconds = seconds;
  return config;
}

struct tuned {
  std::vector<candidate> all;  // The defaults are first.
  std::size_t best = 0;
  repeated default_loads;
  repeated tuned_loads;
  std::string no_loads_reason;  // The reason why the loader was not measured, or empty.

  bool loaded() const { return no_loads_reason.empty(); }
  const loader_options& chosen() const { return all[best].options; }
  double gain() const {
    if (best == 0) return 1;
    return all[best].close.gb_per_s() / all.front().close.gb_per_s();
  }
  double loader_gain() const { return tuned_loads.gb_per_s() / default_loads.gb_per_s(); }
};

class tuning {
 public:
  explicit tuning(const tune_request& request)
      : request_(request),
        source_(request.path, route::direct),
        end_(clock::now() +
             std::chrono::nanoseconds(static_cast<std::int64_t>(request.seconds * 1e9))) {}

  tuned run() {
    result_.all = candidates();
    look_quickly();
    look_closely();
    ask_the_loader();
    return std::move(result_);
  }

 private:
  double seconds_left() const { return std::chrono::duration<double>(end_ - clock::now()).count(); }

  // Returns true if more than this share of the whole time is left.
  bool time_for(double share_left) const { return seconds_left() > share_left * request_.seconds; }

  void look_quickly() {
    while (time_for(0.6)) {
      for (candidate& one : result_.all) {
        if (!time_for(0.55)) break;
        one.quick.add(bench::run(source_, lasting(quick_seconds, one.options), memory_));
      }
    }
  }

  void look_closely() {
    std::vector<std::size_t> order;
    for (std::size_t i = 1; i < result_.all.size(); ++i) {
      if (!result_.all[i].quick.runs().empty()) order.push_back(i);
    }
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return result_.all[a].quick.gb_per_s() > result_.all[b].quick.gb_per_s();
    });
    if (order.size() > finalists) order.resize(finalists);
    order.insert(order.begin(), 0);
    do {
      // If little time is left, the runs are shorter.
      const double seconds = std::clamp(seconds_left() / static_cast<double>(order.size()),
                                        close_seconds_min, close_seconds);
      for (const std::size_t one : order) {
        candidate& c = result_.all[one];
        c.close.add(bench::run(source_, lasting(seconds, c.options), memory_));
      }
    } while (time_for(0.3));
    for (const std::size_t one : order) {
      const double best = result_.all[result_.best].close.gb_per_s();
      if (result_.all[one].close.gb_per_s() > best * gain_min) result_.best = one;
    }
  }

  // Keeps the default settings if the best settings do not make loads faster. If no load can be
  // measured, the result of the drive decides.
  void ask_the_loader() {
    if (result_.best == 0) {
      result_.no_loads_reason = "the drive gains nothing";
      return;
    }
    try {
      load_in_turns(read_catalog(request_.path).size_bytes());
    } catch (const error& failed) {
      result_.no_loads_reason = failed.what();
    }
    if (result_.loaded() && result_.loader_gain() < gain_min) result_.best = 0;
  }

  // Continues while the next two loads are expected to end in time. The first estimate uses the
  // rate of the drive, later estimates use the previous two loads.
  void load_in_turns(std::uint64_t bytes) {
    const auto at_rate_of = [&](std::size_t one) {
      return static_cast<double>(bytes) * 1e-9 / result_.all[one].close.gb_per_s();
    };
    double seconds = at_rate_of(0) + at_rate_of(result_.best);
    memory_.give_back();
    while (seconds <= seconds_left() && result_.tuned_loads.runs().size() < loads_max) {
      const clock::time_point begin = clock::now();
      result_.default_loads.add(load(usual_options()));
      result_.tuned_loads.add(load(result_.chosen()));
      seconds = std::chrono::duration<double>(clock::now() - begin).count();
    }
    if (result_.tuned_loads.runs().empty()) {
      result_.no_loads_reason = fmt::format("two would take {:.1f} s, and {:.1f} s are left",
                                            seconds, std::max(0.0, seconds_left()));
    }
  }

  measurement load(const loader_options& options) const {
    source_.establish(cache_state::cold);
    loader used_loader(host(), options);
    auto waiting =
        used_loader.load_async(request_.path, ringload::as_exception(boost::asio::use_future));
    using namespace std::chrono_literals;
    while (waiting.wait_for(20ms) != std::future_status::ready) tool::throw_if_interrupted();
    const load_stats stats = waiting.get().stats();
    measurement m;
    m.bytes = stats.bytes;
    m.seconds = stats.seconds;
    return m;
  }

  const tune_request& request_;
  const target source_;
  const clock::time_point end_;
  read_buffer memory_;
  tuned result_;
};

std::string flags_of(const loader_options& options) {
  return fmt::format("--slots {} --slot-bytes {}K --bytes-in-flight {}K", options.slots,
                     options.slot_bytes >> 10, options.bytes_in_flight >> 10);
}

std::string code_of(const loader_options& options) {
  return fmt::format(
      "ringload::loader_options options;\n"
      "options.slots = {};\n"
      "options.slot_bytes = {};\n"
      "options.bytes_in_flight = {};\n",
      options.slots, options.slot_bytes, options.bytes_in_flight);
}

std::string rate_line(const char* title, const loader_options& options, const repeated& runs) {
  return fmt::format("{:<10} {:>6} x {:<9} {:>8} in flight  {:6.2f} GB/s, {:.2f} to {:.2f} in {}\n",
                     title, options.slots, tool::binary_size(options.slot_bytes),
                     tool::binary_size(cell_of(options).bytes_in_flight()), runs.gb_per_s(),
                     runs.least_gb_per_s(), runs.most_gb_per_s(),
                     tool::counted(runs.runs().size(), "run"));
}

std::string tuned_text(const tuned& result) {
  std::string text = "the drive, cold and verified, direct reads into slots:\n";
  for (std::size_t i = 0; i < result.all.size(); ++i) {
    const candidate& one = result.all[i];
    if (one.close.runs().empty()) continue;
    text += rate_line(i == 0 ? "defaults" : i == result.best ? "best" : "", one.options, one.close);
  }
  if (result.loaded()) {
    text += fmt::format(
        "whole loads: {:.2f} GB/s with the defaults, {:.2f} with other limits ({:.3f})\n",
        result.default_loads.gb_per_s(), result.tuned_loads.gb_per_s(), result.loader_gain());
  } else {
    text += "no whole loads: " + tool::printable(result.no_loads_reason) + "\n";
  }
  if (result.best == 0) {
    return text + "\nNothing gains more than 3 % over the defaults: keep them.\n\n" +
           code_of(usual_options()) + "\nringload load " + flags_of(usual_options()) + "\n";
  }
  return text +
         fmt::format("\nThe drive gains {:.1f} %{}.\n\n", (result.gain() - 1) * 100,
                     result.loaded()
                         ? fmt::format(", whole loads {:.1f} %", (result.loader_gain() - 1) * 100)
                         : "") +
         code_of(result.chosen()) + "\nringload load " + flags_of(result.chosen()) + "\n";
}

void append_tuned(std::string& text, const tune_request& request, const tuned& result) {
  const loader_options& options = result.chosen();
  tool::json_object object(text);
  object.field("schema_version", tool::schema_version).field("target", request.path);
  tool::json_object(object.key_of_next("limits"))
      .field("slots", std::uint64_t{options.slots})
      .field("slot_bytes", options.slot_bytes)
      .field("bytes_in_flight", options.bytes_in_flight)
      .close();
  object.field("flags", flags_of(options))
      .field("code", code_of(options))
      .field("defaults_kept", result.best == 0)
      .field("gb_per_s_default", result.all.front().close.gb_per_s())
      .field("gb_per_s", result.all[result.best].close.gb_per_s())
      .field("gain", result.gain());
  if (result.loaded()) {
    object.field("loader_gain", result.loader_gain());
  } else {
    object.field("no_loads_reason", result.no_loads_reason);
  }
  object.close();
}

}  // namespace

void tune(const tune_request& request, tool::output& out) {
  tool::watch_for_interrupts();
  const tuned result = tuning(request).run();
  std::string text;
  if (request.json) {
    append_tuned(text, request, result);
    text += '\n';
  } else {
    text = tuned_text(result);
  }
  out.write(text);
  out.flush();
}

}  // namespace ringload::bench
