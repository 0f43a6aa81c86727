// SPDX-License-Identifier: Apache-2.0

// uring-bench tune: measures many settings briefly, the best ones longer, and then the loader
// itself if the target is a checkpoint and time is left. A difference within the noise is no gain.

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
// The gain that a setting needs to be chosen, and to be chosen though it takes more memory.
constexpr double gain_min = 1.03;
constexpr double quick_seconds = 0.2;
constexpr double close_seconds = 0.5;
constexpr std::size_t finalists = 3;
constexpr std::size_t loads_max = 9;  // Of each limits.

struct candidate {
  loader_options within;
  repeated quick;
  repeated close;
};

loader_options usual_options() { return chosen_options({}, device_kind::host); }

loader_options loader_options_of(std::uint64_t slot_bytes, std::uint64_t bytes_in_flight) {
  loader_options one = usual_options();
  one.slot_bytes = slot_bytes;
  one.bytes_in_flight = bytes_in_flight;
  // As many reads again are being copied, or their memory populated.
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

cell lasting(double seconds, const loader_options& within) {
  cell what = cell_of(within);
  what.seconds = seconds;
  return what;
}

struct tuned {
  std::vector<candidate> all;  // The defaults first.
  std::size_t best = 0;
  repeated default_loads;
  repeated tuned_loads;
  std::string no_loads_reason;  // Why the loader said nothing; empty: it did.

  bool loaded() const { return no_loads_reason.empty(); }
  const loader_options& chosen() const { return all[best].within; }
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
        of_(request.path, route::direct),
        end_(clock::now() +
             std::chrono::nanoseconds(static_cast<std::int64_t>(request.seconds * 1e9))) {}

  tuned run() {
    found_.all = candidates();
    look_quickly();
    look_closely();
    ask_the_loader();
    return std::move(found_);
  }

 private:
  double seconds_left() const { return std::chrono::duration<double>(end_ - clock::now()).count(); }

  // Whether more than this share of the whole time is left.
  bool time_for(double share_left) const { return seconds_left() > share_left * request_.seconds; }

  void look_quickly() {
    while (time_for(0.6)) {
      for (candidate& one : found_.all) {
        if (!time_for(0.55)) break;
        one.quick.add(bench::run(of_, lasting(quick_seconds, one.within), memory_));
      }
    }
  }

  void look_closely() {
    std::vector<std::size_t> order;
    for (std::size_t i = 1; i < found_.all.size(); ++i) {
      if (!found_.all[i].quick.runs().empty()) order.push_back(i);
    }
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return found_.all[a].quick.gb_per_s() > found_.all[b].quick.gb_per_s();
    });
    if (order.size() > finalists) order.resize(finalists);
    order.insert(order.begin(), 0);
    do {
      for (const std::size_t one : order) {
        candidate& c = found_.all[one];
        c.close.add(bench::run(of_, lasting(close_seconds, c.within), memory_));
      }
    } while (time_for(0.3));
    for (const std::size_t one : order) {
      const double best = found_.all[found_.best].close.gb_per_s();
      if (found_.all[one].close.gb_per_s() > best * gain_min) found_.best = one;
    }
  }

  // What the drive gains must arrive in a load. Where none can be had, the drive has the last word.
  void ask_the_loader() {
    if (found_.best == 0) {
      found_.no_loads_reason = "the drive gains nothing";
      return;
    }
    try {
      load_in_turns(read_catalog(request_.path).size_bytes());
    } catch (const error& failed) {
      found_.no_loads_reason = failed.what();
    }
    if (found_.loaded() && found_.loader_gain() < gain_min) found_.best = 0;
  }

  // As long as the next two will end in time: the first at the drive's rates, later ones as the two
  // before.
  void load_in_turns(std::uint64_t bytes) {
    const auto at_rate_of = [&](std::size_t one) {
      return static_cast<double>(bytes) * 1e-9 / found_.all[one].close.gb_per_s();
    };
    double seconds = at_rate_of(0) + at_rate_of(found_.best);
    memory_.give_back();
    while (seconds <= seconds_left() && found_.tuned_loads.runs().size() < loads_max) {
      const clock::time_point begin = clock::now();
      found_.default_loads.add(load(usual_options()));
      found_.tuned_loads.add(load(found_.chosen()));
      seconds = std::chrono::duration<double>(clock::now() - begin).count();
    }
    if (found_.tuned_loads.runs().empty()) {
      found_.no_loads_reason = fmt::format("two would take {:.1f} s, and {:.1f} s are left",
                                           seconds, std::max(0.0, seconds_left()));
    }
  }

  measurement load(const loader_options& within) const {
    of_.establish(cache_state::cold);
    loader with(host(), within);
    auto waiting = with.load_async(request_.path, boost::asio::use_future);
    using namespace std::chrono_literals;
    while (waiting.wait_for(20ms) != std::future_status::ready) tool::throw_if_interrupted();
    const load_stats stats = waiting.get().stats();
    measurement m;
    m.bytes = stats.bytes;
    m.seconds = stats.seconds;
    return m;
  }

  const tune_request& request_;
  const target of_;
  const clock::time_point end_;
  room memory_;
  tuned found_;
};

