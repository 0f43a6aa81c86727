// SPDX-License-Identifier: Apache-2.0

#include "ranks/group_job.hpp"

#include <algorithm>
#include <boost/asio/error.hpp>
#include <cerrno>
#include <new>
#include <ringload/verify.hpp>
#include <ringload/writer.hpp>
#include <system_error>
#include <utility>

#include "base/catch_as_fault.hpp"
#include "base/checked.hpp"
#include "base/printable.hpp"
#include "base/retry_allocation.hpp"
#include "load/tensor_storage.hpp"
#include "ranks/call_text.hpp"
#include "ranks/check_same_call.hpp"
#include "ranks/group_checks.hpp"
#include "ranks/rank_files.hpp"

namespace ringload::inline v0::detail {

namespace {

// A tensor of a file is divided into blocks of rows only if its first block has at least this size.
// Reads of this size are fast on drives, but not from servers, which answer each request after a
// delay.
constexpr std::uint64_t row_block_bytes_min = 256 << 10;

void add(load_stats& sum, const load_stats& stats) noexcept {
  sum.bytes += stats.bytes;
  sum.bytes_total += stats.bytes_total;
  sum.bytes_direct += stats.bytes_direct;
  sum.bytes_buffered += stats.bytes_buffered;
  sum.bytes_remote += stats.bytes_remote;
  sum.reads += stats.reads;
  sum.seconds += stats.seconds;
}

void require_same_call(group& rank_group, const std::string& call) {
  if (auto status = check_same_call(rank_group.host_group(), call); !status)
    throw common_fault{status.error()};
}

// Returns the description of the tensor in memory. The options can change the dtype and the shape
// of the stored tensor.
tensor_info describe_loaded(const tensor_info& stored, const load_options& options) {
  tensor_info out = stored;
  const planned_tensor loaded = planned(stored, options);
  out.dtype = loaded.dtype;
  out.shape = loaded.shape;
  std::uint64_t elements = 1;
  for (const std::uint64_t size : out.shape) elements *= size;
  out.bytes = elements * bits(out.dtype) / 8;
  if (loaded.dtype != stored.dtype) {
    out.type.clear();
    out.original_shape.clear();
  }
  return out;
}

common_fault wrong_call(errc code, const tensor_info& info, std::string cause) {
  return {{code, tensor_place(info.name), std::move(cause)}};
}

}  // namespace

group_job::group_job(loader& rank_loader, std::shared_ptr<group> rank_group,
                     const group_options& options)
    : loader_(rank_loader),
      group_(std::move(rank_group)),
      options_(options),
      on_(loader_.device()),
      memory_(on_.maker()(on_.index())),
      cancellation_(
          std::make_shared<step_cancellation>([rank_group = group_] { rank_group->interrupt(); })) {
}

// Runs `work` as a step that `cancel` can cancel, and returns the result of `work`. If the step is
// cancelled or fails on this rank only, calls group::fail().
template <class T, class Work>
result<T> group_job::run_step(cancel_request& cancel, const Work& work) {
  bool is_common = false;
  auto done = catch_as_fault([&]() -> result<T> {
    try {
      cancellation_->begin(cancel);
      return work();
    } catch (const common_fault& failure) {
      is_common = true;
      return failure.cause;
    }
  });
  const bool is_cancelled = cancellation_->finish();
  return retry_allocation([&]() -> result<T> {
    if (is_cancelled) {
      group_->fail("its call was cancelled");
      return fault{boost::asio::error::operation_aborted, "group_load", "it was cancelled"};
    }
    if (!done && !is_common) group_->fail(message_of(done.error()));
    return std::move(done);
  });
}

result<void> group_job::open(const source& from, cancel_request& cancel) {
  return run_step<void>(cancel, [&]() -> result<void> {
    open_and_read(from);
    return {};
  });
}

result<tensor> group_job::make(const group_call& call, cancel_request& cancel) {
  return run_step<tensor>(cancel, [&]() -> result<tensor> {
    const auto tensors = agree_on(call);
    return run(call, tensors);
  });
}

result<model> group_job::make_model(const group_call& call, cancel_request& cancel) {
  return run_step<model>(cancel, [&]() -> result<model> {
    agree_on(call);
    return gather_model(call);
  });
}

// After this function has returned, all ranks have passed the same checks. Therefore each rank then
// sends the messages that the other ranks expect.
std::vector<group_job::named_tensor> group_job::agree_on(const group_call& call) {
  require_same_call(*group_, text_of(call));
  std::vector<named_tensor> tensors = find(call);
  check(call, tensors);
  return tensors;
}

void group_job::open_and_read(const source& from) {
  check_rank_load(on_, *group_, options_);
  file_ = cancellation_->wait_for<checkpoint>(
      [&](auto&& handler) { loader_.open_async(from, options_.load.open, std::move(handler)); });
  require_same_call(*group_, load_identity_text(file_.catalog(), options_));
  for (const unreadable_info& object : file_.catalog().unreadable) {
    if (!object.is_left_out) throw common_fault{{object.code, object.place, object.reason}};
  }
  const bool is_in_files = compare_files();
  if (options_.reading == group_reading::own) return;
  work_division division = {may_split(options_)};
  if (is_in_files) division.block_bytes_min = row_block_bytes_min;
  read(split_work(file_.catalog(), group_->size(), division));
  require_same_call(*group_, "end of reading");
}

// Compares the files of all ranks. Returns true if no rank reads the checkpoint from a store. All
// ranks return the same result, or throw the same error.
bool group_job::compare_files() {
  struct outcome {
    different_files difference;
    std::uint64_t is_from_store = 0;
  };
  group& messages = group_->host_group();
  rank_files own = describe_files(*file_.opened());
  outcome found;
  if (messages.rank() != 0) {
    messages.send(std::as_bytes(std::span(&own, 1)), 0);
  } else {
    std::vector<rank_files> files(messages.size());
    files.front() = own;
    for (std::uint32_t rank = 1; rank < messages.size(); ++rank)
      messages.receive(std::as_writable_bytes(std::span(&files[rank], 1)), rank);
    found.difference = find_different_files(files).value_or(different_files());
    found.is_from_store = std::ranges::count(files, 1U, &rank_files::from_store) > 0 ? 1 : 0;
  }
  messages.broadcast(std::as_writable_bytes(std::span(&found, 1)), 0);
  const auto& [rank, other_rank] = found.difference;
  if (rank == 0) return found.is_from_store == 0;
  throw common_fault{{errc::mismatched_call, "rank " + std::to_string(rank),
                      "it has opened another version of the files than rank " +
                          std::to_string(other_rank) +
                          ", because a file was replaced or modified while the ranks opened it"}};
}

void group_job::read(const std::vector<read_piece>& pieces) {
  selection rows;
  std::vector<std::string> whole;
  for (const read_piece& piece : pieces) {
    if (piece.rank != group_->rank()) continue;
    const std::string& name = file_.catalog().tensors[piece.tensor].name;
    if (piece.whole) {
      whole.push_back(name);
    } else {
      rows.slice(name, 0, piece.rows.begin, piece.rows.count);
    }
  }
  rows.names(std::move(whole));
  model own_pieces = load(rows);
  redistribution_.emplace(*group_, *memory_, pieces, std::move(own_pieces),
                          [this](const selection& again) { return load_alone(again); });
}

std::vector<group_job::named_tensor> group_job::find(const group_call& call) const {
  std::vector<named_tensor> tensors;
  for (const std::string& name : call.names) {
    const tensor_info* const found = file_.find(name);
    if (found == nullptr) throw common_fault{{errc::no_such_tensor, tensor_place(name)}};
    const auto index = static_cast<std::uint32_t>(found - file_.catalog().tensors.data());
    tensors.push_back({index, describe_loaded(*found, options_.load)});
  }
  return tensors;
}

void group_job::check(const group_call& call, const std::vector<named_tensor>& tensors) const {
  using enum group_call::call_kind;
  if (tensors.empty() && call.kind == fused)
    throw common_fault{{errc::invalid_selection, "fused", "the list of names is empty"}};
  if (call.kind == group_call::call_kind::model) return;
  const tensor_info& first = tensors.front().loaded;
  if (call.kind == push && call.receiver >= group_->size()) {
    throw wrong_call(errc::invalid_selection, first,
                     "rank is " + std::to_string(call.receiver) + ", expected less than " +
                         std::to_string(group_->size()));
  }
  if (call.kind != shard && call.kind != fused) return;
  for (const auto& [index, loaded] : tensors) {
    if (!around(loaded.shape, bits(loaded.dtype), call.dim)) {
      throw wrong_call(
          errc::invalid_selection, loaded,
          "dimension " + std::to_string(call.dim) +
              " does not exist, or the elements of one of its indices are not whole bytes");
    }
    if (options_.reading == group_reading::own) {
      const catalog& contents = file_.catalog();
      check_shard_blocks(contents, contents.tensors[index], loaded, call.dim, group_->size());
    }
    if (loaded.dtype != first.dtype) throw wrong_call(errc::wrong_dtype, loaded, {});
    std::vector<std::uint64_t> shape = loaded.shape;
    shape[call.dim] = shape.size() == first.shape.size() ? first.shape[call.dim] : 0;
    if (shape != first.shape) throw wrong_call(errc::wrong_shape, loaded, {});
  }
}

tensor group_job::run(const group_call& call, const std::vector<named_tensor>& tensors) {
  switch (call.kind) {
    case group_call::call_kind::tensor: return make_whole(tensors.front());
    case group_call::call_kind::push: return make_pushed(tensors.front(), call.receiver);
    case group_call::call_kind::shard: return make_shard(tensors.front(), call.dim);
    case group_call::call_kind::fused:
    case group_call::call_kind::model: break;
  }
  return make_fused(call, tensors);
}

tensor group_job::make_whole(const named_tensor& tensor_ref) {
  const std::string& name = tensor_ref.loaded.name;
  if (!redistribution_) return load_alone(select().names({name})).at(name);
  tensor_builder out = make_builder(tensor_ref.loaded);
  const gathered_tensor gathered = {tensor_ref.index, &tensor_ref.loaded, 0};
  redistribution_->gather({&gathered, 1}, out.bytes());
  return std::move(out).finish();
}

tensor group_job::make_pushed(const named_tensor& tensor_ref, std::uint32_t receiver) {
  if (group_->rank() != receiver) {
    if (redistribution_) redistribution_->push(tensor_ref.index, tensor_ref.loaded, receiver, {});
    return {};
  }
  if (!redistribution_) return make_whole(tensor_ref);
  tensor_builder out = make_builder(tensor_ref.loaded);
  redistribution_->push(tensor_ref.index, tensor_ref.loaded, receiver, out.bytes());
  return std::move(out).finish();
}

tensor_info group_job::block_info(const named_tensor& tensor_ref, std::uint32_t dim) const {
  tensor_info out = tensor_ref.loaded;
  const index_range own_range = block_of(out.shape[dim], group_->rank(), group_->size());
  out.bytes = around(out.shape, bits(out.dtype), dim)->bytes_of(own_range);
  out.shape[dim] = own_range.count;
  return out;
}

tensor group_job::make_shard(const named_tensor& tensor_ref, std::uint32_t dim) {
  tensor block = make_block(tensor_ref, dim);
  if (has_own_block(tensor_ref, dim)) redistribution_->lend(tensor_ref.index);
  return block;
}

// Returns true if `dim` is 0 and each rank has read exactly its own block of the tensor. The result
// is the same on all ranks.
bool group_job::has_own_block(const named_tensor& tensor_ref, std::uint32_t dim) const noexcept {
  return dim == 0 && redistribution_ &&
         redistribution_->is_in_blocks(tensor_ref.index, tensor_ref.loaded);
}

tensor group_job::make_block(const named_tensor& tensor_ref, std::uint32_t dim) {
  if (has_own_block(tensor_ref, dim)) {
    if (tensor block = redistribution_->own_block(tensor_ref.index, tensor_ref.loaded))
      return block;
  }
  const tensor_info info = block_info(tensor_ref, dim);
  const index_range range = block_of(tensor_ref.loaded.shape[dim], group_->rank(), group_->size());
  // The shape of a quantised tensor counts bytes, and so does `range`. A slice of the tensor would
  // count elements. All ranks must fail, also a rank whose range is empty.
  if (!redistribution_ && !tensor_ref.loaded.original_shape.empty()) {
    throw common_fault{{errc::unsupported_feature, tensor_place(info.name),
                        "group_reading::own cannot divide its bytes, which are " + info.type +
                            " blocks: load it with a dtype, or use group_reading::divided"}};
  }
  if (!redistribution_ && range.count > 0) {
    // `select()` without names selects all tensors, so an empty list of names is set first.
    return load_alone(select().names({}).slice(info.name, dim, range.begin, range.count))
        .at(info.name);
  }
  tensor_builder out = make_builder(info);
  if (redistribution_)
    redistribution_->gather_shard(tensor_ref.index, tensor_ref.loaded, dim, out.bytes());
  return std::move(out).finish();
}

tensor group_job::make_fused(const group_call& call, const std::vector<named_tensor>& tensors) {
  tensor_info info = block_info(tensors.front(), call.dim);
  info.name = call.fused_name;
  info.shape[call.dim] = 0;
  info.bytes = 0;
  std::vector<tensor> parts;
  for (const named_tensor& tensor_ref : tensors) {
    parts.push_back(make_block(tensor_ref, call.dim));
    info.shape[call.dim] += parts.back().shape()[call.dim];
    info.bytes += parts.back().size_bytes();
  }
  tensor_builder out = make_builder(info);
  const dimension_bytes around_dim = *around(info.shape, bits(info.dtype), call.dim);
  index_range next;
  std::vector<row_copy> copies;
  for (const tensor& part : parts) {
    next = {next.end(), part.shape()[call.dim]};
    const auto* const from = static_cast<const std::byte*>(part.data());
    copies.push_back(put_block(from, next, around_dim, out.bytes().data()));
  }
  copy_rows_in(*memory_, copies);
  return std::move(out).finish();
}

model group_job::load(const selection& wanted) {
  load_options options = options_.load;
  options.select = wanted;
  return cancellation_->wait_for<model>(
      [&](auto&& handler) { loader_.load_async(file_, options, std::move(handler)); });
}

model group_job::gather_model(const group_call& call) {
  if (!redistribution_) return load_alone(select().names(call.names));
  catalog contents = chosen(file_.catalog(), select().names(call.names));
  std::vector<gathered_tensor> gathered;
  std::vector<placement> placements;
  const std::uint64_t alignment =
      std::max<std::uint64_t>(gathered_alignment, memory_->rules().tensor_alignment);
  std::uint64_t bytes = 0;
  for (tensor_info& info : contents.tensors) {
    info = describe_loaded(info, options_.load);
    const auto index =
        static_cast<std::uint32_t>(file_.find(info.name) - file_.catalog().tensors.data());
    gathered.push_back({index, &info, static_cast<std::size_t>(bytes)});
    placement& place = placements.emplace_back();
    place.destination_offset = bytes;
    place.bytes = info.bytes;
    bytes = round_up<std::uint64_t>(bytes + info.bytes, alignment);
  }
  auto memory = allocate_one(*memory_, bytes);
  redistribution_->gather(gathered, {memory->data(), static_cast<std::size_t>(bytes)});
  std::vector<taken_arena> arenas;
  arenas.push_back({std::move(memory), bytes, false, on_});
  auto storage = make_model_storage(std::move(contents), std::move(placements), std::move(arenas));
  storage->stats = stats();
  return model(std::move(storage));
}

model group_job::load_alone(const selection& wanted) {
  model loaded = load(wanted);
  const std::lock_guard lock(mutex_);
  add(own_reads_, loaded.stats());
  return loaded;
}

load_stats group_job::stats() const {
  load_stats sum;
  if (redistribution_) sum = redistribution_->own_pieces().stats();
  const std::lock_guard lock(mutex_);
  add(sum, own_reads_);
  return sum;
}

tensor_builder group_job::make_builder(tensor_info info) const {
  return {std::move(info), on_, *memory_};
}

}  // namespace ringload::inline v0::detail
