// SPDX-License-Identifier: Apache-2.0
#include "trace_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <new>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

#include "json.hpp"

namespace ringload::tool {

namespace {

using clock = trace_event::clock;

// A lane is a row of the diagram. A viewer shows each group of lanes as a process, and each lane as
// a thread.
enum class group : std::uint8_t { load = 1, slots, threads, streams };

struct lane {
  group in;
  std::uint32_t number;
  friend auto operator<=>(const lane&, const lane&) = default;
};

// These numbers are large, so that a viewer shows the lanes below the lanes of opening. A windowed
// load has several lanes of opening, because it opens several groups of tensors at the same time.
constexpr lane landed = {group::load, 1000};
constexpr lane handed_out = {group::load, 1001};

std::string_view name(group of) noexcept {
  switch (of) {
    case group::load: return "load";
    case group::slots: return "slots";
    case group::threads: return "threads";
    case group::streams: return "streams";
  }
  return "";
}

std::string name(const lane& of) {
  switch (of.in) {
    case group::load:
      if (of == landed) return "landed";
      if (of == handed_out) return "handed out";
      return of.number == 0 ? "opening" : fmt::format("opening {}", of.number + 1);
    case group::slots: return fmt::format("slot {}", of.number);
    case group::threads: return fmt::format("thread {}", of.number);
    case group::streams: return fmt::format("stream {}", of.number);
  }
  return "";
}

struct interval {
  clock::time_point begin;
  clock::time_point end;
};

// Assigns to each interval the first lane that is free at its beginning.
std::vector<std::uint32_t> lanes_of(const std::vector<interval>& all) {
  std::vector<std::size_t> by_begin(all.size());
  std::iota(by_begin.begin(), by_begin.end(), 0U);
  std::ranges::sort(by_begin, {}, [&](std::size_t i) { return all[i].begin; });
  std::vector<clock::time_point> busy_until;
  std::vector<std::uint32_t> lanes(all.size());
  for (const std::size_t i : by_begin) {
    auto free = std::ranges::find_if(busy_until, [&](auto until) { return until <= all[i].begin; });
    if (free == busy_until.end()) free = busy_until.insert(free, all[i].end);
    *free = all[i].end;
    lanes[i] = static_cast<std::uint32_t>(free - busy_until.begin());
  }
  return lanes;
}

class writer {
 public:
  explicit writer(const std::vector<trace_event>& events) : events_(events) {
    if (!events.empty()) zero_ = std::ranges::min(events, {}, &trace_event::asked).asked;
  }

  std::string text() {
    text_ = trace_begin;
    for (const trace_event& each : events_) add(each);
    add_opening();
    add_streams();
    for (const lane& each : lanes_) name_lane(each);
    return std::move(text_) + "\n]}\n";
  }

 private:
  void add(const trace_event& e) {
    if (e.step == load_step::landed) return add_moment(landed, e);
    if (e.step == load_step::handed_out) return add_moment(handed_out, e);
    if (e.slot != trace_event::none) {
      const lane on = {group::slots, e.slot};
      add_span(on, ringload::name(e.step), e, {e.asked, e.end});
      if (e.asked < e.begin) add_span(on, "waits", e, {e.asked, e.begin});
    }
    if (e.thread != trace_event::none) {
      add_span({group::threads, e.thread}, ringload::name(e.step), e, {e.begin, e.end});
    }
  }

  void add_opening() {
    std::vector<const trace_event*> steps;
    std::vector<interval> when;
    for (const trace_event& e : events_) {
      if (e.step != load_step::opened && e.step != load_step::planned) continue;
      steps.push_back(&e);
      when.push_back({e.begin, e.end});
    }
    const std::vector<std::uint32_t> lanes = lanes_of(when);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      add_span({group::load, lanes[i]}, ringload::name(steps[i]->step), *steps[i], when[i]);
    }
  }

