// SPDX-License-Identifier: Apache-2.0
#pragma once

// The random program of a simulated world: its loaders, and clients that use them.

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <ringload/diagnostics.hpp>
#include <ringload/error.hpp>
#include <ringload/loader.hpp>
#include <ringload/remote.hpp>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "devices.hpp"
#include "keeper_record.hpp"
#include "memory.hpp"
#include "workload.hpp"

namespace ringload::simulation {

namespace asio = boost::asio;

// An io_context, and the thread that runs it.
struct event_loop {
  asio::io_context context;
  std::thread::id thread;
};

struct program {
  explicit program(const known_files& known) : files(known) {}

  // A caller in another thread may replace the loader, so the caller shares it during a call.
  std::shared_ptr<loader> any_loader() { return loaders[random(loaders.size())]; }
  event_loop& any_loop() { return loops[random(loops.size())]; }
  // If `is_shared`, for a keeper: other processes can map the tensors.
  std::shared_ptr<loader> make_loader(bool is_shared = false);
  // A loader that has all devices of the model. Null if there is none.
  std::shared_ptr<loader> any_loader_for(const model& loaded);
  void check_kept();
  void start_remote();
  void end_remote();
  void start_keeper();
  void end_keeper();
  std::string socket_path() const;

  const known_files& files;
  std::deque<event_loop> loops;
  std::vector<extension> extensions;  // Of all loaders.
  std::vector<std::shared_ptr<loader>> loaders;
  std::uint64_t loaders_destroyed = 0;
  // Numbers of the failed allocations that have destroyed a handler without a call.
  std::set<std::uint64_t> causes_of_losses;
  std::size_t clients_active = 0;
  std::size_t pending = 0;
  std::set<std::string> saving;  // Each path is saved by one client at a time.
  run_result result;

  struct kept_model {
    model loaded;
    const bytes_by_name* expected;
  };
  std::deque<kept_model> kept;

  std::shared_ptr<loader> keeper_loader;  // Null in a world without a keeper.
  keeper_record keepers;
  std::deque<attached_model> attached;
};

std::string content_of(const std::string& path);
remote_options any_remote_options();
std::string stored_bytes(const tensor& loaded);
void check_bytes(const tensor& loaded, const bytes_by_name& expected);
void check_model(const model& loaded, const bytes_by_name& expected);

// Starts a client, which carries out so many operations, one after the other.
void start_client(program& of, unsigned operations);

// A handler that has an executor, or none, as the world decides.
template <class Function>
struct handler_in {
  asio::any_io_executor executor;  // Empty: the executor of the operation.
  Function function;

  template <class... Values>
  void operator()(Values&&... values) {
    function(std::forward<Values>(values)...);
  }
};

// The operations of one client follow each other. Clients run side by side. All handlers of a
// client run in one event loop.
class client : public std::enable_shared_from_this<client> {
 public:
  client(program& of, event_loop& loop, unsigned steps) : program_(of), loop_(loop), left_(steps) {}

  void next();

 private:
  // What has happened in the world.
  struct history {
    std::uint64_t hard_faults = 0;
    std::uint64_t loaders_destroyed = 0;
  };

  // What is known of one operation until its handler is called.
  struct operation {
    history begin;
    std::uint64_t failed_allocations = 0;  // At the begin of this operation.
    std::int64_t end_max = INT64_MAX;      // The time limit.
    bool may_be_cancelled = false;
    bool will_be_cancelled = false;  // Unless the operation completes before.
    bool is_completed = false;
    bool is_lost = false;  // The handler was destroyed without a call.
    std::optional<boost::system::error_code> may_fail = {};   // Another rank may be cancelled.
    std::optional<boost::system::error_code> must_fail = {};  // The operation cannot succeed.
    // If set, decides whether the operation may fail with this code.
    std::function<bool(const boost::system::error_code&)> may_fail_with = {};
    diagnostics failure;
    boost::system::error_code code;  // The failure, after the end.
    asio::cancellation_signal signal;
    std::optional<asio::steady_timer> timer;
  };
  using operation_ptr = std::shared_ptr<operation>;
  using operation_weak = std::weak_ptr<operation>;

  history history_now() const { return {hard_faults(), program_.loaders_destroyed}; }
  operation_ptr begin_operation() { return begin_operation(history_now()); }
  // Events since `begin` can be the reason of a failure.
  operation_ptr begin_operation(const history& begin);
  void cancel_later(const operation_ptr& of);
  void cancel_after(const operation_ptr& of, asio::cancellation_type type,
                    std::uint64_t nanoseconds_max);
  // Returns true if the operation has succeeded.
  bool end_operation(const operation_ptr& of, boost::system::error_code failed);
  // The handler was destroyed without a call, which is only allowed without memory.
  void lose_operation(const operation_ptr& of);

