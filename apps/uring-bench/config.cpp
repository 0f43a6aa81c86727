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

std::string describe(const cell& config) {
  std::string text =
      fmt::format("{} {} {} {} x {}", name(config.with), name(config.order), name(config.by),
                  tool::binary_size(config.block_bytes), config.depth);
  if (config.rings > 1) text += fmt::format(" x {} rings", config.rings);
  if (config.threads > 1) text += fmt::format(" x {} threads", config.threads);
  text += fmt::format(" ({} in flight) into {} on {} pages, {}",
                      tool::binary_size(config.bytes_in_flight()), name(config.into),
                      name(config.pages), name(config.state));
  if (config.registered_buffers) text += ", registered buffers";
  if (config.registered_files) text += ", registered files";
  if (config.sqpoll) text += ", SQPOLL";
  if (config.iopoll) text += ", IOPOLL";
  return text;
}

cell cell_of(const loader_options& options) {
  const std::uint64_t in_flight = options.bytes_in_flight > 0
                                      ? options.bytes_in_flight
                                      : std::max(bytes_in_flight_at_first, 2 * options.slot_bytes);
  cell config;
  config.block_bytes = options.slot_bytes;
  config.depth = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(
      in_flight / options.slot_bytes, 1, chosen_options(options, device_kind::host).slots));
  return config;
}

}  // namespace ringload::bench
