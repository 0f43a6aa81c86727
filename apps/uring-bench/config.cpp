// SPDX-License-Identifier: Apache-2.0
#include "config.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "size.hpp"

namespace ringload::bench {

std::string_view name(pattern order) noexcept {
  return order == pattern::sequential ? "seq" : "rand";
}

std::string_view name(route by) noexcept { return by == route::direct ? "direct" : "buffered"; }

std::string_view name(method with) noexcept {
  switch (with) {
    case method::ring: return "ring";
    case method::threads: return "threads";
    case method::mmap: return "mmap";
  }
  return "ring";
}

std::string_view name(destination into) noexcept {
  switch (into) {
    case destination::slots: return "slots";
    case destination::fresh: return "fresh";
    case destination::populated: return "populated";
  }
  return "slots";
}

std::string_view name(cache_state state) noexcept {
  switch (state) {
    case cache_state::cold: return "cold";
    case cache_state::warm: return "warm";
    case cache_state::as_is: return "as-is";
  }
  return "as-is";
}

std::string describe(const cell& what) {
  std::string text = fmt::format("{} {} {} {} x {}", name(what.with), name(what.order),
                                 name(what.by), tool::binary_size(what.block_bytes), what.depth);
  if (what.rings > 1) text += fmt::format(" x {} rings", what.rings);
  if (what.threads > 1) text += fmt::format(" x {} threads", what.threads);
  text += fmt::format(" ({} in flight) into {} on {} pages, {}",
                      tool::binary_size(what.bytes_in_flight()), name(what.into), name(what.pages),
                      name(what.state));
  if (what.registered_buffers) text += ", registered buffers";
  if (what.registered_files) text += ", registered files";
  if (what.sqpoll) text += ", SQPOLL";
  if (what.iopoll) text += ", IOPOLL";
  return text;
}

cell cell_of(const loader_options& within) {
  const std::uint64_t in_flight = within.bytes_in_flight > 0
                                      ? within.bytes_in_flight
                                      : std::max(bytes_in_flight_at_first, 2 * within.slot_bytes);
  cell what;
  what.block_bytes = within.slot_bytes;
  what.depth = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(
      in_flight / within.slot_bytes, 1, chosen_options(within, device_kind::host).slots));
  return what;
}

}  // namespace ringload::bench
