// SPDX-License-Identifier: Apache-2.0

// The clients of a simulated world, and their loads.

#include "client.hpp"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "support/made_checkpoint.hpp"
#include "support/small_options.hpp"

namespace ringload::simulation {

using boost::system::error_code;

std::string content_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void check_bytes(const tensor& loaded, const bytes_by_name& expected) {
  const auto known = expected.find(std::string(loaded.name()));
  if (known == expected.end()) violation("a tensor has another name");
  if (stored_bytes(loaded) != known->second) {
    violation("tensor " + known->first + " on " + loaded.device().name() + " has wrong bytes");
  }
}

void check_model(const model& loaded, const bytes_by_name& expected) {
  for (const tensor& each : loaded) check_bytes(each, expected);
}

void start_client(program& of, unsigned operations) {
  event_loop& loop = of.any_loop();
  ++of.clients_active;
  const auto created = std::make_shared<client>(of, loop, operations);
  asio::post(loop.context, [created] { created->next(); });
}

void client::next() {
  if (left_ == 0) {
    --program_.clients_active;
    return;
  }
  --left_;
  if (settings().has_keeper && random(4) != 0) return use_keeper();
  if (settings().devices != 0) return next_with_devices();
  // Each new loader needs memory for its threads and its workers.
  if (settings().faults.allocation != 0 && random(8) == 0) return replace_loader();
  if (settings().power_cuts && random(2) == 0) return random(3) == 0 ? save_delta() : save();
  // A group that lacks memory ends as it does when a rank fails.
  if (settings().faults.allocation == 0 && random(20) == 0) return load_by_ranks();
  switch (random(24)) {
    case 0:
    case 1:
    case 2: return load();
    case 3: return load_selected();
    case 4:
    case 5: return start();
    case 6:
    case 7: return stream();
    case 8: return fill();
    case 9:
    case 10: return save();
    case 11: return load_verified();
    case 12: return copy();
    case 13: return write();
    case 14: return apply_delta();
    case 15:
    case 16: return update_memory();
    case 17: return load_version();
    case 18: return save_delta();
    case 19: return overtake();
    case 20: return side_by_side();
    case 21: return tune_depth();
    case 22: return change_any_file();
    default: return replace_loader();
  }
}

client::operation_ptr client::begin_operation(const history& begin) {
  auto started = std::make_shared<operation>();
  started->begin = begin;
  started->failed_allocations = failed_allocations();
  ++program_.pending;
  count_operation();
  if (random(4) == 0) cancel_later(started);
  return started;
}

void client::cancel_later(const operation_ptr& of) {
  constexpr asio::cancellation_type types[] = {asio::cancellation_type::terminal,
                                               asio::cancellation_type::partial,
                                               asio::cancellation_type::total};
  const asio::cancellation_type type = types[random(std::size(types))];
  of->may_be_cancelled = of->will_be_cancelled = true;
  // From 1 microsecond to 16 milliseconds, because some waits are short.
  if (random(2) == 0) return cancel_after(of, type, std::uint64_t{1000} << random(15));
  // Or soon after the begin or the end of a thread, a read or a submission, because the engine has
  // most to undo there.
  constexpr char kinds[] = {'C', 'E', 'E', 'P', 'S', 'g'};
  const auto cancel = [owner_weak = weak_from_this(), of_weak = operation_weak(of), type] {
    const auto owner = owner_weak.lock();
    if (!owner || of_weak.expired()) return;
    asio::post(owner->loop_.context, [owner, of_weak, type] {
      const operation_ptr started = of_weak.lock();
      if (!started || started->is_completed) return;
      owner->cancel_after(started, type, std::uint64_t{100} << random(8));
    });
  };
  call_at_turn(kinds[random(std::size(kinds))], 1 + random(6), cancel);
}

void client::cancel_after(const operation_ptr& of, asio::cancellation_type type,
                          std::uint64_t nanoseconds_max) {
  of->timer.emplace(loop_.context, std::chrono::nanoseconds(random(nanoseconds_max)));
  of->timer->async_wait([self = shared_from_this(), of, type](error_code failed) {
    if (failed) return;
    if (random(2) == 0) fail_allocation_soon();
    self->call([&] { of->signal.emit(type); });
  });
}

bool client::end_operation(const operation_ptr& of, error_code failed) {
  if (std::this_thread::get_id() != loop_.thread) violation("a handler runs elsewhere");
  if (of->is_completed) violation("a handler is called twice");
  of->is_completed = true;
  of->code = failed;
  if (of->timer) of->timer->cancel();
  --program_.pending;
  if (now() > of->end_max) {
    violation("a load ended after its time limit: " + failed.message() + ": " +
              of->failure.message());
  }
  if (!failed) {
    if (of->must_fail) violation("an operation succeeded, expected " + of->must_fail->message());
    return true;
  }
  const bool is_cancelled = failed == asio::error::operation_aborted;
  // A server that is not mild may have broken a connection before the operation began.
  const bool has_fault =
      hard_faults() != of->begin.hard_faults || devices_are_broken() ||
      (settings().faults.server != 0 && !settings().mild_server && hard_faults() > 0);
  bool is_expected = is_cancelled ? of->may_be_cancelled ||
                                        of->begin.loaders_destroyed != program_.loaders_destroyed
                                  : has_fault;
  if (of->may_fail_with && !is_cancelled) is_expected = of->may_fail_with(failed);
  if (!is_expected && failed != of->must_fail && failed != of->may_fail) {
    violation("an operation failed without a fault: " + failed.message() + ": " +
              of->failure.message());
  }
  ++(is_cancelled ? program_.result.cancelled : program_.result.failed);
  return false;
}

void client::lose_operation(const operation_ptr& of) {
  // Each loss needs a failed allocation of its own. Operations are lost in the order of time, so
  // the first failure since the begin is the right choice.
  std::uint64_t cause = of->failed_allocations + 1;
  while (program_.causes_of_losses.contains(cause)) ++cause;
  if (cause > failed_allocations()) violation("a handler was destroyed without a call");
  program_.causes_of_losses.insert(cause);
  of->is_lost = true;
  if (of->must_fail) of->must_fail = errc::memory_exceeded;
  end_operation(of, errc::memory_exceeded);
}

load_options client::any_options() {
  constexpr read_route routes[] = {read_route::automatic, read_route::automatic, read_route::direct,
                                   read_route::buffered};
  load_options options;
  options.route = routes[random(std::size(routes))];
  // A source over HTTP has no direct reads.
  if (settings().has_server) options.route = read_route::automatic;
  if (random(3) == 0) options.dtype = dtype::bf16;
  return options;
}

void client::load() {
  const known_file& file = any_file();
  const load_options options = any_options();
  const bytes_by_name* expected = &expected_of(file, options);
  const std::string source = source_of(file);
  auto handler = token<model>(begin_load(file, source),
                              [self = shared_from_this(), expected](bool ok, model done) {
                                if (ok)
                                  self->end_load(std::move(done), *expected, expected->size());
                                self->next();
                              });
  call([&] { program_.any_loader()->load_async(source, options, std::move(handler)); });
}

// Loads and compares the digests of a list. One digest of the list may be wrong.
void client::load_verified() {
  const known_file& file = any_file();
  const bool is_wrong = random(2) == 0;
  load_options options = any_options();
  options.dtype.reset();
  options.verify = is_wrong ? &file.wrong_digests : &file.digests;
  const std::string source = source_of(file);
  operation_ptr begun = begin_load(file, source);
  if (is_wrong) begun->must_fail = errc::wrong_digest;
  auto handler = token<model>(begun, [self = shared_from_this(), &file](bool ok, model done) {
    if (ok) self->end_load(std::move(done), file.stored, file.stored.size());
    self->next();
  });
  call([&] { program_.any_loader()->load_async(source, options, std::move(handler)); });
}

// Copies a tensor of a model that is kept.
void client::copy() {
  if (program_.kept.empty()) return load();
  const program::kept_model chosen = program_.kept[random(program_.kept.size())];
  if (chosen.loaded.empty()) return load();
  auto handler = token<tensor>(
      begin_operation(),
      [self = shared_from_this(), expected = chosen.expected](bool ok, const tensor& done) {
        if (ok) check_bytes(done, *expected);
        self->next();
      });
  call([&] {
    program_.any_loader()->copy_async(chosen.loaded[random(chosen.loaded.size())],
                                      std::move(handler));
  });
}

void client::end_load(model done, const bytes_by_name& expected, std::size_t count) {
  if (done.size() != count) violation("a model has another number of tensors");
  check_model(done, expected);
  if (random(3) != 0) return;
  program_.kept.push_back({std::move(done), &expected});
  if (program_.kept.size() <= 4) return;
  // Another thread may run while the model is destroyed.
  const program::kept_model oldest = std::move(program_.kept.front());
  program_.kept.pop_front();
}

void client::open_then(opened_step step) {
  const known_file& file = any_file();
  const std::string source = source_of(file);
  auto handler = token<checkpoint>(
      begin_operation(),
      [self = shared_from_this(), &file, step, begin = history_now()](bool ok, checkpoint opened) {
        if (!ok) return self->next();
        ((*self).*step)(file, opened, begin);
      });
  call([&] { program_.any_loader()->open_async(source, std::move(handler)); });
}

void client::load_selected() { open_then(&client::load_some); }

void client::load_some(const known_file& file, const checkpoint& opened, const history& begin) {
  std::vector<std::string> names;
  for (const auto& [name, bytes] : file.stored) {
    if (random(3) == 0) names.push_back(name);
  }
  const std::size_t count = names.size();
  load_options options = any_options();
  options.select = select().names(names);
  const bytes_by_name* expected = &expected_of(file, options);
  auto handler = token<model>(begin_operation(begin),
                              [self = shared_from_this(), expected, count](bool ok, model done) {
                                if (ok) self->end_load(std::move(done), *expected, count);
                                self->next();
                              });
  call([&] { program_.any_loader()->load_async(opened, options, std::move(handler)); });
}

// ---- A load whose tensors are awaited ----

void client::start() {
  const known_file& file = any_file();
  const load_options options = any_options();
  const bytes_by_name* expected = &expected_of(file, options);
  const std::string source = source_of(file);
  auto handler = token<load_operation>(
      begin_operation(), [self = shared_from_this(), &file, expected, begin = history_now(),
                          is_local = source == file.path](bool ok, load_operation started) {
        if (!ok) return self->next();
        auto load = std::make_shared<started_load>();
        load->is_local = is_local;
        load->operation = std::move(started);
        load->expected = expected;
        load->begin = begin;
        if (random(10) == 0) self->change_soon(load, file);
        self->await_some(load);
      });
  call([&] { program_.any_loader()->start_async(source, options, std::move(handler)); });
}

void client::await_some(const started_ptr& load) {
  // Many waits need much memory at the end of the load.
  const std::size_t count = 1 + random(settings().faults.allocation != 0 ? 40 : 8);
  load->open_waits = count + 1;
  for (std::size_t i = 0; i < count; ++i) await_one(load);
  finish(load);
  // Destroys the operation while its tensors are awaited.
  if (random(6) != 0) return;
  fail_allocation_soon();
  load->is_destroyed = true;
  call([&] { load->operation = load_operation(); });
}

// The wait ends too if its load is destroyed, or if another wait cancels the load.
client::operation_ptr client::begin_wait(const started_load& load) {
  operation_ptr begun = begin_operation(load.begin);
  begun->may_be_cancelled = true;
  return begun;
}

void client::await_one(const started_ptr& load) {
  if (random(2) == 0) {
    // Half of these waits are for the same tensor.
    auto chosen = load->expected->begin();
    if (random(2) == 0) {
      std::advance(chosen, static_cast<std::ptrdiff_t>(random(load->expected->size())));
    }
    auto handler = token<tensor>(begin_wait(*load),
                                 [self = shared_from_this(), load](bool ok, const tensor& done) {
                                   if (ok) check_bytes(done, *load->expected);
                                   self->end_wait(load);
                                 });
    call([&] { load->operation.tensor_async(chosen->first, std::move(handler)); });
    return;
  }
  auto handler = token<std::optional<tensor>>(
      begin_wait(*load),
      [self = shared_from_this(), load](bool ok, const std::optional<tensor>& done) {
        if (ok && done) check_bytes(*done, *load->expected);
        self->end_wait(load);
      });
  call([&] { load->operation.next_async(std::move(handler)); });
}

void client::finish(const started_ptr& load) {
  auto handler =
      token<model>(begin_wait(*load), [self = shared_from_this(), load](bool ok, model done) {
        if (ok) self->end_load(std::move(done), *load->expected, load->expected->size());
        if (ok && load->must_fail) violation("a load of a changed file has succeeded");
        self->end_wait(load);
      });
  call([&] { load->operation.finish_async(std::move(handler)); });
}

void client::end_wait(const started_ptr& load) {
  if (--load->open_waits == 0) next();
}

// Another program changes the time of a file. Loads of this file may fail.
void client::change_file(const known_file& file) {
  count_hard_fault();
  std::filesystem::last_write_time(
      file.path, std::filesystem::last_write_time(file.path) + std::chrono::seconds(1));
}

void client::change_any_file() {
  if (settings().faults.any()) change_file(any_file());
  next();
}

void client::replace_loader() {
  std::shared_ptr<loader> old = program_.make_loader();
  old.swap(program_.loaders[random(program_.loaders.size())]);
  ++program_.loaders_destroyed;
  call([&] { old.reset(); });
  next();
}

}  // namespace ringload::simulation
