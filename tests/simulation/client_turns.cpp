// SPDX-License-Identifier: Apache-2.0

// Operations that check the order of reads. They need a world without faults and without other
// clients.

#include <algorithm>

#include "client.hpp"
#include "drive.hpp"

namespace ringload::simulation {

namespace {

// When a tensor is awaited, each slot may already have a read of another tensor. Each slot may
// start one more such read while a thread populates the memory for the first read of the tensor.
// Alignment adds at most three reads.
std::size_t overtaken_max(const tensor_info& tensor) {
  return 2 * settings().slots + tensor.bytes / slot_bytes + 3;
}

bool overlaps(const drive_read& read, const tensor_info& tensor) {
  return read.offset < tensor.offset + tensor.bytes && tensor.offset < read.offset + read.bytes;
}

// Returns the largest number of recorded reads that started before a read of the tensor. A direct
// read waits while too many bytes of direct reads are in flight. Buffered reads, which take bytes
// from the page cache, start meanwhile and do not delay the direct read. So they do not count for a
// direct read. Reads of the tensor by threads are not checked: such a thread may be delayed while
// other threads start any number of reads.
std::size_t reads_before(const tensor_info& tensor) {
  std::size_t most = 0;
  std::size_t direct = 0;
  std::size_t all = 0;
  for (const drive_read& read : recorded_reads()) {
    if (overlaps(read, tensor) && !read.is_by_thread) {
      most = std::max(most, read.direct ? direct : all);
    }
    ++all;
    if (read.direct) ++direct;
  }
  return most;
}

std::uint64_t bytes_read(const load_operation& load) {
  const load_stats stats = load.progress();
  return stats.bytes_direct + stats.bytes_buffered;
}

}  // namespace

bool client::is_alone() const {
  return program_.clients_active == 1 && !settings().faults.any() && !settings().power_cuts;
}

// Awaits a tensor near the end of a file. Its reads must start before those of other tensors. Only
// a ring starts reads in the order in which the loader issues them: a thread that reads can be
// delayed while other threads start several reads.
void client::overtake() {
  const std::shared_ptr<loader> by = program_.any_loader();
  if (!is_alone() || by->stats().engine != read_engine::ring) return load();
  const known_file& file = program_.files.wide();
  auto handler = token<load_operation>(
      begin_operation(),
      [self = shared_from_this(), &file, begin = history_now()](bool ok, load_operation started) {
        if (!ok) return self->next();
        auto load = std::make_shared<started_load>();
        load->operation = std::move(started);
        load->expected = &file.stored;
        load->begin = begin;
        self->await_last(load);
      });
  load_options options = any_options();
  options.dtype.reset();
  call([&] { by->start_async(file.path, options, std::move(handler)); });
}

void client::await_last(const started_ptr& load) {
  const std::vector<tensor_info>& tensors = load->operation.catalog().tensors;
  const tensor_info awaited = tensors[tensors.size() - 1 - random(tensors.size() / 4)];
  load->open_waits = 2;
  record_reads();
  auto handler = token<tensor>(
      begin_wait(*load), [self = shared_from_this(), load, awaited](bool ok, const tensor& done) {
        const std::size_t before = reads_before(awaited);
        if (ok && before >= overtaken_max(awaited)) {
          violation("an awaited tensor waited for " + std::to_string(before) + " other reads");
        }
        if (ok) check_bytes(done, *load->expected);
        self->end_wait(load);
      });
  call([&] { load->operation.tensor_async(awaited.name, std::move(handler)); });
  finish(load);
}

// Loads of the same file by the same loader.
struct client::parallel_loads {
  std::shared_ptr<loader> by;
  std::size_t open_starts = 0;
  std::size_t open_loads = 0;
  std::vector<started_ptr> loads;
  std::vector<std::uint64_t> begin_bytes;
  bool is_compared = false;
  std::uint64_t depth = 0;  // The queue depth of the new loader.
};

// Two loads of one loader take turns: when one load ends, the other has read about as much.
void client::side_by_side() {
  if (!is_alone()) return load();
  start_parallel(program_.any_loader(), 2);
}

// Loads as many bytes as the loader measures before it tries another queue depth. A trial ends when
// the drive is idle. These bytes are too few for a decision.
void client::tune_depth() {
  if (!is_alone() || settings().bytes_in_flight != 0) return load();
  start_parallel(program_.make_loader(), 64);
}

void client::start_parallel(std::shared_ptr<loader> by, std::size_t count) {
  auto group = std::make_shared<parallel_loads>();
  group->by = std::move(by);
  group->open_starts = count;
  group->depth = group->by->stats().bytes_in_flight;
  const known_file& file = program_.files.wide();
  load_options options;
  options.route = read_route::direct;
  for (std::size_t i = 0; i < count; ++i) {
    auto handler = token<load_operation>(
        begin_operation(),
        [self = shared_from_this(), group, &file](bool ok, load_operation started) {
          if (ok) {
            auto load = std::make_shared<started_load>();
            load->operation = std::move(started);
            load->expected = &file.stored;
            load->begin = self->history_now();
            group->loads.push_back(load);
          }
          if (--group->open_starts == 0) self->finish_parallel(group);
        });
    call([&] { group->by->start_async(file.path, options, std::move(handler)); });
  }
}

void client::finish_parallel(const std::shared_ptr<parallel_loads>& group) {
  if (group->loads.empty()) return next();
  group->open_loads = group->loads.size();
  for (const started_ptr& each : group->loads) {
    group->begin_bytes.push_back(bytes_read(each->operation));
  }
  for (const started_ptr& load : group->loads) {
    const operation_ptr begun = begin_wait(*load);
    if (begun->will_be_cancelled) group->is_compared = true;  // A cancelled load takes no turns.
    auto handler = token<model>(begun, [self = shared_from_this(), group, load](bool ok,
                                                                                const model& done) {
      if (ok) {
        check_model(done, *load->expected);
        if (!std::exchange(group->is_compared, true)) compare_turns(*group);
      }
      if (--group->open_loads > 0) return;
      if (group->by->stats().bytes_in_flight != group->depth && settings().bytes_in_flight == 0) {
        violation("a trial of the queue depth has not ended, and the drive is idle");
      }
      self->next();
    });
    call([&] { load->operation.finish_async(std::move(handler)); });
  }
}

// Called when the first load has ended. Each slot may have a read of any load. A load reads no more
// than it had left when both had started: if that is little, the other load reads the rest alone.
void client::compare_turns(const parallel_loads& group) {
  if (group.loads.size() != 2) return;
  std::vector<std::uint64_t> bytes;
  for (std::size_t i = 0; i < group.loads.size(); ++i) {
    bytes.push_back(bytes_read(group.loads[i]->operation) - group.begin_bytes[i]);
  }
  const std::uint64_t most = std::ranges::max(bytes);
  for (std::size_t i = 0; i < group.loads.size(); ++i) {
    const std::uint64_t total = group.loads[i]->operation.progress().bytes_total;
    const std::uint64_t left = total - std::min(total, group.begin_bytes[i]);
    if (bytes[i] + (2 * settings().slots + 2) * slot_bytes >= std::min(most, left)) continue;
    violation("a load has read " + std::to_string(bytes[i]) + " bytes while another load read " +
              std::to_string(most));
  }
}

}  // namespace ringload::simulation
