// SPDX-License-Identifier: Apache-2.0
#pragma once

// The models of the server: what is served, what is being loaded, and what is loaded next.
//
// Everything here runs on the io_context's only thread, so there are no locks. Loads run on the
// loader's own thread; the coroutines here only await them.
//
//   POST a        ----loading a---- a is served ------------------------------- b is served
//   POST b, same id                              ----loading b (a is served)----
//
// A superseded load is cancelled, and its successor begins when it has ended: each id has at most
// one load in progress, so it never needs the memory of more than two models.

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
  opening,     // Its catalog is not known yet.
  loading,     // Bytes are being read.
  cancelling,  // Reads of it are still in flight.
  ready,
  failed,
  cancelled,
};

std::string_view name(load_state state) noexcept;

/// What is to be loaded.
struct load_order {
  explicit load_order(std::string from, tool::selection_text of = {})
      : source(std::move(from)), wanted(std::move(of)) {}

  std::string source;
  tool::selection_text wanted;
};

/// One load of one checkpoint, or of a part of it.
struct attempt {
  explicit attempt(load_order what) : order(std::move(what)) {}

  const load_order order;
  load_state state = load_state::opening;
  std::string problem;  // Why it failed.
  boost::asio::cancellation_signal cancel;
  load_operation load;  // While it is loading, and when it is cancelled after that.
  model loaded;         // When it is ready.
  load_stats end;       // The final statistics.

  bool under_way() const noexcept;
  load_stats progress() const;
};

struct entry {
  explicit entry(std::string name) : id(std::move(name)) {}

  const std::string id;
  std::shared_ptr<attempt> latest;
  std::shared_ptr<attempt> served;  // The last that became ready. May be `latest`.
  std::optional<load_order> next;   // Loaded when `latest`, which it supersedes, has ended.
  bool removed = false;             // Erased when `latest` has ended.

  /// The catalog of the served model, else of the one being loaded; or null.
  const ringload::catalog* catalog() const noexcept;
};

/// 1 to 64 letters, digits, dots, dashes and underscores.
bool is_model_id(std::string_view id) noexcept;

enum class start_result : std::uint8_t { started, too_many_models, too_many_loads, closing };
enum class remove_result : std::uint8_t { absent, cancelling, removed };

struct load_counts {
  std::uint64_t ready = 0;
  std::uint64_t failed = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t bytes = 0;  // Of the loads that became ready.
};

class models {
 public:
  /// Throws `ringload::error`.
  models(boost::asio::any_io_executor executor, const settings& from);

  /// Begins to load. If a model has the id already, it is served until the new one is ready.
  start_result start(const std::string& id, load_order what);
  /// Cancels the load in progress and drops the model. Memory that is being sent is freed after
  /// that.
  remove_result remove(const std::string& id);
  std::shared_ptr<entry> find(const std::string& id) const;
  const std::map<std::string, std::shared_ptr<entry>>& all() const noexcept { return entries_; }

  /// An id that no model has.
  std::string free_id();

  /// Cancels everything, and starts nothing more. Calls `when_idle` each time a load has ended and
  /// none is left.
  void close(std::function<void()> when_idle);
  bool idle() const noexcept { return loads_ == 0; }

  const load_counts& counts() const noexcept { return counts_; }
  load_stats loader_stats() const { return loader_->stats(); }

 private:
  void run(const std::shared_ptr<entry>& of, load_order what);
  void ended(const std::shared_ptr<entry>& of, const std::exception_ptr& failure);
  static void stop(const entry& of);

  boost::asio::any_io_executor executor_;
  const std::size_t models_max_;
  const std::size_t loads_max_;
  const load_options how_;
  std::map<std::string, std::shared_ptr<entry>> entries_;  // Never more than models_max_.
  std::size_t loads_ = 0;                                  // Never more than loads_max_.
  std::uint64_t last_id_ = 0;
  load_counts counts_;
  bool closing_ = false;
  std::function<void()> when_idle_;
  const std::unique_ptr<keeper> keeper_;  // Null: nobody can attach.
  // Destroyed first: its destructor waits until no read is in flight.
  const std::unique_ptr<loader> loader_;
};

}  // namespace ringload::server
