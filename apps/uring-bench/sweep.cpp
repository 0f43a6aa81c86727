// SPDX-License-Identifier: Apache-2.0

// uring-bench sweep: measures every cell several times, each time in a new random order, so that
// drift, such as the temperature of a drive, affects all cells.

#include "sweep.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <random>

#include "commands.hpp"
#include "failure.hpp"
#include "fio.hpp"
#include "interrupts.hpp"
#include "page_file.hpp"
#include "run.hpp"
#include "run_program.hpp"

namespace ringload::bench {

namespace {

// If other processes use more processors during a run, the run is repeated.
constexpr double foreign_processors_max = 0.25;
constexpr int tries_max = 4;

bool enough_huge_pages(const sweep_request& request) {
  const std::string free_pages =
      first_line("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
  const std::uint64_t bytes = (free_pages.empty() ? 0 : std::stoull(free_pages)) * huge_page_bytes;
  const std::uint64_t most =
      *std::max_element(request.bytes_in_flight.begin(), request.bytes_in_flight.end());
  return request.base.into == destination::slots && bytes >= most;
}

void show(std::size_t done, std::size_t all) {
  if (::isatty(STDERR_FILENO) == 0) return;
  const std::string text = done < all ? fmt::format("\rrun {} of {}", done + 1, all) : "\r\x1b[K";
  static_cast<void>(!::write(STDERR_FILENO, text.data(), text.size()));
}

void measure(const target& source, swept& all, swept_cell& one, read_buffer& memory) {
  for (int i = 1;; ++i) {
    measurement m = run(source, one.config, memory);
    const bool disturbed = m.foreign_processors > foreign_processors_max;
    if (disturbed && i < tries_max) {
      ++all.repeated;
      continue;
    }
    one.disturbed += disturbed ? 1 : 0;
    one.comparison.ours.add(std::move(m));
    break;
  }
}

}  // namespace

const swept_cell& swept::best() const {
  return *std::max_element(cells.begin(), cells.end(), [](const auto& a, const auto& b) {
    return a.comparison.ours.gb_per_s() < b.comparison.ours.gb_per_s();
  });
}

std::vector<cell> cells_of(const sweep_request& request) {
  std::vector<cell> cells;
  for (const page_kind pages : request.pages) {
    for (const std::uint64_t block : request.blocks) {
      for (const std::uint64_t in_flight : request.bytes_in_flight) {
        cell one = request.base;
        one.pages = pages;
        one.block_bytes = block;
        const std::uint64_t of_each_depth = block * one.rings * one.threads;
        one.depth = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(
            of_each_depth > 0 ? in_flight / of_each_depth : 1, 1, 1U << 20));
        const bool there = std::any_of(cells.begin(), cells.end(), [&](const cell& other) {
          return other.pages == pages && other.block_bytes == block && other.depth == one.depth;
        });
        if (!there) cells.push_back(one);
      }
    }
  }
  return cells;
}

void sweep(const sweep_request& original, tool::output& out) {
  if (original.blocks.empty() || original.bytes_in_flight.empty()) {
    throw tool::usage_error("an empty list leaves nothing to measure");
  }
  sweep_request request = original;
  if (request.pages.empty()) {
    request.pages = {page_kind::small, page_kind::transparent};
    if (enough_huge_pages(request)) request.pages.push_back(page_kind::hugetlb);
  }
  std::vector<cell> cells = cells_of(request);
  if (request.with_fio) std::transform(cells.begin(), cells.end(), cells.begin(), comparable);
  for (const cell& one : cells) check(one);
  tool::watch_for_interrupts();
  const target source(request.path, request.base.by);
  if (request.with_fio) {
    for (const cell& one : cells) static_cast<void>(fio_arguments(source, one));
    if (fio_version().empty()) fail("--with-fio", "there is no fio here");
  }
  std::optional<page_file> page;
  if (!request.html.empty()) page.emplace(request.html, source);

  swept all{request.path, machine_facts(request.path), {}, 0};
  for (const cell& one : cells) all.cells.push_back({one, {}, 0});
  read_buffer memory;
  std::mt19937_64 random(request.base.seed);
  std::vector<std::size_t> order(cells.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::size_t done = 0;
  for (std::uint32_t i = 0; i < request.runs; ++i) {
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t one : order) {
      show(done++, cells.size() * request.runs);
      swept_cell& now = all.cells[one];
      in_turns(
          i, [&] { measure(source, all, now, memory); },
          [&] {
            if (request.with_fio) now.comparison.fio.add(run_fio(source, now.config));
          });
    }
  }
  show(done, done);

  if (request.json) {
    std::string text;
    append_sweep(text, all);
    out.write(text + "\n");
  } else {
    out.write(sweep_text(all));
  }
  out.flush();
  if (page) page->write(sweep_page(all));
}

}  // namespace ringload::bench
