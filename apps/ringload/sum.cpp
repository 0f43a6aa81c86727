// SPDX-License-Identifier: Apache-2.0

// ringload sum: the SHA-256 of the bytes that landed, which is the proof of a load.

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <ringload/loader.hpp>
#include <string>
#include <utility>
#include <vector>

#include "commands.hpp"
#include "device.hpp"
#include "hashing.hpp"
#include "interrupts.hpp"
#include "json.hpp"
#include "progress_bar.hpp"
#include "report.hpp"
#include "session.hpp"
#include "text.hpp"

namespace ringload::tool {

namespace {

namespace asio = boost::asio;

struct state {
  const load_request& request;
  loader& with;
  hashing& hashes;
  loading load;
  std::uint64_t bytes_total = 0;
  model loaded;
};

// Of all tensors once they have landed.
std::uint64_t landed_bytes(const catalog& what, std::optional<dtype> to) {
  std::uint64_t sum = 0;
  for (const tensor_info& t : what.tensors) {
    const bool converted = to && convertible(t.dtype, *to);
    sum += converted ? t.bytes / bits(t.dtype) * bits(*to) : t.bytes;
  }
  return sum;
}

asio::awaitable<void> sum_all(state& s) {
  auto started = co_await s.with.start_async(s.request.source, s.request.how);
  s.load = std::move(started);
  s.bytes_total = landed_bytes(s.load.catalog(), s.request.how.dtype);
  for (bool more = true; more;) {
    auto landed = co_await s.load.next_async();
    more = landed.has_value();
    if (more) s.hashes.add(std::move(*landed));
  }
  auto loaded = co_await s.load.finish_async();
  s.loaded = std::move(loaded);
  co_await s.hashes.finish_async();
}

std::vector<const tensor_sum*> by_name(const hashing& hashes) {
  std::vector<const tensor_sum*> sorted;
  sorted.reserve(hashes.sums().size());
  for (const tensor_sum& sum : hashes.sums()) sorted.push_back(&sum);
  // std::string compares as unsigned bytes.
  std::sort(sorted.begin(), sorted.end(),
            [](const tensor_sum* a, const tensor_sum* b) { return a->name < b->name; });
  return sorted;
}

void write_lines(const std::vector<const tensor_sum*>& sums, output& out) {
  for (const tensor_sum* sum : sums) out.write(sum_line(sum->hex(), sum->name));
}

void write_json(const std::vector<const tensor_sum*>& sums, const load_report& report,
                output& out) {
  std::string text;
  json_object top(text, ",\n");
  append_report(top.key_of_next("load"), report);
  top.key_of_next("tensors") += "[";
  const char* before = "\n";
  for (const tensor_sum* sum : sums) {
    text += before;
    json_object(text).field("name", sum->name).field("sha256", sum->hex()).close();
    before = ",\n";
    out.write(text);
    text.clear();
  }
  text += "\n]";
  top.close();
  out.write(text + "\n");
}

}  // namespace

void sum_tensors(const sum_request& request, output& out) {
  const device target = device_named(request.load.device);
  watch_for_interrupts();
  const auto before = std::chrono::steady_clock::now();
  loader with(target, request.load.within);
  const std::chrono::duration<double> starting = std::chrono::steady_clock::now() - before;

  asio::io_context context;
  hashing hashes(context);
  progress_bar bar("hashing", request.load.progress);
  state s{request.load, with, hashes, {}, 0, {}};
  run_to_end(context, sum_all(s), bar,
             [&s] { return progress{s.hashes.bytes_hashed(), s.bytes_total}; });

  const auto sums = by_name(hashes);
  if (request.load.json) {
    const std::string device_name = target.name();
    write_json(
        sums,
        {request.load.source, device_name, s.loaded.catalog(), s.loaded.stats(), starting.count()},
        out);
  } else {
    write_lines(sums, out);
  }
  out.flush();
}

}  // namespace ringload::tool
