// SPDX-License-Identifier: Apache-2.0

// Loads by groups of ranks. The ranks of a group are loaders of one world. Their sockets are
// simulated. A rank may leave, stop, load another file, or lose a connection.

#include <algorithm>
#include <chrono>
#include <ringload/group_load.hpp>

#include "client.hpp"
#include "sockets.hpp"

namespace ringload::simulation {

namespace {

// The time within which a rank must learn that another rank has failed. The rank may be reading.
constexpr std::int64_t failure_nanoseconds_max = 10'000'000'000;

enum class rank_fault { none, other_file, leaves, stops, connection_breaks };

}  // namespace

struct client::rank_group {
  struct member {
    std::shared_ptr<loader> by;
    std::shared_ptr<group> ranks;
    group_load load;
  };

  const known_file* file = nullptr;
  group_options options;
  const bytes_by_name* expected = nullptr;
  history begin;  // Before the checkpoint was opened.
  std::chrono::milliseconds timeout = {};
  std::vector<member> members;
  std::vector<int> sockets;  // Of all ranks.
  rank_fault fault = rank_fault::none;
  std::size_t faulty = 0;  // The rank that has the fault.
  std::size_t open_calls = 0;
  std::vector<operation_ptr> calls;  // Of this round.
  unsigned rounds = 0;               // To come.
  bool has_failed = false;
  bool is_broken = false;              // A connection was reset.
  std::function<void()> stopped_call;  // The call of a rank that has stopped.
};

// A call that all ranks make.
struct client::rank_call {
  enum class kinds { model, tensor, shard, push };

