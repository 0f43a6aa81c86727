// SPDX-License-Identifier: Apache-2.0

// The clients of a simulated world, and their loads.

#include "client.hpp"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "support/guarded_memory.hpp"
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
  if (testing::bytes_of(loaded) != known->second) {
    violation("tensor " + known->first + " has wrong bytes");
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
  if (settings().power_cuts && random(2) == 0) return random(3) == 0 ? save_delta() : save();
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
    case 22: return change_file();
    default: return replace_loader();
  }
}

client::operation_ptr client::begin_operation(const history& begin) {
  auto started = std::make_shared<operation>();
  started->begin = begin;
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
  of->may_be_cancelled = true;
  // From 1 microsecond to 16 milliseconds, because some waits are short.
  const std::uint64_t most = std::uint64_t{1000} << random(15);
  of->timer.emplace(loop_.context, std::chrono::nanoseconds(random(most)));
  of->timer->async_wait([self = shared_from_this(), of, type](error_code failed) {
    if (!failed) self->call([&] { of->signal.emit(type); });
  });
}

bool client::end_operation(const operation_ptr& of, error_code failed) {
  if (std::this_thread::get_id() != loop_.thread) violation("a handler runs elsewhere");
  if (of->is_completed) violation("a handler is called twice");
  of->is_completed = true;
  if (of->timer) of->timer->cancel();
  --program_.pending;
  if (!failed) {
    if (of->must_fail) violation("an operation succeeded, expected " + of->must_fail->message());
    return true;
  }
  const bool is_cancelled = failed == asio::error::operation_aborted;
  const bool is_expected = is_cancelled ? of->may_be_cancelled || of->begin.loaders_destroyed !=
                                                                      program_.loaders_destroyed
                                        : hard_faults() != of->begin.hard_faults;
  if (!is_expected && failed != of->must_fail) {
    violation("an operation failed without a fault: " + failed.message() + ": " +
              of->failure.message());
  }
  ++(is_cancelled ? program_.result.cancelled : program_.result.failed);
  return false;
}

void client::lose_operation(const operation_ptr& of) {
  if (of->begin.failed_allocations == failed_allocations()) {
    violation("a handler was destroyed without a call");
  }
  if (++program_.lost_operations > failed_allocations()) {
    violation("more handlers were destroyed without a call than allocations have failed");
  }
  of->is_lost = true;
  if (of->must_fail) of->must_fail = errc::memory_exceeded;
  end_operation(of, errc::memory_exceeded);
}

load_options client::any_options() {
  constexpr read_route routes[] = {read_route::automatic, read_route::automatic, read_route::direct,
                                   read_route::buffered};
  load_options options;
  options.route = routes[random(std::size(routes))];
  if (random(3) == 0) options.dtype = dtype::bf16;
  return options;
}

void client::load() {
  const known_file& file = any_file();
  const load_options options = any_options();
  const bytes_by_name* expected = &expected_of(file, options);
  auto handler =
      token<model>(begin_operation(), [self = shared_from_this(), expected](bool ok, model done) {
        if (ok) self->end_load(std::move(done), *expected, expected->size());
        self->next();
      });
  call([&] { program_.any_loader()->load_async(file.path, options, std::move(handler)); });
}

// Loads and compares the digests of a list. One digest of the list may be wrong.
void client::load_verified() {
  const known_file& file = any_file();
  const bool is_wrong = random(2) == 0;
  load_options options = any_options();
  options.dtype.reset();
  options.verify = is_wrong ? &file.wrong_digests : &file.digests;
  operation_ptr begun = begin_operation();
  if (is_wrong) begun->must_fail = errc::wrong_digest;
  auto handler = token<model>(begun, [self = shared_from_this(), &file](bool ok, model done) {
    if (ok) self->end_load(std::move(done), file.stored, file.stored.size());
    self->next();
  });
  call([&] { program_.any_loader()->load_async(file.path, options, std::move(handler)); });
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

void client::load_selected() {
  const known_file& file = any_file();
  auto handler = token<checkpoint>(
      begin_operation(),
      [self = shared_from_this(), &file, begin = history_now()](bool ok, checkpoint opened) {
        if (!ok) return self->next();
        self->load_some(file, opened, begin);
      });
  call([&] { program_.any_loader()->open_async(file.path, std::move(handler)); });
}

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
  auto handler = token<load_operation>(begin_operation(),
                                       [self = shared_from_this(), expected, begin = history_now()](
                                           bool ok, load_operation started) {
                                         if (!ok) return self->next();
                                         auto load = std::make_shared<started_load>();
                                         load->operation = std::move(started);
                                         load->expected = expected;
                                         load->begin = begin;
                                         self->await_some(load);
                                       });
  call([&] { program_.any_loader()->start_async(file.path, options, std::move(handler)); });
}

