// SPDX-License-Identifier: Apache-2.0

// Writes a sweep as one HTML page without a script, a font or an external picture.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "size.hpp"
#include "sweep.hpp"

namespace ringload::bench {

namespace {

constexpr const char* head = R"(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>uring-bench sweep</title>
<style>
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem;
       color: #1c2733; background: #fff; }
h1 { font-size: 1.5rem; margin-bottom: 0.2rem; }
h2 { font-size: 1.1rem; margin: 2rem 0 0.4rem; }
p { margin: 0.3rem 0; }
table { border-collapse: separate; border-spacing: 2px; font-variant-numeric: tabular-nums; }
th { font-weight: 500; color: #51606f; padding: 0.2rem 0.6rem; text-align: right; }
td.heat { padding: 0.45rem 0.7rem; text-align: right; border-radius: 3px; min-width: 3.6rem; }
td.best { outline: 2px solid #1c2733; }
td.none { background: #f1f3f5; }
.facts th { text-align: left; vertical-align: top; }
.facts td { padding: 0.15rem 0.6rem; }
.note { color: #51606f; font-size: 0.9rem; }
.charts { display: flex; flex-wrap: wrap; gap: 1.5rem; }
svg { max-width: 100%; height: auto; }
svg text { font: 12px system-ui, sans-serif; fill: #51606f; }
</style>
</head>
<body>
)";

constexpr const char* line_colours[] = {"#1b6ca8", "#c8553d", "#2a9d5c", "#8a4fb0",
                                        "#b98a00", "#4a5a6a", "#d1477f", "#008b8b"};

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '&': safe += "&amp;"; break;
      case '<': safe += "&lt;"; break;
      case '>': safe += "&gt;"; break;
      case '"': safe += "&quot;"; break;
      default: safe += c;
    }
  }
  return safe;
}

// Returns a colour from pale to deep blue. The text is white on a dark background.
std::string colours(double share) {
  const double s = std::clamp(share, 0.0, 1.0);
  const auto mix = [s](int pale, int deep) {
    return static_cast<int>(std::lround(pale + (deep - pale) * s));
  };
  return fmt::format("background:rgb({},{},{});color:{}", mix(236, 17), mix(244, 78), mix(250, 130),
                     s > 0.55 ? "#fff" : "#1c2733");
}

double cell_rate(const swept_cell& one) { return one.comparison.ours.gb_per_s(); }

double cell_latency_ms(const swept_cell& one, double share) {
  return one.comparison.ours.median_of([share](const measurement& m) {
    return static_cast<double>(m.latency.percentile(share)) * 1e-6;
  });
}

double cell_cpu(const swept_cell& one) {
  return one.comparison.ours.median_of(
      [](const measurement& m) { return m.cpu_s_per_gib_with_kernel(); });
}

struct axes {
  std::set<std::uint64_t> blocks;
  std::set<std::uint64_t> in_flight;
};

axes axes_of(const swept& all, page_kind pages) {
  axes result;
  for (const swept_cell& one : all.cells) {
    if (one.config.pages != pages) continue;
    result.blocks.insert(one.config.block_bytes);
    result.in_flight.insert(one.config.bytes_in_flight());
  }
  return result;
}

// Returns the cells of one page kind and block size, by bytes in flight.
std::vector<const swept_cell*> row(const swept& all, page_kind pages, std::uint64_t block) {
  std::vector<const swept_cell*> cells;
  for (const swept_cell& one : all.cells) {
    if (one.config.pages == pages && one.config.block_bytes == block) cells.push_back(&one);
  }
  std::sort(cells.begin(), cells.end(), [](const auto* a, const auto* b) {
    return a->config.bytes_in_flight() < b->config.bytes_in_flight();
  });
  return cells;
}

std::string heat_map(const swept& all, page_kind pages) {
  const axes at = axes_of(all, pages);
  const double most = cell_rate(all.best());
  double least = most;
  for (const swept_cell& one : all.cells) least = std::min(least, cell_rate(one));
  std::string text = "<table>\n<tr><th>block \\ in flight</th>";
  for (const std::uint64_t in_flight : at.in_flight) {
    text += "<th>" + tool::binary_size(in_flight) + "</th>";
  }
  text += "</tr>\n";
  for (const std::uint64_t block : at.blocks) {
    text += "<tr><th>" + tool::binary_size(block) + "</th>";
    const auto cells = row(all, pages, block);
    for (const std::uint64_t in_flight : at.in_flight) {
      const auto position = std::find_if(cells.begin(), cells.end(), [&](const auto* one) {
        return one->config.bytes_in_flight() == in_flight;
      });
      if (position == cells.end()) {
        text += "<td class=\"heat none\"></td>";
        continue;
      }
      const swept_cell& one = **position;
      const repeated& ours = one.comparison.ours;
      const double share = most > least ? (cell_rate(one) - least) / (most - least) : 1;
      text += fmt::format(
          "<td class=\"heat{}\" style=\"{}\" title=\"depth {}, {:.2f} to {:.2f} GB/s in {} runs\">"
          "{:.2f}</td>",
          &one == &all.best() ? " best" : "", colours(share), one.config.depth,
          ours.least_gb_per_s(), ours.most_gb_per_s(), ours.runs().size(), cell_rate(one));
    }
    text += "</tr>\n";
  }
  return text + "</table>\n";
}

// A chart with one curve for each block size over the bytes in flight. The x axis has powers of
// two.
class chart {
 public:
  using figure = std::function<double(const swept_cell&)>;

  chart(const swept& all, page_kind pages, figure value_of, std::string y_title)
      : all_(all), pages_(pages), value_of_(std::move(value_of)), y_title_(std::move(y_title)) {
    const axes at = axes_of(all, pages);
    blocks_ = at.blocks;
    in_flight_ = at.in_flight;
    for (const swept_cell& one : all.cells) {
      if (one.config.pages == pages) top_ = std::max(top_, value_of_(one));
    }
    top_ = rounded_up(top_);
  }

  std::string svg() const {
    std::string text =
        fmt::format("<svg viewBox=\"0 0 {} {}\" width=\"{}\" role=\"img\" aria-label=\"{}\">\n",
                    width, height, width, escaped(y_title_));
    text += grid();
    std::size_t number = 0;
    for (const std::uint64_t block : blocks_) text += curve(block, number++);
    return text + "</svg>\n";
  }

 private:
  static constexpr int width = 460;
  static constexpr int height = 270;
  static constexpr int left = 52;
  static constexpr int right = 356;
  static constexpr int upper = 28;
  static constexpr int lower = 222;

  // Rounds up to 1, 2 or 5 times a power of ten.
  static double rounded_up(double value) {
    if (value <= 0) return 1;
    const double power = std::pow(10, std::floor(std::log10(value)));
    for (const double step : {1.0, 2.0, 5.0}) {
      if (value <= step * power) return step * power;
    }
    return 10 * power;
  }

  double x(std::uint64_t in_flight) const {
    const double first = std::log2(static_cast<double>(*in_flight_.begin()));
    const double last = std::log2(static_cast<double>(*in_flight_.rbegin()));
    const double share =
        last > first ? (std::log2(static_cast<double>(in_flight)) - first) / (last - first) : 0.5;
    return left + share * (right - left);
  }

  double y(double value) const { return lower - value / top_ * (lower - upper); }

  std::string grid() const {
    std::string text = fmt::format("<text x=\"4\" y=\"14\">{}</text>\n", escaped(y_title_));
    for (int i = 0; i <= 4; ++i) {
      const double value = top_ * i / 4;
      text += fmt::format(
          "<line x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#e3e8ed\"/>"
          "<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:.3g}</text>\n",
          left, right, y(value), y(value), left - 6, y(value) + 4, value);
    }
    // Omits some labels, because more than 7 would overlap.
    const std::size_t step = (in_flight_.size() + 6) / 7;
    std::size_t number = 0;
    for (const std::uint64_t in_flight : in_flight_) {
      if (number++ % step != 0) continue;
      text += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                          x(in_flight), lower + 18, short_size(in_flight));
    }
    return text + fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">in flight</text>\n",
                              (left + right) / 2, lower + 38);
  }

