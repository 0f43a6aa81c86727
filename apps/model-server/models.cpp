// SPDX-License-Identifier: Apache-2.0
#include "models.hpp"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/system_executor.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <future>
#include <ringload/delta.hpp>
#include <utility>

#include "device.hpp"
#include "extensions.hpp"
#include "output.hpp"

namespace ringload::server {

namespace asio = boost::asio;

namespace {

// A new thread inherits the niceness of its creator. Therefore a thread with the niceness for the
// loader's threads creates the loader.
std::unique_ptr<loader> make_loader(const settings& from) {
  auto made = std::async(std::launch::async, [&from] {
    // On Linux, niceness is a property of a thread. An increase needs no privilege.
    (void)::nice(from.load_nice);
    const device target = from.keep.empty() ? tool::device_named(from.device) : shared_host();
    std::vector<extension> with = tool::extensions();
    if (!from.allowed_hosts.empty()) with.push_back(tool::network_of(from.allowed_hosts));
    return std::make_unique<loader>(target, from.options, with);
  });
  return made.get();
}

load_options options_from(const settings& from) {
  load_options how;
  how.dtype = from.dtype;
  return how;
}

std::unique_ptr<keeper> make_keeper(const settings& from) {
  return from.keep.empty() ? nullptr : std::make_unique<keeper>(from.keep);
}

// The seal takes milliseconds, so it is made in another thread while the server's thread answers
// requests.
asio::awaitable<void> publish(keeper& to, std::string id, model loaded) {
  keeper& keeps = to;
  keeps.publish(id, loaded);
  co_return;
}

asio::awaitable<model> load_source(loader& with, load_options how, std::shared_ptr<attempt> into) {
  const std::string source = into->order.source;
  auto file = co_await with.open_async(source);
  how.select = tool::selection_of(into->order.wanted, file.catalog());
  auto started = co_await with.start_async(file, how);
  into->load = std::move(started);
  // The catalog is known, and clients may ask for single tensors from now on.
  if (into->state == load_state::opening) into->state = load_state::loading;
  auto loaded = co_await into->load.finish_async();
  co_return loaded;
}

asio::awaitable<model> load_version(loader& with, std::shared_ptr<attempt> into) {
  const std::string delta = into->order.source;
  apply_options options;
  options.allocation = allocation::per_load;  // The keeper serves models with few allocations.
  auto next = co_await apply_async(with, *into->order.base, delta, options);
  co_return next;
}

asio::awaitable<void> load_model(loader& with, load_options how, std::shared_ptr<attempt> into,
                                 keeper* keeps, std::string id) {
  const bool is_version = into->order.base.has_value();
  auto pending = is_version ? load_version(with, into) : load_source(with, how, into);
  auto loaded = co_await std::move(pending);
  if (keeps != nullptr) {
    co_await asio::co_spawn(asio::system_executor(), publish(*keeps, id, loaded),
                            asio::use_awaitable);
  }
  into->loaded = std::move(loaded);
}

std::string words_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& problem) {
    return problem.what();
  }
}

}  // namespace

std::string_view name(load_state state) noexcept {
  switch (state) {
    case load_state::opening: return "opening";
    case load_state::loading: return "loading";
    case load_state::cancelling: return "cancelling";
    case load_state::ready: return "ready";
    case load_state::failed: return "failed";
    case load_state::cancelled: return "cancelled";
  }
  return "";
}

bool is_model_id(std::string_view id) noexcept {
  return !id.empty() && id.size() <= 64 && std::ranges::all_of(id, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
  });
}

bool attempt::under_way() const noexcept {
  return state == load_state::opening || state == load_state::loading ||
         state == load_state::cancelling;
}

load_stats attempt::progress() const {
  if (state == load_state::loading) return load.progress();
  return end;
}

const ringload::catalog* entry::catalog() const noexcept {
  if (served) return &served->loaded.catalog();
  if (latest->state == load_state::loading) return &latest->load.catalog();
  return nullptr;
}

