// SPDX-License-Identifier: Apache-2.0

// Implements save_job::run(), which carries out one write of a save. If possible, the bytes are
// written from the memory of the tensor. Otherwise the bytes are gathered in the worker's slot (I/O
// buffer) and written from the slot.
//
// Each co_await in this file returns only when neither the kernel nor a copy uses the slot or the
// tensors.

#include <algorithm>
#include <cerrno>
#include <optional>
#include <vector>

#include "base/catch_as_fault.hpp"
#include "base/checked.hpp"
#include "base/io_unit.hpp"
#include "base/printable.hpp"
#include "base/retry_allocation.hpp"
#include "io/io_cursor.hpp"
#include "io/writers/write_fully.hpp"
#include "runtime/engine.hpp"
#include "runtime/on_thread.hpp"
#include "runtime/slot_use.hpp"
#include "save/save_job.hpp"

namespace ringload::inline v0::detail {

namespace {

// One write in progress.
struct write_task {
  save_job& job;
  const write_group& group;
  const write_op& op;
  written_file& file;
  std::uint32_t slot;
  std::span<std::byte> slot_memory;
  const std::byte* source = nullptr;  // The slot, or the memory of a tensor.
  bool direct = false;
  result<void> outcome;

  std::span<const gather_op> gathers() const noexcept {
    return std::span(group.plan.gathers)
        .subspan(op.gathers_begin, op.gathers_end - op.gathers_begin);
  }
  // Adds the place of the error, for example "model.safetensors: byte 4,096".
  fault in_file(const fault& cause, std::uint64_t offset) const {
    return cause.in(file.place + ": byte " + grouped(offset));
  }
};

// Task for a copy thread: copies bytes of the tensors into the slot.
struct fill_task {
  write_task& t;
  result<void> outcome;

  void operator()() noexcept {
    outcome = catch_as_fault([this]() -> result<void> {
      for (const gather_op& g : t.gathers()) {
        const auto into = t.slot_memory.subspan(g.write_offset, g.bytes);
        tensor_bytes& source = *t.group.sources[g.source];
        if (auto status = source.read(g.source_offset, into); !status) {
          return status.error().in(tensor_place(source.view().name));
        }
      }
      return {};
    });
  }
};

// Task for a copy thread: compares the bytes that were read back with the tensors.
struct compare_task {
  write_task& t;
  std::span<const std::byte> written;
  result<void> outcome;

  void operator()() noexcept {
    outcome = catch_as_fault([this] { return compare(); });
  }

