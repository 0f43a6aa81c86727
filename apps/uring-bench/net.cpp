// SPDX-License-Identifier: Apache-2.0

// uring-bench net: reads ranges of a file on the network into a few buffers, as the loader would.
// Measures each number of connections with each range length.

#include "net.hpp"

#include "commands.hpp"

#ifdef RINGLOAD_WITH_REMOTE

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <ringload/byte_source.hpp>
#include <stop_token>
#include <utility>

#include "extensions.hpp"
#include "failure.hpp"
#include "interrupts.hpp"
#include "resource_usage.hpp"

namespace ringload::bench {

namespace {

using clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr int small_requests = 8;
// One response in progress, and the request of the next range.
constexpr std::size_t reads_per_connection = 2;
// The minimum number of rounds of each connection, even if the requested time is over.
constexpr std::uint64_t rounds_min = 2;
constexpr int longer_max = 10;  // Maximum time, as a multiple of the requested time.

double seconds_since(clock::time_point begin) {
  return std::chrono::duration<double>(clock::now() - begin).count();
}

// Calls `work` with a stop token. The first signal requests a stop. Throws `tool::interrupted`
// after a signal, whatever the result of `work` is.
template <class Work>
void stopped_by_signal(const Work& work) {
  const tool::interrupt_stop stopping;
  try {
    work(stopping.token());
  } catch (...) {
    tool::throw_if_interrupted();
    throw;
  }
  tool::throw_if_interrupted();
}

// A file of the target, with connections of its own.
class net_file {
 public:
  net_file(const net_request& request, const net_cell& config) {
    tool::remote_wish wish = request.remote;
    wish.connections = config.connections;
    wish.chunk_bytes = config.chunk_bytes;
    wish.cache = hub_cache::off;
    for (extension& each : tool::extensions(wish)) {
      if (each.store() && each.store()->has_name(request.target)) with_.push_back(std::move(each));
    }
    if (with_.empty()) fail(request.target, "this is not an address on the network");
    stopped_by_signal([&](const std::stop_token& stop) { open(request, stop); });
  }

  byte_source& source() const noexcept { return *source_; }
  const std::string& name() const noexcept { return name_; }
  double opening_seconds() const noexcept { return opening_seconds_; }

 private:
  void open(const net_request& request, const std::stop_token& stop) {
    const clock::time_point begin = clock::now();
    const found_source location = with_.front().store()->find(request.target, stop);
    if (!location.folder) fail(request.target, "it is on this machine");
    const std::string file =
        location.file.empty() ? shard_of(*location.folder, stop) : location.file;
    name_ = location.folder->path_of(file);
    if (file.ends_with(".index.json")) fail(name_, "this is an index: name one of its shards");
    source_ = location.folder->open(file, stop);
    opening_seconds_ = seconds_since(begin);
  }

  static std::string shard_of(byte_folder& folder, const std::stop_token& stop) {
    std::vector<std::string> names = folder.names(stop);
    std::ranges::sort(names);
    for (const char* const end : {".safetensors", ".gguf", ".bin"}) {
      const auto at = std::ranges::find_if(
          names, [end](const std::string& each) { return each.ends_with(end); });
      if (at != names.end()) return *at;
    }
    fail(folder.path_of({}), "it has no file of tensors");
  }

  std::vector<extension> with_;
  std::shared_ptr<byte_source> source_;
  std::string name_;
  double opening_seconds_ = 0;
};

// Keeps a constant number of reads in flight until the end of the run.
class reading {
 public:
  reading(byte_source& source, const net_cell& config)
      : source_(source), chunk_(std::min(config.chunk_bytes, source.bytes())) {
    const std::size_t reads = std::size_t{config.connections} * reads_per_connection;
    for (std::size_t i = 0; i < reads; ++i) buffers_.emplace_back(chunk_);
  }

