// SPDX-License-Identifier: Apache-2.0
#include "ranks/group_job.hpp"

#include <boost/asio/error.hpp>
#include <cerrno>
#include <new>
#include <ringload/verify.hpp>
#include <ringload/writer.hpp>
#include <system_error>
#include <utility>

#include "core/attempt.hpp"
#include "core/packing.hpp"
#include "formats/printable.hpp"
#include "ranks/agreement.hpp"

namespace ringload::inline v0::detail {

namespace {

// What is the same on all ranks, and so ends nothing.
struct same_on_all {
  fault why;
};

void agree_on(group& all, const std::string& does) {
  if (auto same = agree(all, does); !same) throw same_on_all{same.error()};
}

// The same for two catalogs exactly where their tensors are, wherever the files lie.
std::string identity_of(const catalog& all, const group_options& how) {
  packer to;
  for (const tensor_info& t : all.tensors) {
    to.text(t.name);
    to.number(t.dtype);
    to.list(t.shape, [](packer& p, const std::uint64_t& size) { p.number(size); });
    to.list(t.original_shape, [](packer& p, const std::uint64_t& size) { p.number(size); });
    to.number(t.bytes);
    to.number(t.stored_bytes);
    to.text(t.encoding);
    to.text(t.type);
    const planned_tensor lands = planned(t, how.load);
    to.number(lands.dtype);
  }
  return "load " + grouped(all.tensors.size()) + " tensors of " + grouped(all.bytes()) +
         " bytes, whose description has the CRC-32C " + std::to_string(crc32c(to.take())) +
         (how.reading == group_reading::own ? ", each rank its own" : ", divided");
}

// "shard('wte.weight', 0)"
std::string text_of(const group_call& what) {
  using enum group_call::what;
  const char* const names[] = {"tensor", "shard", "fused", "push"};
  std::string text = std::string(names[static_cast<unsigned>(what.kind)]) + "(";
  if (what.kind == fused) text += "'" + what.as + "' of ";
  for (const std::string& each : what.names) {
    text += (&each == &what.names.front() ? "'" : ", '") + each + "'";
  }
  if (what.kind == shard || what.kind == fused) text += ", " + std::to_string(what.dim);
  if (what.kind == push) text += ", " + std::to_string(what.to);
  return text + ")";
}

tensor_info as_it_lands(const tensor_info& of, const load_options& how) {
  tensor_info out = of;
  const planned_tensor lands = planned(of, how);
  out.dtype = lands.dtype;
  out.shape = lands.shape;
  std::uint64_t elements = 1;
  for (const std::uint64_t size : out.shape) elements *= size;
  out.bytes = elements * bits(out.dtype) / 8;
  if (lands.dtype != of.dtype) {
    out.type.clear();
    out.original_shape.clear();
  }
  return out;
}

void check_options(const loader& with, const group& all, const load_options& how) {
  if (all.memory() != device_kind::host) {
    throw error(errc::device_unavailable, "group_load", "the group is not of memory of the host");
  }
  if (with.device().kind() != device_kind::host) {
    throw error(
        errc::device_unavailable, "group_load",
        "ranks exchange memory of the host, and the loader's device is " + with.device().name());
  }
  if (how.window_bytes > 0 || how.memory != tensor_memory::owned) {
    throw error(errc::invalid_limits, "group_load",
                "ranks load neither through a window nor mapped files");
  }
  if (how.verify.listed != nullptr) {
    throw error(errc::digest_unavailable, "group_load",
                "a manifest is of whole checkpoints, and a rank reads a part");
  }
}

same_on_all wrong_call(errc code, const tensor_info& of, std::string cause) {
  return {{code, tensor_place(of.name), std::move(cause)}};
}

}  // namespace

group_job::group_job(loader& with, std::shared_ptr<group> ranks, const group_options& how)
    : with_(with),
      all_(std::move(ranks)),
      how_(how),
      memory_(host().maker()(0)),
      stop_(std::make_shared<interruption>(all_)) {}

// What `work` returns. If it fails on this rank alone, that ends the group.
template <class T, class Work>
result<T> group_job::guarded(cancel_request& by, const Work& work) {
  bool same = false;
  auto done = attempt([&]() -> result<T> {
    try {
      stop_->begin(by);
      return work();
    } catch (const same_on_all& wrong) {
      same = true;
      return wrong.why;
    }
  });
  if (stop_->finish()) {
    all_->fail("its call was cancelled");
    return fault{boost::asio::error::operation_aborted, "group_load", "it was cancelled"};
  }
  if (!done && !same) all_->fail(to_error(done.error()).what());
  return done;
}

result<void> group_job::open(const std::string& source, cancel_request& by) {
  return guarded<void>(by, [&]() -> result<void> {
    open_and_read(source);
    return {};
  });
}

result<tensor> group_job::make(const group_call& what, cancel_request& by) {
  return guarded<tensor>(by, [&]() -> result<tensor> {
    agree_on(*all_, text_of(what));
    const auto of = find(what);
    check(what, of);
    // All ranks do the same from here on: nothing below is refused by one and not by another.
    return carry_out(what, of);
  });
}

void group_job::open_and_read(const std::string& source) {
  check_options(with_, *all_, how_.load);
  file_ = stop_->wait_for<checkpoint>(
      [&](auto&& handler) { with_.open_async(source, std::move(handler)); });
  agree_on(*all_, identity_of(file_.catalog(), how_));
  for (const unreadable_info& each : file_.catalog().unreadable) {
    if (!each.is_left_out) throw same_on_all{{each.code, each.place, each.reason}};
  }
  if (how_.reading == group_reading::own) return;
  // Digests are of whole tensors.
  const bool cut = how_.load.verify.stored == stored_digests::none;
  read(divided(file_.catalog(), all_->size(), cut));
  agree_on(*all_, "have read its part");
}

void group_job::read(const std::vector<read_piece>& pieces) {
  selection mine;
  std::vector<std::string> whole;
  for (const read_piece& each : pieces) {
    if (each.rank != all_->rank()) continue;
    const std::string& name = file_.catalog().tensors[each.tensor].name;
    if (each.whole) {
      whole.push_back(name);
    } else {
      mine.slice(name, 0, each.rows.begin, each.rows.count);
    }
  }
  mine.names(std::move(whole));
  model own = stop_->wait_for<model>(
      [&](auto&& handler) { with_.load_async(file_, mine, how_.load, std::move(handler)); });
  exchange_.emplace(*all_, pieces, std::move(own));
}

std::vector<group_job::named_tensor> group_job::find(const group_call& what) const {
  std::vector<named_tensor> all;
  for (const std::string& name : what.names) {
    const tensor_info* const found = file_.find(name);
    if (found == nullptr) throw same_on_all{{errc::no_such_tensor, tensor_place(name)}};
    const auto index = static_cast<std::uint32_t>(found - file_.catalog().tensors.data());
    all.push_back({index, as_it_lands(*found, how_.load)});
  }
  return all;
}

void group_job::check(const group_call& what, const std::vector<named_tensor>& of) const {
  using enum group_call::what;
  if (of.empty()) throw same_on_all{{errc::no_such_tensor, "fused", "no tensor is named"}};
  const tensor_info& first = of.front().landed;
  if (what.kind == push && what.to >= all_->size()) {
    throw wrong_call(errc::invalid_selection, first, "there is no rank " + std::to_string(what.to));
  }
  if (what.kind != shard && what.kind != fused) return;
  for (const auto& [index, landed] : of) {
    if (!around(landed.shape, bits(landed.dtype), what.dim)) {
      throw wrong_call(errc::invalid_selection, landed,
                       "it cannot be divided along dimension " + std::to_string(what.dim));
    }
    if (landed.dtype != first.dtype) throw wrong_call(errc::wrong_dtype, landed, {});
    std::vector<std::uint64_t> shape = landed.shape;
    shape[what.dim] = shape.size() == first.shape.size() ? first.shape[what.dim] : 0;
    if (shape != first.shape) throw wrong_call(errc::wrong_shape, landed, {});
  }
}

tensor group_job::carry_out(const group_call& what, const std::vector<named_tensor>& of) {
  switch (what.kind) {
    case group_call::what::tensor: return whole(of.front());
    case group_call::what::push: return pushed(of.front(), what.to);
    case group_call::what::shard: return block(of.front(), what.dim);
    case group_call::what::fused: break;
  }
  return fused(what, of);
}

tensor group_job::whole(const named_tensor& one) {
  if (!exchange_) return load_alone(select().names({one.landed.name}), one.landed.name);
  new_tensor out = make_new(one.landed);
  exchange_->whole(one.index, out);
  return std::move(out).finish();
}

tensor group_job::pushed(const named_tensor& one, std::uint32_t to) {
  if (all_->rank() != to) {
    if (exchange_) exchange_->push(one.index, one.landed, to, {});
    return {};
  }
  if (!exchange_) return whole(one);
  new_tensor out = make_new(one.landed);
  exchange_->push(one.index, one.landed, to, out.bytes());
  return std::move(out).finish();
}

tensor_info group_job::block_info(const named_tensor& one, std::uint32_t dim) const {
  tensor_info out = one.landed;
  const index_range own = block_of(out.shape[dim], all_->rank(), all_->size());
  out.bytes = around(out.shape, bits(out.dtype), dim)->bytes_of(own);
  out.shape[dim] = own.count;
  return out;
}

tensor group_job::block(const named_tensor& one, std::uint32_t dim) {
  const tensor_info own = block_info(one, dim);
  const index_range range = block_of(one.landed.shape[dim], all_->rank(), all_->size());
  if (!exchange_ && range.count > 0) {
    // Without names a selection is of all tensors.
    return load_alone(select().names({}).slice(own.name, dim, range.begin, range.count), own.name);
  }
  new_tensor out = make_new(own);
  if (exchange_) exchange_->block(one.index, one.landed, dim, out.bytes());
  return std::move(out).finish();
}

tensor group_job::fused(const group_call& what, const std::vector<named_tensor>& of) {
  tensor_info all = block_info(of.front(), what.dim);
  all.name = what.as;
  all.shape[what.dim] = 0;
  all.bytes = 0;
  std::vector<tensor> parts;
  for (const named_tensor& each : of) {
    parts.push_back(block(each, what.dim));
    all.shape[what.dim] += parts.back().shape()[what.dim];
    all.bytes += parts.back().bytes();
  }
  new_tensor out = make_new(all);
  const dimension_bytes around_dim = *around(all.shape, bits(all.dtype), what.dim);
  index_range next;
  for (const tensor& part : parts) {
    next = {next.end(), part.shape()[what.dim]};
    put_block(static_cast<const std::byte*>(part.data()), next, around_dim, out.bytes().data());
  }
  return std::move(out).finish();
}

tensor group_job::load_alone(const selection& wanted, const std::string& name) {
  const model made = stop_->wait_for<model>(
      [&](auto&& handler) { with_.load_async(file_, wanted, how_.load, std::move(handler)); });
  const load_stats& of = made.stats();
  const std::lock_guard lock(mutex_);
  own_reads_.bytes += of.bytes;
  own_reads_.bytes_total += of.bytes_total;
  own_reads_.bytes_direct += of.bytes_direct;
  own_reads_.bytes_buffered += of.bytes_buffered;
  own_reads_.bytes_remote += of.bytes_remote;
  own_reads_.reads += of.reads;
  own_reads_.seconds += of.seconds;
  return made.at(name);
}

load_stats group_job::stats() const {
  if (exchange_) return exchange_->own().stats();
  const std::lock_guard lock(mutex_);
  return own_reads_;
}

new_tensor group_job::make_new(tensor_info what) {
  auto made = new_tensor::make(std::move(what), *memory_);
  if (!made) throw to_error(made.error());
  return std::move(*made);
}

}  // namespace ringload::inline v0::detail