  static std::string short_size(std::uint64_t bytes) {
    if (bytes % (1U << 20) == 0) return fmt::format("{}M", bytes >> 20);
    return fmt::format("{}K", bytes >> 10);
  }

  std::string curve(std::uint64_t block, std::size_t number) const {
    const char* colour = line_colours[number % std::size(line_colours)];
    std::string points;
    std::string dots;
    for (const swept_cell* one : row(all_, pages_, block)) {
      const double px = x(one->config.bytes_in_flight());
      const double py = y(value_of_(*one));
      points += fmt::format("{:.1f},{:.1f} ", px, py);
      dots += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\" fill=\"{}\"/>", px, py,
                          colour);
    }
    const int legend = upper + 6 + static_cast<int>(number) * 18;
    return fmt::format(
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.8\"/>{}"
        "<line x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\" stroke=\"{}\" stroke-width=\"3\"/>"
        "<text x=\"{}\" y=\"{}\">{}</text>\n",
        points, colour, dots, right + 14, right + 30, legend, legend, colour, right + 36,
        legend + 4, tool::binary_size(block));
  }

  const swept& all_;
  const page_kind pages_;
  const figure value_of_;
  const std::string y_title_;
  std::set<std::uint64_t> blocks_;
  std::set<std::uint64_t> in_flight_;
  double top_ = 0;
};

