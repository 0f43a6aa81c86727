// SPDX-License-Identifier: Apache-2.0
#include "sums.hpp"

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <ringload/loader.hpp>
#include <utility>

#include "device.hpp"
#include "hashing.hpp"
#include "loaded_form.hpp"
#include "opening.hpp"
#include "progress_bar.hpp"
#include "session.hpp"

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
  model loaded;
};

std::uint64_t landed_bytes(const catalog& what, std::optional<dtype> to) {
  std::uint64_t sum = 0;
  for (const tensor_info& t : what.tensors) sum += as_loaded(t, to).bytes;
  return sum;
}

asio::awaitable<void> sum_all(state& s) {
  auto started = co_await start_load(s.with, s.request);
  s.started = std::move(started);
  loading& load = s.started.load;
  s.bytes_total = landed_bytes(load.catalog(), s.request.how.dtype);
  for (bool more = true; more;) {
    auto landed = co_await load.next_async();
    more = landed.has_value();
    if (!more) continue;
    const digest_algorithm algorithm = s.algorithm_of(landed->name());
    s.hashes.add(std::move(*landed), algorithm);
  }
  auto loaded = co_await load.finish_async();
  s.loaded = std::move(loaded);
  co_await s.hashes.finish_async();
}

}  // namespace

summed sum_all_tensors(const load_request& request,
                       const std::function<digest_algorithm(std::string_view)>& algorithm_of) {
  const device target = device_named(request.device);
  const auto before = std::chrono::steady_clock::now();
  loader with(target, request.within);
  const std::chrono::duration<double> starting = std::chrono::steady_clock::now() - before;

  asio::io_context context;
  hashing hashes(context);
  progress_bar bar("hashing", request.progress);
  state s{request, algorithm_of, with, hashes, started_load(), 0, {}};
  run_to_end(context, sum_all(s), bar,
             [&s] { return progress{s.hashes.bytes_hashed(), s.bytes_total}; });

  summed all{std::move(s.loaded),
             std::move(s.started.file),
             {hashes.sums().begin(), hashes.sums().end()},
             starting.count(),
             s.started.seconds_opening};
  // std::string compares as unsigned bytes.
  std::sort(all.sums.begin(), all.sums.end(),
            [](const tensor_digest& a, const tensor_digest& b) { return a.name < b.name; });
  return all;
}

}  // namespace ringload::tool
