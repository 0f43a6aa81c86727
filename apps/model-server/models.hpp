// SPDX-License-Identifier: Apache-2.0
#pragma once

// The models of the server. A model can be served, be loading, or wait for the end of another load.
//
// All functions run in the only thread of the io_context, so no locks are needed. Loads run in
// threads of the loader, and the coroutines of this thread only wait for them.
//
//   POST a        ----loading a---- a is served ------------------------------- b is served
//   POST b, same id                              ----loading b (a is served)----
//
// If a client begins another load for an id, the load in progress is cancelled, and the new load
// begins when the old load has ended. Each id has at most one load in progress, so each id needs
// the memory of at most two models.

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <ringload/keeper.hpp>
#include <ringload/loader.hpp>
#include <string>
#include <string_view>

#include "selection_text.hpp"
#include "settings.hpp"

namespace ringload::server {

enum class load_state : std::uint8_t {
  opening,     // The catalog is not known yet.
  loading,     // Bytes are being read.
  cancelling,  // Reads of the load are still in flight.
  ready,
  failed,
  cancelled,
};

std::string_view name(load_state state) noexcept;

/// The request of a load.
struct load_order {
  explicit load_order(std::string from, tool::selection_text selected = {})
      : source(std::move(from)), wanted(std::move(selected)) {}

  std::string source;
  tool::selection_text wanted;
  std::optional<model> base = {};  // If set, the source is a delta from this version.
};

/// A load of a checkpoint, of a part of a checkpoint, or of the next version of a model.
struct attempt {
  explicit attempt(load_order new_order) : order(std::move(new_order)) {}

  load_order order;
  load_state state = load_state::opening;
  std::string problem;  // The reason of a failure.
  boost::asio::cancellation_signal cancel;
  load_operation load;  // Set while the load runs.
  model loaded;         // Set when the load is complete.
  load_stats end;       // The final statistics.
  // Set by the thread that publishes the model. Valid when the load has ended.
  bool is_published = false;

  bool under_way() const noexcept;
  load_stats progress() const;
};

struct entry {
  explicit entry(std::string name) : id(std::move(name)) {}

  const std::string id;
  std::shared_ptr<attempt> latest;
  std::shared_ptr<attempt> served;  // The last attempt that became ready. May be `latest`.
  std::optional<load_order> next;   // Will be loaded when `latest` has ended.
  bool removed = false;             // True if the entry is erased when `latest` has ended.

  /// Returns the catalog of the served model. If no model is served, returns the catalog of the
  /// model that is being loaded, or null.
  const ringload::catalog* catalog() const noexcept;
};

/// Returns true for a text of 1 to 64 letters, digits, dots, dashes and underscores.
bool is_model_id(std::string_view id) noexcept;

enum class start_result : std::uint8_t { started, too_many_models, too_many_loads, closing };
enum class remove_result : std::uint8_t { absent, cancelling, removed };

struct load_counts {
  std::uint64_t ready = 0;
  std::uint64_t failed = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t bytes = 0;  // Total size of the models that became ready.
};

class models {
 public:
  /// Throws `ringload::error`.
  models(boost::asio::any_io_executor executor, const settings& from);

  /// Begins a load. If another model has this id, the other model is served until the new model is
  /// ready.
  start_result start(const std::string& id, load_order new_order);
  /// Cancels the load in progress and drops the model. Replies that are being sent keep the memory
  /// alive.
  remove_result remove(const std::string& id);
  std::shared_ptr<entry> find(const std::string& id) const;
  const std::map<std::string, std::shared_ptr<entry>>& all() const noexcept { return entries_; }

  /// Returns an id that no model has.
  std::string free_id();

  /// Cancels all loads, and starts no load afterwards. Calls `when_idle` when the last running load
  /// has ended.
  void close(std::function<void()> when_idle);
  bool idle() const noexcept { return loads_ == 0; }

  const load_counts& counts() const noexcept { return counts_; }
  load_stats loader_stats() const { return loader_->stats(); }

 private:
  void run(const std::shared_ptr<entry>& model_entry, load_order new_order);
  void ended(const std::shared_ptr<entry>& model_entry, const std::exception_ptr& failure);
  void withdraw_attempt(const entry& model_entry);
  static void stop(const entry& model_entry);

  boost::asio::any_io_executor executor_;
  const std::size_t models_max_;
  const std::size_t loads_max_;
  const load_options how_;
  std::map<std::string, std::shared_ptr<entry>> entries_;  // At most models_max_.
  std::size_t loads_ = 0;                                  // At most loads_max_.
  std::uint64_t last_id_ = 0;
  load_counts counts_;
  bool closing_ = false;
  std::function<void()> when_idle_;
  const std::unique_ptr<keeper> keeper_;  // Null if no process can attach.
  // The last member, because its destructor must run first. The destructor waits until no read is
  // in flight.
  const std::unique_ptr<loader> loader_;
};

}  // namespace ringload::server
