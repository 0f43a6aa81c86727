// SPDX-License-Identifier: Apache-2.0
#include "trace_file.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <map>
#include <string>
#include <utility>
#include <vector>

using namespace ringload;

namespace {

namespace json = boost::json;
using std::chrono::microseconds;

trace_event event(load_step step, std::uint32_t slot, std::uint32_t thread, int asked, int begin,
                  int end) {
  const trace_event::clock::time_point zero(std::chrono::hours(5));
  trace_event made;
  made.step = step;
  made.slot = slot;
  made.thread = thread;
  made.tensor = "wte.\"weight\"";
  made.bytes = 4096;
  made.asked = zero + microseconds(asked);
  made.begin = zero + microseconds(begin);
  made.end = zero + microseconds(end);
  return made;
}

constexpr std::uint32_t no_lane = trace_event::none;

// The spans of the file in order, as "process/lane: name begin..end".
std::vector<std::string> shown_spans(const json::array& events) {
  std::map<std::pair<std::int64_t, std::int64_t>, std::string> lanes;
  std::map<std::int64_t, std::string> groups;
  for (const json::value& each : events) {
    const json::object& e = each.as_object();
    if (e.at("ph").as_string() != "M") continue;
    const json::object& details = e.at("args").as_object();
    if (e.at("name").as_string() == "process_name") {
      groups[e.at("pid").as_int64()] = details.at("name").as_string().c_str();
    } else if (e.at("name").as_string() == "thread_name") {
      lanes[{e.at("pid").as_int64(), e.at("tid").as_int64()}] =
          details.at("name").as_string().c_str();
    }
  }
  std::vector<std::string> spans;
  for (const json::value& each : events) {
    const json::object& e = each.as_object();
    if (e.at("ph").as_string() == "M") continue;
    const std::int64_t pid = e.at("pid").as_int64();
    const auto at = e.at("ts").to_number<double>();
    std::string text = groups.at(pid) + "/" + lanes.at({pid, e.at("tid").as_int64()}) + ": " +
                       e.at("name").as_string().c_str() + " " +
                       std::to_string(static_cast<int>(at + 0.5));
    if (e.at("ph").as_string() == "X") {
      text += ".." + std::to_string(static_cast<int>(at + e.at("dur").to_number<double>() + 0.5));
    }
    spans.push_back(text);
  }
  return spans;
}

std::vector<std::string> spans_of(const std::vector<trace_event>& events) {
  const json::value made = json::parse(tool::trace_text(events));
  return shown_spans(made.as_object().at("traceEvents").as_array());
}

}  // namespace

TEST_CASE(
    "trace file: a slot's step holds what it waited for, and the thread was busy after that") {
  const auto spans = spans_of(
      {event(load_step::read, 3, no_lane, 0, 20, 50), event(load_step::copied, 3, 1, 50, 60, 90)});
  CHECK(spans == std::vector<std::string>{"slots/slot 3: read 0..50", "slots/slot 3: waits 0..20",
                                          "slots/slot 3: copied 50..90",
                                          "slots/slot 3: waits 50..60",
                                          "threads/thread 1: copied 60..90"});
}

TEST_CASE("trace file: what a thread does for nobody's slot is on its lane alone") {
  const auto spans = spans_of({event(load_step::populated, no_lane, 0, 0, 5, 9)});
  CHECK(spans == std::vector<std::string>{"threads/thread 0: populated 5..9"});
}

TEST_CASE("trace file: streams that are decoded beside each other have lanes of their own") {
  std::vector<trace_event> events = {
      event(load_step::decoded, 0, 0, 0, 0, 10), event(load_step::decoded, 1, 1, 0, 5, 15),
      event(load_step::decoded, 0, 0, 10, 20, 30), event(load_step::decoded, 0, 1, 0, 30, 40)};
  events[0].stream = events[2].stream = 7;
  events[1].stream = 8;
  events[3].stream = 9;
  const auto spans = spans_of(events);
  const auto has = [&](const char* what) { return std::ranges::count(spans, what) == 1; };
  CHECK(has("streams/stream 0: stream 0..30"));
  CHECK(has("streams/stream 0: decoded 0..10"));
  CHECK(has("streams/stream 0: decoded 20..30"));
  CHECK(has("streams/stream 1: stream 5..15"));
  CHECK(has("streams/stream 0: stream 30..40"));
}

TEST_CASE("trace file: streams of one number are two if their tensors are") {
  std::vector<trace_event> events = {event(load_step::decoded, 0, 0, 0, 0, 10),
                                     event(load_step::decoded, 1, 1, 0, 5, 15)};
  events[0].stream = events[1].stream = 0;
  events[1].tensor = "another";
  const auto spans = spans_of(events);
  CHECK(std::ranges::count(spans, "streams/stream 0: stream 0..10") == 1);
  CHECK(std::ranges::count(spans, "streams/stream 1: stream 5..15") == 1);
}

TEST_CASE("trace file: opening, and the moments at which tensors land and are handed out") {
  const auto spans = spans_of({event(load_step::opened, no_lane, no_lane, 0, 0, 5),
                               event(load_step::planned, no_lane, no_lane, 5, 5, 9),
                               event(load_step::opened, no_lane, no_lane, 7, 7, 8),
                               event(load_step::landed, no_lane, no_lane, 12, 12, 12),
                               event(load_step::handed_out, no_lane, no_lane, 13, 13, 13)});
  CHECK(spans == std::vector<std::string>{"load/landed: wte.\"weight\" 12",
                                          "load/handed out: wte.\"weight\" 13",
                                          "load/opening: opened 0..5", "load/opening: planned 5..9",
                                          "load/opening 2: opened 7..8"});
}

TEST_CASE("trace file: nothing happened") { CHECK(spans_of(std::vector<trace_event>{}).empty()); }