  // Runs until the time is over and each connection had its rounds.
  measurement run(double seconds) {
    {
      std::unique_lock lock(mutex_);
      in_flight_ = buffers_.size();
    }
    const cpu_account processors;
    for (std::size_t i = 0; i < buffers_.size(); ++i) begin(i);
    measurement out;
    const auto end = clock::now() + std::chrono::duration<double>(seconds);
    const auto last = clock::now() + std::chrono::duration<double>(seconds * longer_max);
    std::unique_lock lock(mutex_);
    const auto enough = [&] {
      const auto now = clock::now();
      const bool turns = out_.reads >= rounds_min * buffers_.size();
      return failed_ || tool::interrupt_signal() != 0 || now >= last || (now >= end && turns);
    };
    while (!enough()) changed_.wait_for(lock, 20ms);
    over_ = true;
    out = out_;
    out.seconds = std::chrono::duration<double>(clock::now() - first_).count();
    out.resubmits = counts_.retries;
    out.cpu_seconds = processors.spent().own;
    lock.unlock();
    stop_.request_stop();
    lock.lock();
    changed_.wait(lock, [&] { return in_flight_ == 0; });
    if (failed_) std::rethrow_exception(failed_);
    tool::throw_if_interrupted();
    return out;
  }

 private:
  void begin(std::size_t index) {
    source_read read(0, buffers_[index]);
    {
      const std::lock_guard lock(mutex_);
      if (next_ + chunk_ > source_.bytes()) next_ = 0;
      read.offset = next_;
      next_ += chunk_;
    }
    read.stop = stop_.get_token();
    read.counts = &counts_;
    source_.read_async(
        read, [this, index](const std::exception_ptr& failed) { completed(index, failed); });
  }

  // The clock starts at the first completed read, which is not counted.
  void completed(std::size_t index, const std::exception_ptr& failed) {
    {
      const std::lock_guard lock(mutex_);
      if (failed && !over_ && !failed_) failed_ = failed;
      if (!failed && !over_) {
        if (!started_) first_ = clock::now();
        if (started_) out_.bytes += chunk_;
        if (started_) ++out_.reads;
        started_ = true;
      }
      if (over_ || failed_) {
        --in_flight_;
        changed_.notify_all();
        return;
      }
    }
    begin(index);
  }

  byte_source& source_;
  const std::uint64_t chunk_;
  std::vector<std::vector<std::byte>> buffers_;
  std::stop_source stop_;
  transfer_counts counts_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // mutex_ guards the members below.
  std::uint64_t next_ = 0;
  std::size_t in_flight_ = 0;
  bool started_ = false;
  bool over_ = false;
  clock::time_point first_ = clock::now();
  measurement out_;
  std::exception_ptr failed_;
};

double small_request(byte_source& source) {
  std::vector<std::byte> memory(1);
  double seconds = 0;
  stopped_by_signal([&](const std::stop_token& stop) {
    source_read read(source.bytes() - 1, memory);
    read.stop = stop;
    std::promise<void> ended;
    auto end = ended.get_future();
    const clock::time_point begin = clock::now();
    source.read_async(read, [&](std::exception_ptr failed) {
      if (failed) {
        ended.set_exception(std::move(failed));
      } else {
        ended.set_value();
      }
    });
    end.get();
    seconds = seconds_since(begin);
  });
  return seconds;
}

void look_once(const net_request& request, net_findings& out) {
  const net_file one(request, {1, std::uint64_t{1} << 20});
  out.file = one.name();
  out.file_bytes = one.source().bytes();
  out.opening_seconds = one.opening_seconds();
  if (out.file_bytes == 0) fail(out.file, "it is empty");
  out.request_seconds = small_request(one.source());
  for (int i = 1; i < small_requests; ++i) {
    out.request_seconds = std::min(out.request_seconds, small_request(one.source()));
  }
}

}  // namespace

void net(const net_request& request, tool::output& out) {
  tool::watch_for_interrupts();
  net_findings all;
  all.target = request.target;
  look_once(request, all);
  for (const net_cell& each : cells_of(request)) all.cells.push_back({each, {}});
  std::mt19937_64 random(1);
  std::vector<std::size_t> order(all.cells.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::uint32_t i = 0; i < request.runs; ++i) {
    std::ranges::shuffle(order, random);
    for (const std::size_t index : order) {
      measured_net_cell& now = all.cells[index];
      const net_file one(request, now.config);
      now.measurements.add(reading(one.source(), now.config).run(request.seconds));
    }
  }
  std::string text;
  if (request.json) {
    append_net(text, all);
    text += '\n';
  } else {
    text = net_text(all);
  }
  out.write(text);
  out.flush();
}

}  // namespace ringload::bench

#else

#include "failure.hpp"

namespace ringload::bench {

void net(const net_request&, tool::output&) {
  throw error(errc::unsupported_feature, "net",
              "this uring-bench was built without the component remote");
}

}  // namespace ringload::bench

#endif
