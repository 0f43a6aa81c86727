// SPDX-License-Identifier: Apache-2.0
#include "ranks/group_job.hpp"

#include <boost/asio/error.hpp>
#include <cerrno>
#include <new>
#include <ringload/verify.hpp>
#include <ringload/writer.hpp>
#include <system_error>
#include <utility>

#include "base/catch_as_fault.hpp"
#include "base/printable.hpp"
#include "base/serialize.hpp"
#include "ranks/check_same_call.hpp"

namespace ringload::inline v0::detail {

namespace {

// A fault that is the same on all ranks, so it does not end the group.
struct common_fault {
  fault cause;
};

void agree_on(group& ranks, const std::string& call) {
  if (auto status = agree(ranks, call); !status) throw common_fault{status.error()};
}

// Returns equal texts for two catalogs if and only if their tensors are equal, wherever the files
// are.
std::string identity_of(const catalog& contents, const group_options& options) {
  packer to;
  for (const tensor_info& t : contents.tensors) {
    to.text(t.name);
    to.number(t.dtype);
    to.list(t.shape, [](packer& p, const std::uint64_t& size) { p.number(size); });
    to.list(t.original_shape, [](packer& p, const std::uint64_t& size) { p.number(size); });
    to.number(t.bytes);
    to.number(t.stored_bytes);
    to.text(t.encoding);
    to.text(t.type);
    const planned_tensor lands = planned(t, options.load);
    to.number(lands.dtype);
  }
  return "load " + grouped(contents.tensors.size()) + " tensors of " +
         grouped(contents.size_bytes()) + " bytes, whose description has the CRC-32C " +
         std::to_string(crc32c(to.take())) +
         (options.reading == group_reading::own ? ", each rank its own" : ", divided");
}

// Formats a call as "shard('wte.weight', 0)".
std::string text_of(const group_call& call) {
  using enum group_call::what;
  const char* const names[] = {"tensor", "shard", "fused", "push"};
  std::string text = std::string(names[static_cast<unsigned>(call.kind)]) + "(";
  if (call.kind == fused) text += "'" + call.fused_name + "' of ";
  for (const std::string& name : call.names) {
    text += (&name == &call.names.front() ? "'" : ", '") + name + "'";
  }
  if (call.kind == shard || call.kind == fused) text += ", " + std::to_string(call.dim);
  if (call.kind == push) text += ", " + std::to_string(call.to);
  return text + ")";
}

tensor_info as_it_lands(const tensor_info& stored, const load_options& options) {
  tensor_info out = stored;
  const planned_tensor lands = planned(stored, options);
  out.dtype = lands.dtype;
  out.shape = lands.shape;
  std::uint64_t elements = 1;
  for (const std::uint64_t size : out.shape) elements *= size;
  out.bytes = elements * bits(out.dtype) / 8;
  if (lands.dtype != stored.dtype) {
    out.type.clear();
    out.original_shape.clear();
  }
  return out;
}

void check_options(const loader& host_loader, const group& ranks, const load_options& options) {
  if (ranks.memory() != device_kind::host) {
    throw error(errc::device_unavailable, "group_load",
                "the group is for device memory, expected a group for host memory");
  }
  if (host_loader.device().kind() != device_kind::host) {
    throw error(errc::device_unavailable, "group_load",
                "the loader's device is " + host_loader.device().name() + ", expected the host");
  }
  if (options.window_bytes > 0 || options.memory != tensor_memory::owned) {
    throw error(errc::invalid_options, "group_load",
                "window_bytes and mapped memory cannot be used with a group");
  }
  if (options.verify.checksums != nullptr) {
    throw error(errc::digest_unavailable, "group_load",
                "a manifest covers whole checkpoints, but each rank reads only a part");
  }
}

common_fault wrong_call(errc code, const tensor_info& info, std::string cause) {
  return {{code, tensor_place(info.name), std::move(cause)}};
}

}  // namespace

group_job::group_job(loader& host_loader, std::shared_ptr<group> ranks,
                     const group_options& options)
    : loader_(host_loader),
      ranks_(std::move(ranks)),
      options_(options),
      memory_(host().maker()(0)),
      stop_(std::make_shared<interruption>(ranks_)) {}

// Returns the result of `work`. A failure of this rank only ends the group.
template <class T, class Work>
result<T> group_job::guarded(cancel_request& cancel, const Work& work) {
  bool is_common = false;
  auto done = catch_as_fault([&]() -> result<T> {
    try {
      stop_->begin(cancel);
      return work();
    } catch (const common_fault& wrong) {
      is_common = true;
      return wrong.cause;
    }
  });
  if (stop_->finish()) {
    ranks_->fail("its call was cancelled");
    return fault{boost::asio::error::operation_aborted, "group_load", "it was cancelled"};
  }
  if (!done && !is_common) ranks_->fail(to_error(done.error()).what());
  return done;
}

result<void> group_job::open(const std::string& source, cancel_request& cancel) {
  return guarded<void>(cancel, [&]() -> result<void> {
    open_and_read(source);
    return {};
  });
}

result<tensor> group_job::make(const group_call& call, cancel_request& cancel) {
  return guarded<tensor>(cancel, [&]() -> result<tensor> {
    agree_on(*ranks_, text_of(call));
    const auto tensors = find(call);
    check(call, tensors);
    // From here on all ranks do the same: no rank refuses a step that another rank makes.
    return carry_out(call, tensors);
  });
}

void group_job::open_and_read(const std::string& source) {
  check_options(loader_, *ranks_, options_.load);
  file_ = stop_->wait_for<checkpoint>(
      [&](auto&& handler) { loader_.open_async(source, std::move(handler)); });
  agree_on(*ranks_, identity_of(file_.catalog(), options_));
  for (const unreadable_info& object : file_.catalog().unreadable) {
    if (!object.is_left_out) throw common_fault{{object.code, object.place, object.reason}};
  }
  if (options_.reading == group_reading::own) return;
  // Digests cover whole tensors.
  const bool cut = options_.load.verify.stored == embedded_digests::none;
  read(divided(file_.catalog(), ranks_->size(), cut));
  agree_on(*ranks_, "end of reading");
}

void group_job::read(const std::vector<read_piece>& pieces) {
  selection rows;
  std::vector<std::string> whole;
  for (const read_piece& piece : pieces) {
    if (piece.rank != ranks_->rank()) continue;
    const std::string& name = file_.catalog().tensors[piece.tensor].name;
    if (piece.whole) {
      whole.push_back(name);
    } else {
      rows.slice(name, 0, piece.rows.begin, piece.rows.count);
    }
  }
  rows.names(std::move(whole));
  model own_pieces = stop_->wait_for<model>(
      [&](auto&& handler) { loader_.load_async(file_, rows, options_.load, std::move(handler)); });
  exchange_.emplace(*ranks_, pieces, std::move(own_pieces));
}

std::vector<group_job::named_tensor> group_job::find(const group_call& call) const {
  std::vector<named_tensor> tensors;
  for (const std::string& name : call.names) {
    const tensor_info* const found = file_.find(name);
    if (found == nullptr) throw common_fault{{errc::no_such_tensor, tensor_place(name)}};
    const auto index = static_cast<std::uint32_t>(found - file_.catalog().tensors.data());
    tensors.push_back({index, as_it_lands(*found, options_.load)});
  }
  return tensors;
}

void group_job::check(const group_call& call, const std::vector<named_tensor>& tensors) const {
  using enum group_call::what;
  if (tensors.empty())
    throw common_fault{{errc::no_such_tensor, "fused", "the list of names is empty"}};
  const tensor_info& first = tensors.front().landed;
  if (call.kind == push && call.to >= ranks_->size()) {
    throw wrong_call(errc::invalid_selection, first,
                     "rank is " + std::to_string(call.to) + ", expected less than " +
                         std::to_string(ranks_->size()));
  }
  if (call.kind != shard && call.kind != fused) return;
  for (const auto& [index, landed] : tensors) {
    if (!around(landed.shape, bits(landed.dtype), call.dim)) {
      throw wrong_call(errc::invalid_selection, landed,
                       "dimension " + std::to_string(call.dim) +
                           " does not exist, or its indices are not whole bytes");
    }
    if (landed.dtype != first.dtype) throw wrong_call(errc::wrong_dtype, landed, {});
    std::vector<std::uint64_t> shape = landed.shape;
    shape[call.dim] = shape.size() == first.shape.size() ? first.shape[call.dim] : 0;
    if (shape != first.shape) throw wrong_call(errc::wrong_shape, landed, {});
  }
}

tensor group_job::carry_out(const group_call& call, const std::vector<named_tensor>& tensors) {
  switch (call.kind) {
    case group_call::what::tensor: return whole(tensors.front());
    case group_call::what::push: return pushed(tensors.front(), call.to);
    case group_call::what::shard: return block(tensors.front(), call.dim);
    case group_call::what::fused: break;
  }
  return fused(call, tensors);
}

tensor group_job::whole(const named_tensor& tensor_ref) {
  if (!exchange_)
    return load_alone(select().names({tensor_ref.landed.name}), tensor_ref.landed.name);
  tensor_builder out = make_new(tensor_ref.landed);
  exchange_->whole(tensor_ref.index, out);
  return std::move(out).finish();
}

tensor group_job::pushed(const named_tensor& tensor_ref, std::uint32_t to) {
  if (ranks_->rank() != to) {
    if (exchange_) exchange_->push(tensor_ref.index, tensor_ref.landed, to, {});
    return {};
  }
  if (!exchange_) return whole(tensor_ref);
  tensor_builder out = make_new(tensor_ref.landed);
  exchange_->push(tensor_ref.index, tensor_ref.landed, to, out.bytes());
  return std::move(out).finish();
}

tensor_info group_job::block_info(const named_tensor& tensor_ref, std::uint32_t dim) const {
  tensor_info out = tensor_ref.landed;
  const index_range own_range = block_of(out.shape[dim], ranks_->rank(), ranks_->size());
  out.bytes = around(out.shape, bits(out.dtype), dim)->bytes_of(own_range);
  out.shape[dim] = own_range.count;
  return out;
}

tensor group_job::block(const named_tensor& tensor_ref, std::uint32_t dim) {
  const tensor_info info = block_info(tensor_ref, dim);
  const index_range range = block_of(tensor_ref.landed.shape[dim], ranks_->rank(), ranks_->size());
  if (!exchange_ && range.count > 0) {
    // A selection without names would select all tensors.
    return load_alone(select().names({}).slice(info.name, dim, range.begin, range.count),
                      info.name);
  }
  tensor_builder out = make_new(info);
  if (exchange_) exchange_->block(tensor_ref.index, tensor_ref.landed, dim, out.bytes());
  return std::move(out).finish();
}

tensor group_job::fused(const group_call& call, const std::vector<named_tensor>& tensors) {
  tensor_info info = block_info(tensors.front(), call.dim);
  info.name = call.fused_name;
  info.shape[call.dim] = 0;
  info.bytes = 0;
  std::vector<tensor> parts;
  for (const named_tensor& tensor_ref : tensors) {
    parts.push_back(block(tensor_ref, call.dim));
    info.shape[call.dim] += parts.back().shape()[call.dim];
    info.bytes += parts.back().size_bytes();
  }
  tensor_builder out = make_new(info);
  const dimension_bytes around_dim = *around(info.shape, bits(info.dtype), call.dim);
  index_range next;
  for (const tensor& part : parts) {
    next = {next.end(), part.shape()[call.dim]};
    put_block(static_cast<const std::byte*>(part.data()), next, around_dim, out.bytes().data());
  }
  return std::move(out).finish();
}

tensor group_job::load_alone(const selection& wanted, const std::string& name) {
  const model loaded = stop_->wait_for<model>([&](auto&& handler) {
    loader_.load_async(file_, wanted, options_.load, std::move(handler));
  });
  const load_stats& stats = loaded.stats();
  const std::lock_guard lock(mutex_);
  own_reads_.bytes += stats.bytes;
  own_reads_.bytes_total += stats.bytes_total;
  own_reads_.bytes_direct += stats.bytes_direct;
  own_reads_.bytes_buffered += stats.bytes_buffered;
  own_reads_.bytes_remote += stats.bytes_remote;
  own_reads_.reads += stats.reads;
  own_reads_.seconds += stats.seconds;
  return loaded.at(name);
}

load_stats group_job::stats() const {
  if (exchange_) return exchange_->own_pieces().stats();
  const std::lock_guard lock(mutex_);
  return own_reads_;
}

tensor_builder group_job::make_new(tensor_info info) {
  auto built = tensor_builder::make(std::move(info), *memory_);
  if (!built) throw to_error(built.error());
  return std::move(*built);
}

}  // namespace ringload::inline v0::detail
