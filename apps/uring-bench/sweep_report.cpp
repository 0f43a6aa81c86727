// SPDX-License-Identifier: Apache-2.0

// Reports a sweep as text and as JSON.

#include <fmt/format.h>

#include <set>

#include "json.hpp"
#include "size.hpp"
#include "sweep.hpp"
#include "text.hpp"

namespace ringload::bench {

namespace {

double cpu(const measurement& m) { return m.cpu_s_per_gib(); }
double cpu_with_kernel(const measurement& m) { return m.cpu_s_per_gib_with_kernel(); }
double p50(const measurement& m) { return static_cast<double>(m.latency.percentile(0.5)) * 1e-3; }
double p99(const measurement& m) { return static_cast<double>(m.latency.percentile(0.99)) * 1e-3; }

const swept_cell* find(const swept& all, page_kind pages, std::uint64_t block,
                       std::uint64_t in_flight) {
  for (const swept_cell& one : all.cells) {
    if (one.config.pages == pages && one.config.block_bytes == block &&
        one.config.bytes_in_flight() == in_flight) {
      return &one;
    }
  }
  return nullptr;
}

template <class Figure>
void append_table(std::string& text, const swept& all, page_kind pages, const std::string& title,
                  Figure figure) {
  std::set<std::uint64_t> blocks;
  std::set<std::uint64_t> columns;
  for (const swept_cell& one : all.cells) {
    if (one.config.pages != pages) continue;
    blocks.insert(one.config.block_bytes);
    columns.insert(one.config.bytes_in_flight());
  }
  text += fmt::format("\n{}\n{:>10} |", title, "block");
  for (const std::uint64_t in_flight : columns) {
    text += fmt::format(" {:>9}", tool::binary_size(in_flight));
  }
  text += " in flight\n";
  for (const std::uint64_t block : blocks) {
    text += fmt::format("{:>10} |", tool::binary_size(block));
    for (const std::uint64_t in_flight : columns) {
      const swept_cell* one = find(all, pages, block, in_flight);
      text += one ? fmt::format(" {:>9}", figure(*one)) : fmt::format(" {:>9}", "");
    }
    text += "\n";
  }
}

std::set<page_kind> kinds_in(const swept& all) {
  std::set<page_kind> kinds;
  for (const swept_cell& one : all.cells) kinds.insert(one.config.pages);
  return kinds;
}

void append_cell(std::string& text, const swept_cell& one) {
  const repeated& ours = one.comparison.ours;
  tool::json_object object(text);
  object.field("pages", name(one.config.pages))
      .field("block", one.config.block_bytes)
      .field("depth", std::uint64_t{one.config.depth})
      .field("bytes_in_flight", one.config.bytes_in_flight())
      .field("gb_per_s", ours.gb_per_s())
      .field("gb_per_s_least", ours.least_gb_per_s())
      .field("gb_per_s_most", ours.most_gb_per_s())
      .field("latency_us_p50", ours.median_of(p50))
      .field("latency_us_p99", ours.median_of(p99))
      .field("cpu_s_per_gib", ours.median_of(cpu))
      .field("cpu_s_per_gib_with_kernel", ours.median_of(cpu_with_kernel))
      .field("runs", std::uint64_t{ours.runs().size()})
      .field("disturbed", std::uint64_t{one.disturbed});
  if (!one.comparison.fio.runs().empty()) {
    object.field("fio_gb_per_s", one.comparison.fio.gb_per_s())
        .field("fio_cpu_s_per_gib", one.comparison.fio.median_of(cpu))
        .field("rate_ratio", one.comparison.rate_ratio())
        .field("cpu_ratio", one.comparison.cpu_ratio());
  }
  object.close();
}

}  // namespace

std::string sweep_text(const swept& all) {
  std::string text;
  for (const auto& [name, value] : all.about) text += fmt::format("{:<12}{}\n", name, value);
  text += fmt::format("{:<12}{}\n", "target", tool::printable(all.path));
  for (const page_kind pages : kinds_in(all)) {
    const std::string on = fmt::format("on {} pages", name(pages));
    append_table(text, all, pages, "GB/s " + on + ", medians", [](const swept_cell& one) {
      return fmt::format("{:.2f}", one.comparison.ours.gb_per_s());
    });
    append_table(
        text, all, pages, "spread of the runs, % of the median, " + on, [](const swept_cell& one) {
          const repeated& ours = one.comparison.ours;
          return fmt::format(
              "{:.0f}", (ours.most_gb_per_s() - ours.least_gb_per_s()) / ours.gb_per_s() * 100);
        });
    if (all.cells.front().comparison.fio.runs().empty()) continue;
    append_table(text, all, pages, "share of fio's rate " + on, [](const swept_cell& one) {
      return fmt::format("{:.3f}", one.comparison.rate_ratio());
    });
    append_table(
        text, all, pages, "share of fio's processor time " + on,
        [](const swept_cell& one) { return fmt::format("{:.2f}", one.comparison.cpu_ratio()); });
  }
  std::uint32_t disturbed = 0;
  for (const swept_cell& one : all.cells) disturbed += one.disturbed;
  const swept_cell& best = all.best();
  text += fmt::format("\nbest: {:.2f} GB/s with {}\n", best.comparison.ours.gb_per_s(),
                      describe(best.config));
  if (all.repeated > 0) {
    text +=
        fmt::format("{} repeated, because others kept the processors busy; {} kept all the same\n",
                    tool::counted(all.repeated, "run"), tool::grouped(disturbed));
  }
  return text;
}

void append_sweep(std::string& text, const swept& all) {
  tool::json_object object(text);
  object.field("schema_version", tool::schema_version).field("target", all.path);
  tool::json_object machine(object.key_of_next("machine"));
  for (const auto& [name, value] : all.about) machine.field(name, value);
  machine.close();
  std::string& cells = object.key_of_next("cells");
  const char* before = "[\n";
  for (const swept_cell& one : all.cells) {
    cells += before;
    append_cell(cells, one);
    before = ",\n";
  }
  cells += "]";
  append_cell(object.key_of_next("best"), all.best());
  object.field("runs_repeated", std::uint64_t{all.repeated}).close();
}

}  // namespace ringload::bench