void client::await_some(const started_ptr& load) {
  const std::size_t count = 1 + random(4);
  load->open_waits = count + 1;
  for (std::size_t i = 0; i < count; ++i) await_one(load);
  finish(load);
  // Destroys the operation while its tensors are awaited.
  if (random(6) == 0) call([&] { load->operation = load_operation(); });
}

// The wait ends too if its load is destroyed, or if another wait cancels the load.
client::operation_ptr client::begin_wait(const started_load& load) {
  operation_ptr begun = begin_operation(load.begin);
  begun->may_be_cancelled = true;
  return begun;
}

void client::await_one(const started_ptr& load) {
  if (random(2) == 0) {
    auto chosen = load->expected->begin();
    std::advance(chosen, static_cast<std::ptrdiff_t>(random(load->expected->size())));
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
        self->end_wait(load);
      });
  call([&] { load->operation.finish_async(std::move(handler)); });
}

void client::end_wait(const started_ptr& load) {
  if (--load->open_waits == 0) next();
}

// ---- A load in windows ----

struct client::opened_stream {
  tensor_stream tensors;
  const bytes_by_name* expected = nullptr;
  history begin;
  std::size_t taken = 0;
};

void client::stream() {
  // The wide file is larger than most windows.
  const known_file& file = random(2) == 0 ? program_.files.wide() : any_file();
  const load_options options = any_options();
  const bytes_by_name* expected = &expected_of(file, options);
  const std::uint64_t window = 350'000 + random(1'000'000);
  auto handler = token<tensor_stream>(
      begin_operation(),
      [self = shared_from_this(), expected, begin = history_now()](bool ok, tensor_stream opened) {
        if (!ok) return self->next();
        auto stream = std::make_shared<opened_stream>();
        stream->tensors = std::move(opened);
        stream->expected = expected;
        stream->begin = begin;
        self->take_next(stream);
      });
  call(
      [&] { program_.any_loader()->stream_async(file.path, window, options, std::move(handler)); });
}

void client::take_next(const std::shared_ptr<opened_stream>& from) {
  if (random(40) == 0) return next();  // Leaves the stream unfinished.
  auto handler = token<std::optional<tensor>>(
      begin_operation(from->begin),
      [self = shared_from_this(), from](bool ok, std::optional<tensor> done) {
        if (!ok) return self->next();
        if (done) {
          check_bytes(*done, *from->expected);
          done.reset();  // The window has room again.
          ++from->taken;
          return self->take_next(from);
        }
        if (from->taken != from->expected->size()) {
          violation("a stream ends before its last tensor");
        }
        self->next();
      });
  call([&] { from->tensors.next_async(std::move(handler)); });
}

// ---- Fills of memory ----

struct client::filled_memory {
  std::deque<testing::guarded_memory> memory;
  std::vector<destination> into;
  std::vector<const std::string*> expected;
};

void client::fill() {
  const known_file& file = any_file();
  auto handler = token<checkpoint>(
      begin_operation(),
      [self = shared_from_this(), &file, begin = history_now()](bool ok, checkpoint opened) {
        if (!ok) return self->next();
        self->fill_from(file, opened, begin);
      });
  call([&] { program_.any_loader()->open_async(file.path, std::move(handler)); });
}

void client::fill_from(const known_file& file, const checkpoint& opened, const history& begin) {
  auto filled = std::make_shared<filled_memory>();
  for (const tensor_info& each : opened) {
    const std::string& bytes = file.stored.at(each.name);
    testing::guarded_memory& memory = filled->memory.emplace_back(bytes.size(), random(64));
    filled->into.emplace_back(each.name, memory.data(), each.dtype, each.shape);
    filled->expected.push_back(&bytes);
  }
  fill_options rules;
  rules.load = any_options();
  rules.load.dtype.reset();
  auto handler = token<fill_result>(
      begin_operation(begin), [self = shared_from_this(), filled](bool ok, const fill_result&) {
        self->end_fill(*filled, ok);
        self->next();
      });
  call([&] { program_.any_loader()->fill_async(opened, filled->into, rules, std::move(handler)); });
}

void client::end_fill(filled_memory& filled, bool is_whole) {
  for (std::size_t i = 0; i < filled.memory.size(); ++i) {
    testing::guarded_memory& memory = filled.memory[i];
    if (!memory.guards_are_whole()) violation("a fill wrote beside a tensor");
    if (!is_whole) continue;
    memory.expect(0, *filled.expected[i]);
    if (!memory.as_expected()) violation("a fill left wrong bytes");
  }
}

// Another program changes the time of a file. Loads of this file may fail.
void client::change_file() {
  if (settings().faults.any()) {
    const std::filesystem::path path = any_file().path;
    count_hard_fault();
    std::filesystem::last_write_time(
        path, std::filesystem::last_write_time(path) + std::chrono::seconds(1));
  }
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