  // Adds a span for each stream, from its first piece to its last piece, and a span for each piece.
  // In a windowed load, each group of tensors numbers its own streams, so a stream is identified by
  // its number and its tensor.
  void add_streams() {
    std::map<std::pair<std::uint32_t, std::string_view>, std::size_t> known;
    std::vector<interval> when;
    std::vector<trace_event> sums;
    for (const trace_event& e : events_) {
      if (e.stream == trace_event::none) continue;
      const auto [at, first] = known.try_emplace({e.stream, e.tensor}, sums.size());
      if (first) {
        sums.push_back(e);
        when.push_back({e.begin, e.end});
        continue;
      }
      interval& whole = when[at->second];
      whole = {std::min(whole.begin, e.begin), std::max(whole.end, e.end)};
      sums[at->second].bytes += e.bytes;
    }
    const std::vector<std::uint32_t> lanes = lanes_of(when);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      add_span({group::streams, lanes[i]}, "stream", sums[i], when[i]);
    }
    for (const trace_event& e : events_) {
      if (e.stream == trace_event::none) continue;
      const std::uint32_t number = lanes[known.at({e.stream, e.tensor})];
      add_span({group::streams, number}, ringload::name(e.step), e, {e.begin, e.end});
    }
  }

  double microseconds(clock::duration since) const {
    return std::chrono::duration<double, std::micro>(since).count();
  }

  void add_span(const lane& on, std::string_view name, const trace_event& e, interval when) {
    json_object out = begin(on, "X");
    out.field("name", name);
    out.field("ts", microseconds(when.begin - zero_));
    out.field("dur", microseconds(when.end - when.begin));
    end(std::move(out), e);
  }

  void add_moment(const lane& on, const trace_event& e) {
    json_object out = begin(on, "i");
    out.field("name", e.tensor.empty() ? "all" : e.tensor);
    out.field("ts", microseconds(e.begin - zero_));
    out.field("s", "t");
    end(std::move(out), e);
  }

  json_object begin(const lane& on, std::string_view kind) {
    lanes_.insert(on);
    text_ += first_ ? "\n" : ",\n";
    first_ = false;
    json_object out(text_);
    out.field("ph", kind);
    out.field("pid", std::uint64_t{static_cast<std::uint8_t>(on.in)});
    out.field("tid", std::uint64_t{on.number});
    return out;
  }

  void end(json_object out, const trace_event& e) {
    json_object details(out.key_of_next("args"));
    details.field("bytes", e.bytes);
    if (!e.tensor.empty()) details.field("tensor", e.tensor);
    details.close();
    out.close();
  }

  void name_lane(const lane& of) {
    const auto add = [&](std::string_view what, std::string_view key, const auto& value) {
      json_object out = begin(of, "M");
      out.field("name", what);
      json_object details(out.key_of_next("args"));
      details.field(key, value);
      details.close();
      out.close();
    };
    if (named_.insert(of.in).second) {
      add("process_name", "name", name(of.in));
      add("process_sort_index", "sort_index", std::uint64_t{static_cast<std::uint8_t>(of.in)});
    }
    add("thread_name", "name", std::string_view(name(of)));
    add("thread_sort_index", "sort_index", std::uint64_t{of.number});
  }

  const std::vector<trace_event>& events_;
  clock::time_point zero_;
  std::string text_;
  bool first_ = true;
  std::set<lane> lanes_;
  std::set<group> named_;
};

}  // namespace

std::string trace_text(const std::vector<trace_event>& events) { return writer(events).text(); }

void trace_collector::add(const trace_event& what, void* collector) noexcept {
  auto& self = *static_cast<trace_collector*>(collector);
  try {
    self.entries_.push_back({what, std::string(what.tensor)});
  } catch (const std::bad_alloc&) {
    self.incomplete_ = true;
  }
}

std::string trace_collector::text() const {
  if (incomplete_) throw std::bad_alloc();
  std::vector<trace_event> events;
  events.reserve(entries_.size());
  for (const entry& each : entries_) {
    events.push_back(each.what);
    events.back().tensor = each.tensor;
  }
  return trace_text(events);
}

}  // namespace ringload::tool