  result<void> compare() {
    std::vector<std::byte> buffer(std::min<std::size_t>(written.size(), 256 * 1024));
    for (const gather_op& g : t.gathers()) {
      tensor_bytes& source = *t.group.sources[g.source];
      for (std::uint32_t position = 0; position < g.bytes;) {
        const auto step =
            static_cast<std::uint32_t>(std::min<std::size_t>(buffer.size(), g.bytes - position));
        const auto expected = std::span(buffer).first(step);
        if (auto status = source.read(g.source_offset + position, expected); !status) {
          return status.error().in(tensor_place(source.view().name));
        }
        const auto stored = written.subspan(g.write_offset + position, step);
        if (!std::ranges::equal(expected, stored)) {
          return fault{errc::read_back_differs, tensor_place(source.view().name)};
        }
        position += step;
      }
    }
    return {};
  }
};

// Returns the address of the tensor's bytes if the write needs no copy. Returns null if the write
// needs the slot.
const std::byte* unchanged_memory(const write_task& t) {
  const auto gathers = t.gathers();
  if (gathers.size() != 1) return nullptr;
  const std::byte* const memory =
      t.group.sources[gathers[0].source]->memory_at(gathers[0].source_offset);
  const bool aligned = reinterpret_cast<std::uintptr_t>(memory) % direct_address_alignment == 0;
  return !t.direct || aligned ? memory : nullptr;
}

boost::asio::awaitable<void> fill_slot(engine& e, write_task& t) {
  fill_task work = {t, {}};
  co_await prepare_slot(e, t.slot, work.outcome);
  if (work.outcome) co_await on_thread(*e.copy_threads, e.loop, work);
  if (!work.outcome) t.outcome = t.in_file(work.outcome.error(), t.op.file_offset);
}

boost::asio::awaitable<void> write_out(engine& e, write_task& t) {
  admission_guard admitted(e.write_admission, t.op.bytes, false);
  if (t.direct && e.the_ring) co_await admitted.acquire();
  const bool in_slot = t.source == t.slot_memory.data();
  file_block block = {t.op.file_offset, t.op.bytes, t.source};
  if (in_slot) block.registered_buffer = e.staging.registered_buffer(t.slot);
  write_outcome written;
  const write_queues queues = {*e.direct_io, *e.threads_io, *e.object_io};
  co_await write_fully(queues, t.file, block, t.direct, t.job.stop_flag(), written);
  t.outcome = written.status;
  if (written.is_complete) t.job.count_write(t.op.bytes, written.direct, !in_slot);
}

// Reads the written bytes back into the slot and compares them with the tensors. A direct read must
// begin at a multiple of the block size, so the read may include earlier bytes of the file.
boost::asio::awaitable<void> read_back(engine& e, write_task& t) {
  const bool direct = t.file.direct && t.file.direct_refusal.empty();
  const std::uint32_t unit = direct ? block_bytes : 1;
  const std::uint64_t begin = round_down<std::uint64_t>(t.op.file_offset, unit);
  const auto needed = static_cast<std::uint32_t>(t.op.file_offset + t.op.bytes - begin);
  compare_task work = {t, {}, {}};
  co_await prepare_slot(e, t.slot, work.outcome);
  io_cursor cursor = io_cursor::read(begin, round_up(needed, unit), needed, unit);
  std::optional<io_cursor::step> left = cursor.first();
  while (work.outcome && left) {
    io_request request;
    request.fd = direct ? t.file.direct.get() : t.file.buffered.get();
    request.direct = direct;
    request.bytes = left->bytes;
    request.file_offset = left->file_offset;
    request.memory = t.slot_memory.data() + left->memory_offset;
    request.registered_buffer = e.staging.registered_buffer(t.slot);
    const int res = co_await await_io(direct ? *e.direct_io : *e.buffered_io, request);
    auto next = cursor.completed(res);
    if (next) {
      left = *next;
    } else if (next.error().code == errc::truncated_file) {
      work.outcome = fault{errc::read_back_differs, {}, "the file is shorter than written"};
    } else {
      work.outcome = fault{next.error().code, {}, "reading it back"};
    }
  }
  work.written =
      std::span<const std::byte>(t.slot_memory).subspan(t.op.file_offset - begin, t.op.bytes);
  if (work.outcome) co_await on_thread(*e.copy_threads, e.loop, work);
  if (!work.outcome) t.outcome = t.in_file(work.outcome.error(), t.op.file_offset);
}

boost::asio::awaitable<void> process_write(engine& e, write_task& t) {
  t.direct = can_be_direct(t.file, t.op.file_offset, t.op.bytes);
  t.source = unchanged_memory(t);
  if (t.source == nullptr) {
    t.source = t.slot_memory.data();
    co_await fill_slot(e, t);
  }
  if (!t.outcome || t.job.stopped()) co_return;
  co_await write_out(e, t);
  if (t.outcome && !t.job.stopped() && t.job.options().read_back) co_await read_back(e, t);
}

}  // namespace

boost::asio::awaitable<void> save_job::run(work_step& step, result<void>& outcome) {
  engine& e = *the_engine;
  const std::shared_ptr<write_group> group = setup_.group;
  const write_op& op = group->plan.writes[step.index];
  write_task t = {*this,   *group, op, file(op), step.slot, e.staging.memory(step.slot),
                  nullptr, false,  {}};
  co_await process_write(e, t);
  outcome = t.outcome;
}

}  // namespace ringload::inline v0::detail