  kinds kind = kinds::model;
  std::string name;
  std::uint32_t receiver = 0;
};

void client::load_by_ranks() {
  const auto joint_load = std::make_shared<rank_group>();
  joint_load->begin = history_now();
  joint_load->file = &any_file();
  joint_load->options.load = any_options();
  if (random(3) == 0) joint_load->options.reading = group_reading::own;
  joint_load->expected = &expected_of(*joint_load->file, joint_load->options.load);
  // A read may wait for slots of loads from a server.
  joint_load->timeout = std::chrono::seconds(settings().has_server ? 3'000 : 30);
  joint_load->rounds = 1 + static_cast<unsigned>(random(3));
  const auto count = static_cast<std::uint32_t>(2 + random(random(4) == 0 ? 3 : 1));
  std::vector<std::unique_ptr<group>> groups;
  const std::size_t sockets = sockets_made().size();
  call([&] { groups = make_thread_ranks(count, joint_load->timeout); });
  if (groups.empty()) return next();
  joint_load->sockets.assign(sockets_made().begin() + static_cast<std::ptrdiff_t>(sockets),
                             sockets_made().end());
  for (std::uint32_t r = 0; r < count; ++r) {
    joint_load->members.push_back({program_.any_loader(), std::move(groups[r]), {}});
  }
  if (settings().faults.any() && random(2) == 0) {
    joint_load->fault = static_cast<rank_fault>(1 + random(4));
    joint_load->faulty = random(count);
  }
  open_by_ranks(joint_load);
}

// The calls of one round. If one of them may be cancelled, the others may fail.
std::vector<client::operation_ptr> client::begin_round(const rank_group& ranks) {
  std::vector<operation_ptr> calls;
  for (std::size_t r = 0; r < ranks.members.size(); ++r)
    calls.push_back(begin_operation(ranks.begin));
  const bool may_fail =
      ranks.is_broken ||
      std::ranges::any_of(calls, [](const operation_ptr& each) { return each->may_be_cancelled; });
  // The time limit of the group, of the question who waits for whom, and of the reads.
  const auto limit = ranks.timeout + std::chrono::seconds(2 * calls.size() + 30);
  for (const operation_ptr& each : calls) {
    if (may_fail) each->may_fail = errc::rank_failed;
    each->end_max = now() + std::chrono::nanoseconds(limit).count();
  }
  return calls;
}

void client::open_by_ranks(const std::shared_ptr<rank_group>& ranks) {
  const std::vector<operation_ptr> calls = begin_round(*ranks);
  ranks->open_calls = calls.size();
  ranks->calls = calls;
  const bool has_other_file = ranks->fault == rank_fault::other_file;
  const known_file* other = ranks->file;
  while (has_other_file && other == ranks->file) other = &any_file();
  for (std::size_t r = 0; r < calls.size(); ++r) {
    if (has_other_file) calls[r]->must_fail = errc::mismatched_call;
    const std::string& path = r == ranks->faulty ? other->path : ranks->file->path;
    auto handler = token<group_load>(
        calls[r], [self = shared_from_this(), ranks, r](bool ok, group_load opened) {
          ranks->members[r].load = std::move(opened);
          self->end_call(ranks, ok);
        });
    rank_group::member& own = ranks->members[r];
    call([&] { load_async(*own.by, own.ranks, path, ranks->options, std::move(handler)); });
  }
  break_connection_soon(ranks);
}

// A random socket of the group is reset at a random time.
void client::break_connection_soon(const std::shared_ptr<rank_group>& ranks) {
  if (ranks->fault != rank_fault::connection_breaks) return;
  const int socket = ranks->sockets[random(ranks->sockets.size())];
  const std::weak_ptr<rank_group> known = ranks;
  call_at(now() + static_cast<std::int64_t>(random(std::uint64_t{1000} << random(15))),
          [known, socket] {
            if (known.expired()) return;
            count_hard_fault();
            known.lock()->is_broken = true;
            break_connection(socket);
          });
}

void client::end_call(const std::shared_ptr<rank_group>& ranks, bool succeeded) {
  // The other ranks learn of a failure before the time limit of the group.
  if (!succeeded && !std::exchange(ranks->has_failed, true) && !settings().has_server) {
    for (const operation_ptr& each : ranks->calls) {
      each->end_max = std::min(each->end_max, now() + failure_nanoseconds_max);
    }
  }
  const bool is_stopped = ranks->fault == rank_fault::stops && ranks->open_calls == 2;
  if (--ranks->open_calls > 0) {
    if (is_stopped && ranks->stopped_call) std::exchange(ranks->stopped_call, nullptr)();
    return;
  }
  if (!ranks->has_failed && ranks->rounds-- > 0) return call_by_ranks(ranks);
  // A handle of a load waits for its thread.
  for (rank_group::member& each : ranks->members) {
    call([&] { each.load = group_load(); });
  }
  next();
}

void client::call_by_ranks(const std::shared_ptr<rank_group>& ranks) {
  rank_call chosen;
  chosen.kind = static_cast<rank_call::kinds>(random(4));
  auto tensor = ranks->expected->begin();
  std::advance(tensor, static_cast<std::ptrdiff_t>(random(ranks->expected->size())));
  chosen.name = tensor->first;
  chosen.receiver = static_cast<std::uint32_t>(random(ranks->members.size()));
  const std::vector<operation_ptr> calls = begin_round(*ranks);
  ranks->open_calls = calls.size();
  ranks->calls = calls;
  const bool is_absent = ranks->fault == rank_fault::leaves || ranks->fault == rank_fault::stops;
  for (std::size_t r = 0; r < calls.size(); ++r) {
    if (is_absent && r == ranks->faulty) continue;
    if (is_absent) calls[r]->must_fail = errc::rank_failed;
    start_call(ranks, chosen, r, calls[r]);
  }
  if (!is_absent) return;
  // A late call may succeed, if it needs nothing that the other ranks did not send before.
  const auto absent = calls[ranks->faulty];
  absent->may_fail = errc::rank_failed;
  if (ranks->fault == rank_fault::stops) {
    // The call comes when the other ranks have waited for as long as they may.
    ranks->stopped_call = [self = shared_from_this(), ranks, chosen, absent] {
      self->start_call(ranks, chosen, ranks->faulty, absent);
    };
    return;
  }
  rank_group::member& own = ranks->members[ranks->faulty];
  call([&] { own.load = group_load(); });
  call([&] { own.ranks.reset(); });
  end_operation(absent, errc::rank_failed);
  end_call(ranks, false);
}

void client::start_call(const std::shared_ptr<rank_group>& ranks, const rank_call& chosen,
                        std::size_t rank, const operation_ptr& begun) {
  group_load& load = ranks->members[rank].load;
  if (chosen.kind == rank_call::kinds::model) {
    auto handler =
        token<model>(begun, [self = shared_from_this(), ranks](bool ok, const model& done) {
          if (ok && done.size() != ranks->expected->size()) violation("a rank lacks tensors");
          if (ok) check_model(done, *ranks->expected);
          self->end_call(ranks, ok);
        });
    return call([&] { load.model_async(std::move(handler)); });
  }
  auto handler = token<tensor>(
      begun, [self = shared_from_this(), ranks, chosen, rank](bool ok, const tensor& done) {
        if (ok) check_call(*ranks, chosen, rank, done);
        self->end_call(ranks, ok);
      });
  call([&] {
    switch (chosen.kind) {
      case rank_call::kinds::shard: return load.shard_async(chosen.name, 0, std::move(handler));
      case rank_call::kinds::push:
        return load.push_async(chosen.name, chosen.receiver, std::move(handler));
      default: return load.tensor_async(chosen.name, std::move(handler));
    }
  });
}

void client::check_call(const rank_group& ranks, const rank_call& chosen, std::size_t rank,
                        const tensor& done) {
  if (chosen.kind == rank_call::kinds::push && rank != chosen.receiver) return;
  if (chosen.kind != rank_call::kinds::shard) return check_bytes(done, *ranks.expected);
  const std::string& whole = ranks.expected->at(chosen.name);
  const tensor_info& info = *std::ranges::find(ranks.members[rank].load.catalog().tensors,
                                               chosen.name, &tensor_info::name);
  // Each rank has the same number of rows, except for the last ones.
  const std::uint64_t rows = info.shape[0];
  const std::uint64_t of_rank = (rows + ranks.members.size() - 1) / ranks.members.size();
  const std::uint64_t begin = std::min(rows, rank * of_rank);
  const std::uint64_t count = std::min(rows - begin, of_rank);
  const std::uint64_t row_bytes = rows == 0 ? 0 : whole.size() / rows;
  const bytes_by_name expected = {
      {chosen.name, whole.substr(static_cast<std::size_t>(begin * row_bytes),
                                 static_cast<std::size_t>(count * row_bytes))}};
  check_bytes(done, expected);
}

}  // namespace ringload::simulation