std::string charts(const swept& all, page_kind pages) {
  const auto p50 = [](const swept_cell& one) { return cell_latency_ms(one, 0.5); };
  const auto p99 = [](const swept_cell& one) { return cell_latency_ms(one, 0.99); };
  return "<div class=\"charts\">\n" + chart(all, pages, p50, "latency p50, ms").svg() +
         chart(all, pages, p99, "latency p99, ms").svg() +
         chart(all, pages, cell_cpu, "processor s per GiB, with the kernel's").svg() + "</div>\n";
}

std::string fio_table(const swept& all) {
  if (all.cells.front().comparison.fio.runs().empty()) return {};
  std::string text =
      "<h2>Against fio, the same cells in turns</h2>\n<table>\n<tr><th>pages</th><th>block</th>"
      "<th>depth</th><th>uring-bench GB/s</th><th>fio GB/s</th><th>ratio</th>"
      "<th>processor time</th></tr>\n";
  for (const swept_cell& one : all.cells) {
    text += fmt::format(
        "<tr><th>{}</th><th>{}</th><th>{}</th><th>{:.2f}</th><th>{:.2f}</th><th>{:.3f}</th>"
        "<th>{:.2f}</th></tr>\n",
        name(one.config.pages), tool::binary_size(one.config.block_bytes), one.config.depth,
        cell_rate(one), one.comparison.fio.gb_per_s(), one.comparison.rate_ratio(),
        one.comparison.cpu_ratio());
  }
  return text + "</table>\n";
}

}  // namespace

std::string sweep_page(const swept& all) {
  const swept_cell& best = all.best();
  std::string text = head;
  text += "<h1>uring-bench sweep</h1>\n";
  text += "<p>" + escaped(all.path) + "</p>\n";
  text += fmt::format("<p><b>{:.2f} GB/s</b> at best: {}.</p>\n", cell_rate(best),
                      escaped(describe(best.config)));
  text += fmt::format(
      "<p class=\"note\">Medians of {} runs of each cell, in random order; colours from the "
      "slowest "
      "cell to the fastest. {} repeated because others kept the processors busy.</p>\n",
      best.comparison.ours.runs().size(), tool::counted(all.repeated, "run"));
  std::vector<page_kind> kinds;
  for (const swept_cell& one : all.cells) {
    if (std::find(kinds.begin(), kinds.end(), one.config.pages) == kinds.end()) {
      kinds.push_back(one.config.pages);
    }
  }
  for (const page_kind pages : kinds) {
    text += fmt::format("<h2>GB/s on {} pages</h2>\n", name(pages));
    text += heat_map(all, pages);
    text += charts(all, pages);
  }
  text += fio_table(all);
  text += "<h2>The machine</h2>\n<table class=\"facts\">\n";
  for (const auto& [name, value] : all.about) {
    text += "<tr><th>" + escaped(name) + "</th><td>" + escaped(value) + "</td></tr>\n";
  }
  return text + "</table>\n</body>\n</html>\n";
}

}  // namespace ringload::bench
