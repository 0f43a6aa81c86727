// SPDX-License-Identifier: Apache-2.0
#include "sweep.hpp"

#include <doctest/doctest.h>

#include <boost/json/parse.hpp>

#include "commands.hpp"
#include "run_program.hpp"

using namespace ringload::bench;

namespace {

constexpr std::uint64_t mib = 1 << 20;

sweep_request small_request() {
  sweep_request request;
  request.blocks = {mib, 4 * mib};
  request.bytes_in_flight = {2 * mib, 4 * mib, 8 * mib};
  request.pages = {ringload::page_kind::small, ringload::page_kind::transparent};
  return request;
}

swept small_sweep() {
  swept all{"a<b>.safetensors", {{"kernel", "Linux & more"}}, {}, 3};
  double rate = 1;
  for (const cell& one : cells_of(small_request())) {
    swept_cell found{one, {}, 0};
    for (int run = 0; run < 3; ++run) {
      measurement m;
      m.bytes = static_cast<std::uint64_t>(rate * 1e9) + static_cast<unsigned>(run);
      m.seconds = 1;
      m.latency.add(2'000'000);
      found.comparison.ours.add(m);
    }
    rate += 0.25;
    all.cells.push_back(found);
  }
  return all;
}

std::size_t count(const std::string& text, const std::string& config) {
  std::size_t found = 0;
  for (auto at = text.find(config); at != std::string::npos; at = text.find(config, at + 1))
    ++found;
  return found;
}

}  // namespace

TEST_CASE("a cell for each block, bytes in flight and page kind, none twice") {
  const auto cells = cells_of(small_request());
  // 4 MiB blocks with 2 MiB in flight are the same as with 4 MiB: one block.
  CHECK(cells.size() == 2 * (3 + 2));
  for (const cell& one : cells) CHECK(one.depth >= 1);
  CHECK(cells[0].depth == 2);
  CHECK(cells[2].depth == 8);
  CHECK(cells[3].depth == 1);
}

TEST_CASE("the best cell is the one with the highest median") {
  const swept all = small_sweep();
  CHECK(all.best().config.pages == ringload::page_kind::transparent);
  CHECK(all.best().config.depth == 2);
  CHECK(all.best().comparison.ours.gb_per_s() == doctest::Approx(3.25));
}

TEST_CASE("as JSON it can be read back") {
  std::string text;
  append_sweep(text, small_sweep());
  const auto parsed = boost::json::parse(text);
  CHECK(parsed.at("cells").as_array().size() == 10);
  CHECK(parsed.at("best").at("gb_per_s").to_number<double>() == doctest::Approx(3.25));
  CHECK(parsed.at("machine").at("kernel").as_string() == "Linux & more");
  CHECK(parsed.at("runs_repeated").to_number<int>() == 3);
}

TEST_CASE("as text it has a table for each page kind") {
  const std::string text = sweep_text(small_sweep());
  CHECK(count(text, "GB/s on 4k pages") == 1);
  CHECK(count(text, "GB/s on thp pages") == 1);
  CHECK(count(text, "best: 3.25 GB/s") == 1);
}

TEST_CASE("the page is self-contained, and shows each cell once") {
  const std::string page = sweep_page(small_sweep());
  CHECK(count(page, "http") == 0);
  CHECK(count(page, "<script") == 0);
  CHECK(count(page, "class=\"heat") == 2 * 6);
  CHECK(count(page, "class=\"heat none\"") == 2);
  CHECK(count(page, "class=\"heat best\"") == 1);
  CHECK(count(page, "<svg") == 2 * 3);
  CHECK(count(page, "</svg>") == 2 * 3);
  // Input must be escaped, even if it looks like HTML.
  CHECK(count(page, "a<b>") == 0);
  CHECK(count(page, "a&lt;b&gt;.safetensors") == 1);
  CHECK(count(page, "Linux &amp; more") == 1);
}

TEST_CASE("a sweep of one cell is drawn as well") {
  sweep_request request = small_request();
  request.blocks = {mib};
  request.bytes_in_flight = {mib};
  request.pages = {ringload::page_kind::small};
  swept all{"x", {}, {}, 0};
  for (const cell& one : cells_of(request)) {
    swept_cell found{one, {}, 0};
    found.comparison.ours.add(measurement());
    all.cells.push_back(found);
  }
  REQUIRE(all.cells.size() == 1);
  const std::string page = sweep_page(all);
  CHECK(count(page, "nan") == 0);
  CHECK(count(page, "inf") == 0);
}

TEST_CASE("a sweep with an empty list is refused") {
  ringload::tool::output out;
  sweep_request request = small_request();
  request.path = "/nonexistent";
  request.pages.clear();
  request.bytes_in_flight.clear();
  CHECK_THROWS_AS(sweep(request, out), ringload::tool::usage_error);
  request = small_request();
  request.blocks.clear();
  CHECK_THROWS_AS(sweep(request, out), ringload::tool::usage_error);
}

TEST_CASE("a target with control characters is shown escaped") {
  swept all = small_sweep();
  all.path = "a\x1b[2J";
  CHECK(count(sweep_text(all), "\x1b") == 0);
  CHECK(count(sweep_text(all), "a\\x1b[2J") == 1);
}