models::models(asio::any_io_executor executor, const settings& from)
    : executor_(std::move(executor)),
      models_max_(from.models_max),
      loads_max_(from.loads_max),
      how_(options_from(from)),
      keeper_(make_keeper(from)),
      loader_(make_loader(from)) {}

start_result models::start(const std::string& id, load_order what) {
  if (closing_) return start_result::closing;
  const auto found = entries_.find(id);
  if (found != entries_.end() && found->second->latest->under_way()) {
    // The successor is counted in loads_ instead of this load.
    found->second->next = std::move(what);
    found->second->removed = false;
    stop(*found->second);
    return start_result::started;
  }
  if (loads_ == loads_max_) return start_result::too_many_loads;
  if (found != entries_.end()) {
    run(found->second, std::move(what));
    return start_result::started;
  }
  if (entries_.size() == models_max_) return start_result::too_many_models;
  auto added = std::make_shared<entry>(id);
  entries_.emplace(id, added);
  run(added, std::move(what));
  return start_result::started;
}

remove_result models::remove(const std::string& id) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return remove_result::absent;
  const std::shared_ptr<entry> of = found->second;
  if (keeper_) keeper_->withdraw(id);
  of->served.reset();
  of->next.reset();
  of->removed = true;
  if (of->latest->under_way()) {
    stop(*of);
    return remove_result::cancelling;
  }
  entries_.erase(found);
  return remove_result::removed;
}

std::shared_ptr<entry> models::find(const std::string& id) const {
  const auto found = entries_.find(id);
  return found == entries_.end() ? nullptr : found->second;
}

std::string models::free_id() {
  std::string id;
  do {
    ++last_id_;
    id = "m" + std::to_string(last_id_);
  } while (entries_.contains(id));
  return id;
}

void models::close(std::function<void()> when_idle) {
  closing_ = true;
  when_idle_ = std::move(when_idle);
  for (const auto& [id, of] : entries_) {
    of->next.reset();
    stop(*of);
  }
}

void models::run(const std::shared_ptr<entry>& of, load_order what) {
  ++loads_;
  of->latest = std::make_shared<attempt>(std::move(what));
  asio::co_spawn(
      executor_, load_model(*loader_, how_, of->latest, keeper_.get(), of->id),
      asio::bind_cancellation_slot(of->latest->cancel.slot(),
                                   [this, of](std::exception_ptr failure) { ended(of, failure); }));
}

void models::ended(const std::shared_ptr<entry>& of, const std::exception_ptr& failure) {
  attempt& last = *of->latest;
  // A cancellation that arrives after the end of the load is still obeyed.
  const bool cancelled = last.state == load_state::cancelling;
  --loads_;
  if (cancelled) {
    last.state = load_state::cancelled;
    last.loaded = model();
    ++counts_.cancelled;
  } else if (failure) {
    last.state = load_state::failed;
    last.problem = words_of(failure);
    ++counts_.failed;
    // This line is for the operator of the server. Clients see the state of the model.
    tool::complain("model-server", "error: " + of->id + ": " + last.problem);
  } else {
    last.state = load_state::ready;
    last.end = last.loaded.stats();
    // Replies copy the tensors to the host, so no work on the device uses them.
    if (last.loaded.size() > 0) tool::release(last.loaded[0]);
    // The previous model is freed when the last reply that uses it has been sent.
    of->served = of->latest;
    ++counts_.ready;
    counts_.bytes += last.end.bytes;
  }
  last.load = load_operation();
  last.order.base.reset();  // The previous version is freed when no reply uses it.

  if (of->next) {
    load_order next = std::move(*of->next);
    of->next.reset();
    run(of, std::move(next));
  } else if (of->removed) {
    entries_.erase(of->id);
  }
  if (closing_ && idle()) when_idle_();
}

void models::stop(const entry& of) {
  attempt& last = *of.latest;
  if (last.state != load_state::opening && last.state != load_state::loading) return;
  last.end = last.progress();
  last.state = load_state::cancelling;
  last.cancel.emit(asio::cancellation_type::terminal);
}

}  // namespace ringload::server
