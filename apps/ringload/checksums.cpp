// SPDX-License-Identifier: Apache-2.0
#include "checksums.hpp"

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <ringload/keeper.hpp>
#include <ringload/loader.hpp>
#include <utility>

#include "command_loop.hpp"
#include "device.hpp"
#include "loaded_form.hpp"
#include "open_request.hpp"
#include "progress_bar.hpp"
#include "tensor_hasher.hpp"

namespace ringload::tool {

namespace {

namespace asio = boost::asio;

struct state {
  const load_request& request;
  const std::function<digest_algorithm(std::string_view)>& algorithm_of;
  loader& with;
  hashing& hashes;
  started_load started;
  std::uint64_t bytes_total = 0;
};

std::uint64_t landed_bytes(const catalog& what, std::optional<dtype> to) {
  std::uint64_t sum = 0;
  for (const tensor_info& t : what.tensors) sum += as_loaded(t, to).bytes;
  return sum;
}

// Waits for the next tensor. If the window is full, waits until a tensor is hashed and released.
asio::awaitable<std::optional<tensor>> next_tensor(state& s) {
  std::optional<tensor> next;
  for (bool came = false; !came;) {
    const std::uint64_t held = s.hashes.left();
    try {
      auto one = co_await s.started.tensors().next_async();
      next = std::move(one);
      came = true;
    } catch (const error& full) {
      const bool may_change = s.request.window_bytes > 0 && held > 0;
      if (full.code() != errc::memory_exceeded || !may_change) throw;
    }
    if (!came && s.hashes.left() == held) co_await s.hashes.one_async();
  }
  co_return next;
}

asio::awaitable<void> sum_all(state& s) {
  auto started = co_await start_load(s.with, s.request);
  s.started = std::move(started);
  s.bytes_total = landed_bytes(s.started.tensors().catalog(), s.request.how.dtype);
  for (bool more = true; more;) {
    auto landed = co_await next_tensor(s);
    more = landed.has_value();
    if (!more) continue;
    const digest_algorithm algorithm = s.algorithm_of(landed->name());
    s.hashes.add(std::move(*landed), algorithm);
  }
  if (s.request.window_bytes == 0) {
    auto loaded = co_await s.started.load.finish_async();
  }
  co_await s.hashes.finish_async();
}

asio::awaitable<void> sum_held(
    const model& held, const std::function<digest_algorithm(std::string_view)>& algorithm_of,
    hashing& to) {
  hashing& hashes = to;
  for (const tensor& each : held) hashes.add(each, algorithm_of(each.name()));
  co_await hashes.finish_async();
}

// std::string compares bytes as unsigned numbers.
void sort_by_name(std::vector<tensor_digest>& sums) {
  std::sort(sums.begin(), sums.end(),
            [](const tensor_digest& a, const tensor_digest& b) { return a.name < b.name; });
}

}  // namespace

summed sum_all_tensors(const load_request& request,
                       const std::function<digest_algorithm(std::string_view)>& algorithm_of) {
  const device target = device_named(request.device);
  const auto before = std::chrono::steady_clock::now();
  loader with(target, request.options, extensions_for(request.from));
  const std::chrono::duration<double> starting = std::chrono::steady_clock::now() - before;

  asio::io_context context;
  hashing hashes(context);
  progress_bar bar("hashing", request.progress);
  state s{request, algorithm_of, with, hashes, started_load(), 0};
  run_to_end(context, sum_all(s), bar,
             [&s] { return progress{s.hashes.bytes_hashed(), s.bytes_total}; });

  summed all{s.started.tensors().catalog(),
             s.started.tensors().progress(),
             std::move(s.started.file),
             {hashes.sums().begin(), hashes.sums().end()},
             starting.count(),
             s.started.seconds_opening,
             s.started.tensors().progress_of_files()};
  sort_by_name(all.sums);
  return all;
}

summed sum_attached(const load_request& request, const std::string& socket,
                    const std::function<digest_algorithm(std::string_view)>& algorithm_of) {
  const model held = attach(socket, request.from.sources.front(), device_named(request.device));
  std::uint64_t bytes_total = 0;
  for (const tensor& each : held) bytes_total += each.size_bytes();

  asio::io_context context;
  hashing hashes(context);
  progress_bar bar("hashing", request.progress);
  run_to_end(context, sum_held(held, algorithm_of, hashes), bar,
             [&] { return progress{hashes.bytes_hashed(), bytes_total}; });
  summed all;
  all.loaded = held.catalog();
  all.sums = {hashes.sums().begin(), hashes.sums().end()};
  sort_by_name(all.sums);
  return all;
}

}  // namespace ringload::tool
