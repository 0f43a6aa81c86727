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

// Creates the loader in a temporary thread with the niceness `from.load_nice`, because the threads
// of the loader inherit the niceness of the thread that starts them.
std::unique_ptr<loader> make_loader(const settings& from) {
  auto created = std::async(std::launch::async, [&from] {
    // On Linux, niceness is a property of a thread. An increase needs no privilege.
    (void)::nice(from.load_nice);
    const device target = from.keep.empty() ? tool::device_named(from.device) : shared_host();
    std::vector<extension> extensions = tool::extensions();
    if (!from.allowed_hosts.empty()) extensions.push_back(tool::network_of(from.allowed_hosts));
    return std::make_unique<loader>(target, from.options, extensions);
  });
  return created.get();
}

load_options options_from(const settings& from) {
  load_options how;
  how.dtype = from.dtype;
  return how;
}

std::unique_ptr<keeper> make_keeper(const settings& from) {
  return from.keep.empty() ? nullptr : std::make_unique<keeper>(from.keep);
}

// Must run in another thread than the thread of the server, because sealing the memory takes
// milliseconds.
asio::awaitable<void> publish(keeper& to, std::string id, model loaded,
                              std::shared_ptr<attempt> load_attempt) {
  keeper& model_keeper = to;
  model_keeper.publish(id, loaded);
  load_attempt->is_published = true;
  co_return;
}

asio::awaitable<model> load_source(loader& model_loader, load_options how,
                                   std::shared_ptr<attempt> load_attempt) {
  const std::string source = load_attempt->order.source;
  auto file = co_await model_loader.open_async(source);
  how.select = tool::selection_of(load_attempt->order.wanted, file.catalog());
  auto started = co_await model_loader.start_async(file, how);
  load_attempt->load = std::move(started);
  // From here on, clients may request single tensors, because the catalog is known.
  if (load_attempt->state == load_state::opening) load_attempt->state = load_state::loading;
  auto loaded = co_await load_attempt->load.finish_async();
  co_return loaded;
}

asio::awaitable<model> load_version(loader& model_loader, std::shared_ptr<attempt> load_attempt) {
  const std::string delta = load_attempt->order.source;
  apply_options options;
  options.allocation = allocation::per_load;  // The keeper serves models with few allocations.
  auto next = co_await apply_async(model_loader, *load_attempt->order.base, delta, options);
  co_return next;
}

asio::awaitable<void> load_model(loader& model_loader, load_options how,
                                 std::shared_ptr<attempt> load_attempt, keeper* model_keeper,
                                 std::string id) {
  const bool is_version = load_attempt->order.base.has_value();
  auto pending = is_version ? load_version(model_loader, load_attempt)
                            : load_source(model_loader, how, load_attempt);
  auto loaded = co_await std::move(pending);
  if (model_keeper != nullptr) {
    co_await asio::co_spawn(asio::system_executor(),
                            publish(*model_keeper, id, loaded, load_attempt), asio::use_awaitable);
  }
  load_attempt->loaded = std::move(loaded);
}

std::string text_of(const std::exception_ptr& failure) {
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

start_result models::start(const std::string& id, load_order new_order) {
  if (closing_) return start_result::closing;
  const auto found = entries_.find(id);
  if (found != entries_.end() && found->second->latest->under_way()) {
    // `loads_` does not change, because the new load begins when the old load has ended.
    found->second->next = std::move(new_order);
    found->second->removed = false;
    stop(*found->second);
    return start_result::started;
  }
  if (loads_ == loads_max_) return start_result::too_many_loads;
  if (found != entries_.end()) {
    run(found->second, std::move(new_order));
    return start_result::started;
  }
  if (entries_.size() == models_max_) return start_result::too_many_models;
  auto added = std::make_shared<entry>(id);
  entries_.emplace(id, added);
  run(added, std::move(new_order));
  return start_result::started;
}

remove_result models::remove(const std::string& id) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return remove_result::absent;
  const std::shared_ptr<entry> model_entry = found->second;
  if (keeper_) keeper_->withdraw(id);
  model_entry->served.reset();
  model_entry->next.reset();
  model_entry->removed = true;
  if (model_entry->latest->under_way()) {
    stop(*model_entry);
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
  for (const auto& [id, model_entry] : entries_) {
    model_entry->next.reset();
    stop(*model_entry);
  }
}

void models::run(const std::shared_ptr<entry>& model_entry, load_order new_order) {
  ++loads_;
  model_entry->latest = std::make_shared<attempt>(std::move(new_order));
  asio::co_spawn(
      executor_, load_model(*loader_, how_, model_entry->latest, keeper_.get(), model_entry->id),
      asio::bind_cancellation_slot(
          model_entry->latest->cancel.slot(),
          [this, model_entry](std::exception_ptr failure) { ended(model_entry, failure); }));
}

void models::ended(const std::shared_ptr<entry>& model_entry, const std::exception_ptr& failure) {
  attempt& last = *model_entry->latest;
  // A load that was cancelled counts as cancelled, even if it has succeeded before.
  const bool cancelled = last.state == load_state::cancelling;
  --loads_;
  if (cancelled) {
    last.state = load_state::cancelled;
    last.loaded = model();
    ++counts_.cancelled;
  } else if (failure) {
    last.state = load_state::failed;
    last.problem = text_of(failure);
    ++counts_.failed;
    // Prints the error for the operator of the server. Clients see it in the state of the model.
    tool::complain("model-server", "error: " + model_entry->id + ": " + last.problem);
  } else {
    last.state = load_state::ready;
    last.end = last.loaded.stats();
    // Replies copy the tensors to the host, so no work on the device uses them.
    if (last.loaded.size() > 0) tool::release(last.loaded[0]);
    // The previous model is freed when the last reply that uses it has been sent.
    model_entry->served = model_entry->latest;
    ++counts_.ready;
    counts_.bytes += last.end.bytes;
  }
  if (last.is_published && last.state != load_state::ready) withdraw_attempt(*model_entry);
  last.load = load_operation();
  last.order.base.reset();  // Then the base version can be freed as soon as no reply uses it.

  if (model_entry->next) {
    load_order next = std::move(*model_entry->next);
    model_entry->next.reset();
    run(model_entry, std::move(next));
  } else if (model_entry->removed) {
    entries_.erase(model_entry->id);
  }
  if (closing_ && idle()) when_idle_();
}

// A load can be cancelled while another thread publishes its model. Then the keeper must serve the
// previous model again, or no model.
void models::withdraw_attempt(const entry& model_entry) {
  try {
    if (model_entry.served) {
      keeper_->publish(model_entry.id, model_entry.served->loaded);
      return;
    }
  } catch (const std::exception& problem) {
    tool::complain("model-server", "error: " + model_entry.id + ": " + problem.what());
  }
  keeper_->withdraw(model_entry.id);
}

void models::stop(const entry& model_entry) {
  attempt& last = *model_entry.latest;
  if (last.state != load_state::opening && last.state != load_state::loading) return;
  last.end = last.progress();
  last.state = load_state::cancelling;
  last.cancel.emit(asio::cancellation_type::terminal);
}

}  // namespace ringload::server
