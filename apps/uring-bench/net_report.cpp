// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "json.hpp"
#include "net.hpp"
#include "size.hpp"
#include "text.hpp"

namespace ringload::bench {

namespace {

constexpr double as_good_share = 0.97;
constexpr double busy_share = 0.9;  // As a share of one processor.
constexpr double growth_min = 1.2;  // Required growth of the rate if the connections double.

double retries_of(const measured_net_cell& one) {
  return one.measurements.median_of([](const measurement& m) { return m.resubmits; });
}

double cpu_of(const measured_net_cell& one) {
  return one.measurements.median_of([](const measurement& m) { return m.cpu_s_per_gib(); });
}

// Returns the processor time as a share of one processor.
double busy_of(const measured_net_cell& one) {
  return one.measurements.median_of(
      [](const measurement& m) { return m.seconds > 0 ? m.cpu_seconds / m.seconds : 0; });
}

std::string flags_of(const net_cell& config) {
  return fmt::format("--connections {} --chunk-bytes {}K", config.connections,
                     config.chunk_bytes >> 10);
}

std::string verdict_of(const net_findings& all) {
  switch (all.wall()) {
    case net_wall::processor:
      return "the wall is this machine's processor, which receives and decrypts: more threads "
             "(remote_options::threads) may give more";
    case net_wall::connections:
      return "the wall is what one connection carries: even more connections may give more";
    case net_wall::unknown:
      return "the wall is unknown: no measured number of connections is at most half of the "
             "largest one. Measure a number and its double, for example --connections 8,16";
    case net_wall::beyond: break;
  }
  return "the wall is the network or the server: more connections give no more";
}

}  // namespace

const measured_net_cell& net_findings::best() const {
  return *std::ranges::max_element(
      cells, {}, [](const measured_net_cell& one) { return one.measurements.gb_per_s(); });
}

const measured_net_cell& net_findings::chosen() const {
  const double enough = best().measurements.gb_per_s() * as_good_share;
  const measured_net_cell* out = &best();
  for (const measured_net_cell& each : cells) {
    const bool less = each.config.bytes_in_flight() < out->config.bytes_in_flight();
    if (less && each.measurements.gb_per_s() >= enough) out = &each;
  }
  return *out;
}

net_wall net_findings::wall() const {
  if (busy_of(best()) >= busy_share) return net_wall::processor;
  std::uint32_t most = 0;
  for (const measured_net_cell& each : cells) most = std::max(most, each.config.connections);
  double by_most = 0;
  double by_half = 0;
  bool has_half = false;
  for (const measured_net_cell& each : cells) {
    const bool is_half = each.config.connections <= most / 2;
    has_half = has_half || is_half;
    double& rate = is_half ? by_half : by_most;
    rate = std::max(rate, each.measurements.gb_per_s());
  }
  if (!has_half) return net_wall::unknown;
  const bool grows = by_half > 0 && by_most >= by_half * growth_min;
  return grows ? net_wall::connections : net_wall::beyond;
}

std::vector<net_cell> cells_of(const net_request& request) {
  std::vector<net_cell> out;
  for (const std::uint32_t connections : request.connections) {
    for (const std::uint64_t chunk : request.chunks) out.push_back({connections, chunk});
  }
  return out;
}

std::string_view name(net_wall wall) noexcept {
  switch (wall) {
    case net_wall::processor: return "processor";
    case net_wall::connections: return "connections";
    case net_wall::unknown: return "unknown";
    case net_wall::beyond: break;
  }
  return "beyond";
}

std::string net_text(const net_findings& all) {
  std::string text = fmt::format(
      "{}, {}\n{:.4f} s to open it, {:.4f} s for a request of one byte\n\n"
      "{:>11}  {:>9}  {:>7}  {:>16}  {:>9}  {:>7}\n",
      tool::printable(all.file), tool::both_sizes(all.file_bytes), all.opening_seconds,
      all.request_seconds, "connections", "chunk", "GB/s", "least .. most", "CPU s/GiB", "retries");
  for (const measured_net_cell& each : all.cells) {
    const char* const mark = &each == &all.chosen() ? "  <" : "";
    text += fmt::format("{:>11}  {:>9}  {:>7.3f}  {:>16}  {:>9.2f}  {:>7.0f}{}\n",
                        each.config.connections, tool::binary_size(each.config.chunk_bytes),
                        each.measurements.gb_per_s(),
                        fmt::format("{:.3f} .. {:.3f}", each.measurements.least_gb_per_s(),
                                    each.measurements.most_gb_per_s()),
                        cpu_of(each), retries_of(each), mark);
  }
  return text + "\n" + verdict_of(all) + "\nringload load TARGET " + flags_of(all.chosen().config) +
         "\n";
}

void append_net(std::string& text, const net_findings& all) {
  tool::json_object object(text);
  object.field("schema_version", tool::schema_version)
      .field("target", all.target)
      .field("file", all.file)
      .field("file_bytes", all.file_bytes)
      .field("opening_seconds", all.opening_seconds)
      .field("request_seconds", all.request_seconds)
      .field("connections", std::uint64_t{all.chosen().config.connections})
      .field("chunk_bytes", all.chosen().config.chunk_bytes)
      .field("gb_per_s", all.chosen().measurements.gb_per_s())
      .field("wall", name(all.wall()))
      .field("flags", flags_of(all.chosen().config));
  std::string& cells = object.key_of_next("cells");
  cells += '[';
  for (const measured_net_cell& each : all.cells) {
    if (&each != &all.cells.front()) cells += ", ";
    tool::json_object(cells)
        .field("connections", std::uint64_t{each.config.connections})
        .field("chunk_bytes", each.config.chunk_bytes)
        .field("gb_per_s", each.measurements.gb_per_s())
        .field("least_gb_per_s", each.measurements.least_gb_per_s())
        .field("most_gb_per_s", each.measurements.most_gb_per_s())
        .field("cpu_s_per_gib", cpu_of(each))
        .field("processors", busy_of(each))
        .field("retries", retries_of(each))
        .close();
  }
  cells += ']';
  object.close();
}

}  // namespace ringload::bench
