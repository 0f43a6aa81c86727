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
  loader& file_loader;
  tensor_hasher& hasher_queue;
  started_load started;
  std::uint64_t bytes_total = 0;
};

std::uint64_t loaded_bytes(const catalog& contents, std::optional<dtype> to) {
  std::uint64_t sum = 0;
  for (const tensor_info& t : contents.tensors) sum += as_loaded(t, to).bytes;
  return sum;
}

// Waits for the next tensor. If the window is full, waits until a tensor is hashed and released.
asio::awaitable<std::optional<tensor>> next_tensor(state& s) {
  std::optional<tensor> next;
  for (bool is_loaded = false; !is_loaded;) {
    const std::uint64_t unhashed = s.hasher_queue.left();
    try {
      auto loaded = co_await s.started.tensors().next_async();
      next = std::move(loaded);
      is_loaded = true;
    } catch (const error& full) {
      const bool may_change = s.request.window_bytes > 0 && unhashed > 0;
      if (full.code() != errc::memory_exceeded || !may_change) throw;
    }
    if (!is_loaded && s.hasher_queue.left() == unhashed)
      co_await s.hasher_queue.next_hashed_async();
  }
  co_return next;
}

asio::awaitable<void> sum_all(state& s) {
  auto started = co_await start_load(s.file_loader, s.request);
  s.started = std::move(started);
  s.bytes_total = loaded_bytes(s.started.tensors().catalog(), s.request.how.dtype);
  for (bool more = true; more;) {
    auto loaded = co_await next_tensor(s);
    more = loaded.has_value();
    if (!more) continue;
    const digest_algorithm algorithm = s.algorithm_of(loaded->name());
    s.hasher_queue.add(std::move(*loaded), algorithm);
  }
  if (s.request.window_bytes == 0) {
    auto loaded = co_await s.started.load.finish_async();
  }
  co_await s.hasher_queue.finish_async();
}

asio::awaitable<void> sum_model(
    const model& attached_model,
    const std::function<digest_algorithm(std::string_view)>& algorithm_of, tensor_hasher& to) {
  tensor_hasher& hasher_queue = to;
  for (const tensor& each : attached_model) hasher_queue.add(each, algorithm_of(each.name()));
  co_await hasher_queue.finish_async();
}

// The order is the order of unsigned bytes, because std::string compares bytes as unsigned numbers.
void sort_by_name(std::vector<tensor_digest>& sums) {
  std::sort(sums.begin(), sums.end(),
            [](const tensor_digest& a, const tensor_digest& b) { return a.name < b.name; });
}

}  // namespace

checksum_result sum_all_tensors(
    const load_request& request,
    const std::function<digest_algorithm(std::string_view)>& algorithm_of) {
  const device target = device_named(request.device);
  const auto before = std::chrono::steady_clock::now();
  loader file_loader(target, request.options, extensions_for(request.from));
  const std::chrono::duration<double> starting = std::chrono::steady_clock::now() - before;

  asio::io_context context;
  tensor_hasher hasher_queue(context);
  progress_bar bar("hashing", request.progress);
  state s{request, algorithm_of, file_loader, hasher_queue, started_load(), 0};
  run_to_end(context, sum_all(s), bar,
             [&s] { return progress{s.hasher_queue.bytes_hashed(), s.bytes_total}; });

  checksum_result all{s.started.tensors().catalog(),
                      s.started.tensors().progress(),
                      std::move(s.started.file),
                      {hasher_queue.sums().begin(), hasher_queue.sums().end()},
                      starting.count(),
                      s.started.seconds_opening,
                      s.started.tensors().progress_of_files()};
  sort_by_name(all.sums);
  return all;
}

checksum_result sum_attached(
    const load_request& request, const std::string& socket,
    const std::function<digest_algorithm(std::string_view)>& algorithm_of) {
  const model attached_model =
      attach(socket, request.from.sources.front(), device_named(request.device));
  std::uint64_t bytes_total = 0;
  for (const tensor& each : attached_model) bytes_total += each.size_bytes();

  asio::io_context context;
  tensor_hasher hasher_queue(context);
  progress_bar bar("hashing", request.progress);
  run_to_end(context, sum_model(attached_model, algorithm_of, hasher_queue), bar,
             [&] { return progress{hasher_queue.bytes_hashed(), bytes_total}; });
  checksum_result all;
  all.loaded = attached_model.catalog();
  all.sums = {hasher_queue.sums().begin(), hasher_queue.sums().end()};
  sort_by_name(all.sums);
  return all;
}

}  // namespace ringload::tool