  // Calls `end` with the result of an operation, at most once. If the handler is destroyed instead
  // of called, `end` is called as for a failure.
  template <class T, class End>
  struct completion {
    completion(std::shared_ptr<client> owner, operation_ptr of, End function)
        : self(std::move(owner)), started(std::move(of)), end(std::move(function)) {}
    completion(const completion&) = delete;
    completion& operator=(const completion&) = delete;
    ~completion() {
      if (started->is_completed) return;
      const certain_memory simulation;
      asio::post(self->loop_.context,
                 [owner = self, of = started, function = std::move(end)]() mutable {
                   owner->lose_operation(of);
                   function(false, T());
                 });
    }

    std::shared_ptr<client> self;
    operation_ptr started;
    End end;
  };

  // A completion token. `end` is called as end(succeeded, value). If `has_loader` is false, the
  // operation has no executor, so the handler has one.
  template <class T, class End>
  auto token(const operation_ptr& of, End end, bool has_loader = true) {
    auto waiting = std::make_shared<completion<T, End>>(shared_from_this(), of, std::move(end));
    auto complete = [waiting](boost::system::error_code failed, T value) mutable {
      const auto completed = std::move(waiting);
      const bool succeeded = completed->self->end_operation(completed->started, failed);
      completed->end(succeeded, std::move(value));
    };
    handler_in<decltype(complete)> handler{{}, std::move(complete)};
    // With several loops, the loader may belong to another one.
    if (program_.loops.size() > 1 || !has_loader) handler.executor = loop_.context.get_executor();
    return bind_diagnostics(of->failure,
                            asio::bind_cancellation_slot(of->signal.slot(), std::move(handler)));
  }

  // Calls a function of ringload, whose allocations may fail.
  template <class Start>
  void call(const Start& start) {
    const std::uint64_t failed = failed_allocations();
    const std::uint64_t faults = hard_faults();
    try {
      const uncertain_memory engine;
      start();
    } catch (const std::bad_alloc&) {
      if (failed == failed_allocations()) violation("bad_alloc without a failed allocation");
    } catch (const error& failure) {
      if (faults == hard_faults() && !devices_are_broken())
        violation(std::string("a call failed: ") + failure.what());
    }
  }

  const known_file& any_file() { return program_.files.all()[random(program_.files.all().size())]; }
  // An operation that reads all of the file, and has a time limit if the file is remote.
  operation_ptr begin_load(const known_file& file, const std::string& source);
  // The path of the file, or its address at a server.
  static std::string source_of(const known_file& file);
  static load_options any_options();
  static const bytes_by_name& expected_of(const known_file& file, const load_options& options) {
    return options.dtype ? file.as_bf16 : file.stored;
  }

  // ---- client.cpp: loads ----

  struct running_load {
    const bytes_by_name* expected = nullptr;
    bool is_local = true;  // Not over HTTP.
    history begin;
    bool must_fail = false;     // The file has changed.
    bool is_destroyed = false;  // The operation was destroyed while its tensors are awaited.
  };
  struct started_load : running_load {
    load_operation operation;
    std::size_t open_waits = 0;
  };
  struct opened_stream;
  struct filled_memory;
  using started_ptr = std::shared_ptr<started_load>;

  void load();
  void load_verified();  // Compares the digests of a list. One digest of the list may be wrong.
  void copy();           // Copies a tensor of a model that is kept.
  void end_load(model done, const bytes_by_name& expected, std::size_t count);
  // Opens a file and continues with the step.
  using opened_step = void (client::*)(const known_file&, const checkpoint&, const history&);
  void open_then(opened_step step);
  void load_selected();
  // The checkpoint was opened since `begin`.
  void load_some(const known_file& file, const checkpoint& opened, const history& begin);
  void start();
  void await_some(const started_ptr& load);
  operation_ptr begin_wait(const started_load& load);
  void await_one(const started_ptr& load);
  void finish(const started_ptr& load);
  void end_wait(const started_ptr& load);
  // ---- client_fills.cpp: fills of memory ----