std::string flags_of(const loader_options& within) {
  return fmt::format("--slots {} --slot-bytes {}K --bytes-in-flight {}K", within.slots,
                     within.slot_bytes >> 10, within.bytes_in_flight >> 10);
}

std::string code_of(const loader_options& within) {
  return fmt::format(
      "ringload::loader_options within;\n"
      "within.slots = {};\n"
      "within.slot_bytes = {};\n"
      "within.bytes_in_flight = {};\n",
      within.slots, within.slot_bytes, within.bytes_in_flight);
}

std::string rate_line(const char* title, const loader_options& within, const repeated& runs) {
  return fmt::format("{:<10} {:>6} x {:<9} {:>8} in flight  {:6.2f} GB/s, {:.2f} to {:.2f} in {}\n",
                     title, within.slots, tool::binary_size(within.slot_bytes),
                     tool::binary_size(cell_of(within).bytes_in_flight()), runs.gb_per_s(),
                     runs.least_gb_per_s(), runs.most_gb_per_s(),
                     tool::counted(runs.runs().size(), "run"));
}

std::string tuned_text(const tuned& found) {
  std::string text = "the drive, cold and verified, direct reads into slots:\n";
  for (std::size_t i = 0; i < found.all.size(); ++i) {
    const candidate& one = found.all[i];
    if (one.close.runs().empty()) continue;
    text += rate_line(i == 0 ? "defaults" : i == found.best ? "best" : "", one.within, one.close);
  }
  if (found.loaded()) {
    text += fmt::format(
        "whole loads: {:.2f} GB/s with the defaults, {:.2f} with other limits ({:.3f})\n",
        found.default_loads.gb_per_s(), found.tuned_loads.gb_per_s(), found.loader_gain());
  } else {
    text += "no whole loads: " + tool::printable(found.no_loads_reason) + "\n";
  }
  if (found.best == 0) {
    return text + "\nNothing gains more than 3 % over the defaults: keep them.\n\n" +
           code_of(usual_options()) + "\nringload load " + flags_of(usual_options()) + "\n";
  }
  return text +
         fmt::format("\nThe drive gains {:.1f} %{}.\n\n", (found.gain() - 1) * 100,
                     found.loaded()
                         ? fmt::format(", whole loads {:.1f} %", (found.loader_gain() - 1) * 100)
                         : "") +
         code_of(found.chosen()) + "\nringload load " + flags_of(found.chosen()) + "\n";
}

void append_tuned(std::string& to, const tune_request& request, const tuned& found) {
  const loader_options& within = found.chosen();
  tool::json_object object(to);
  object.field("target", request.path);
  tool::json_object(object.key_of_next("limits"))
      .field("slots", std::uint64_t{within.slots})
      .field("slot_bytes", within.slot_bytes)
      .field("bytes_in_flight", within.bytes_in_flight)
      .close();
  object.field("flags", flags_of(within))
      .field("code", code_of(within))
      .field("defaults_kept", found.best == 0)
      .field("gb_per_s_default", found.all.front().close.gb_per_s())
      .field("gb_per_s", found.all[found.best].close.gb_per_s())
      .field("gain", found.gain());
  if (found.loaded()) {
    object.field("loader_gain", found.loader_gain());
  } else {
    object.field("no_loads_reason", found.no_loads_reason);
  }
  object.close();
}

}  // namespace

void tune(const tune_request& request, tool::output& out) {
  tool::watch_for_interrupts();
  const tuned found = tuning(request).run();
  std::string text;
  if (request.json) {
    append_tuned(text, request, found);
    text += '\n';
  } else {
    text = tuned_text(found);
  }
  out.write(text);
  out.flush();
}

}  // namespace ringload::bench