  void fill();
  void fill_from(const known_file& file, const checkpoint& opened, const history& begin);
  static void end_fill(filled_memory& filled, bool is_whole);
  static void change_file(const known_file& file);
  void change_any_file();
  // In a world with faults, changes the time of the file soon, while a load of the file runs. Sets
  // `load->must_fail` if bytes are missing after the change, because the load compares the files
  // at its end.
  template <class Load>
  void change_soon(const std::shared_ptr<Load>& load, const known_file& file) {
    if (!settings().faults.any() || !load->is_local) return;
    auto timer = std::make_shared<asio::steady_timer>(
        loop_.context, std::chrono::nanoseconds(random(std::uint64_t{1000} << random(11))));
    timer->async_wait([timer, load, &file](boost::system::error_code) {
      change_file(file);
      if (load->is_destroyed) return;
      const load_stats stats = load->operation.progress();
      load->must_fail |= stats.bytes < stats.bytes_total;
    });
  }
  void replace_loader();

  // ---- client_streams.cpp: loads in windows ----

  void stream();
  void take_next(const std::shared_ptr<opened_stream>& from);

  // ---- client_turns.cpp: whose reads come next ----

  struct parallel_loads;

  bool is_alone() const;
  void overtake();
  void await_last(const started_ptr& load);
  void side_by_side();
  void tune_depth();
  void start_parallel(std::shared_ptr<loader> by, std::size_t count);
  void finish_parallel(const std::shared_ptr<parallel_loads>& group);
  static void compare_turns(const parallel_loads& group);

  // ---- client_ranks.cpp: loads by groups of ranks ----

  struct rank_group;
  struct rank_call;

  void load_by_ranks();
  std::vector<operation_ptr> begin_round(const rank_group& ranks);
  void open_by_ranks(const std::shared_ptr<rank_group>& ranks);
  void break_connection_soon(const std::shared_ptr<rank_group>& ranks);
  void call_by_ranks(const std::shared_ptr<rank_group>& ranks);
  void start_call(const std::shared_ptr<rank_group>& ranks, const rank_call& chosen,
                  std::size_t rank, const operation_ptr& begun);
  void end_call(const std::shared_ptr<rank_group>& ranks, bool succeeded);
  static void check_call(const rank_group& ranks, const rank_call& chosen, std::size_t rank,
                         const tensor& done);

  // ---- client_saves.cpp: saves and writers ----

  struct written_file;
  using written_ptr = std::shared_ptr<written_file>;

  void save();
  // `may_lack` has the tensors whose steps have failed.
  void load_back(const std::string& path, std::shared_ptr<const bytes_by_name> expected,
                 std::set<std::string> may_lack = {});
  void write();
  void append(const std::string& path, const std::shared_ptr<const bytes_by_name>& stored);
  void add_tensors(const written_ptr& file);
  void finish_file(const written_ptr& file);
  void end_file(const written_ptr& file, bool is_whole);

  // ---- client_devices.cpp: loads into GPUs, and work of the program there ----

  struct stream_use;
  struct device_fill;

  void next_with_devices();
  void load_placed();
  void use_tensors();
  void start_use(const std::shared_ptr<stream_use>& use);
  void await_use(const std::shared_ptr<stream_use>& use);
  void copy_between();
  void copy_any(const program::kept_model& chosen);
  void pin_model();
  void fill_device();
  void fill_device_from(const std::shared_ptr<loader>& by, const known_file& file,
                        const checkpoint& opened, const history& begin);
  void change_on_device();
  void apply_on_device(const std::shared_ptr<loader>& by, const model& loaded, std::size_t base);
  void update_on_device(const std::shared_ptr<loader>& by, const model& loaded, std::size_t base);

  // ---- client_keepers.cpp: models that a keeper shares ----

  struct reader;

  void use_keeper();
  void publish_model();
  void publish_attached();
  void publish_any(const std::string& name);
  void publish(const std::string& name, const attached_model& source);
  void withdraw_model();
  void replace_keeper();
  void attach_model();
  void await_version();
  operation_ptr begin_attach(const std::string& name, const call_begin& begin);
  void end_attach(const std::string& name, model done, const call_begin& begin);
  // ---- keeper_visits.cpp: other processes ----

  // Runs `work` in a thread, as if it were another process, then continues with next().
  void run_in_thread(std::function<void()> work);
  void read_versions();
  void read_version(reader& process);
  void visit_keeper();
  void visit();

  // ---- client_deltas.cpp ----

  struct updated_memory;

  void apply_delta();
  void update_memory();
  void load_version();
  void save_delta();
  void apply_saved_delta(const std::string& path, std::size_t base);

  program& program_;
  event_loop& loop_;
  unsigned left_;
};

}  // namespace ringload::simulation

template <class Function, class Executor>
struct boost::asio::associated_executor<ringload::simulation::handler_in<Function>, Executor> {
  using type = any_io_executor;
  static type get(const ringload::simulation::handler_in<Function>& handler,
                  const Executor& otherwise = Executor()) noexcept {
    return handler.executor ? handler.executor : type(otherwise);
  }
};
