// SPDX-License-Identifier: Apache-2.0

// Clients of worlds with GPUs: loads into their memory, and work of the program on this memory.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <ringload/cuda.hpp>
#include <ringload/delta.hpp>

#include "client.hpp"
#include "devices.hpp"
#include "support/made_checkpoint.hpp"

namespace ringload::simulation {

namespace {

// Returns true after success. Broken devices fail every call. Clears the stored error.
bool is_done(cudaError_t result) {
  if (result == cudaSuccess) return true;
  (void)cudaGetLastError();
  if (!devices_are_broken()) violation("a call of the program failed on a device");
  return false;
}

bool is_gpu(const device& tested) { return tested.kind() == device_kind::cuda; }

}  // namespace

std::string stored_bytes(const tensor& loaded) {
  if (!is_gpu(loaded.device())) return std::string(testing::bytes_of(loaded));
  return bytes_on_device(loaded.data(), loaded.size_bytes(), loaded.device().index());
}

void client::next_with_devices() {
  if (settings().faults.allocation != 0 && random(8) == 0) return replace_loader();
  switch (random(20)) {
    case 0: return load();
    case 1:
    case 2:
    case 3: return load_placed();
    case 4: return load_selected();
    case 5: return start();
    case 6: return stream();
    case 7: return load_verified();
    case 8: return load_version();
    case 9: return fill();
    case 10: return save();
    case 11:
    case 12:
    case 13: return use_tensors();
    case 14: return copy_between();
    case 15: return pin_model();
    case 16: return fill_device();
    case 17: return change_on_device();
    case 18: return change_any_file();
    default: return replace_loader();
  }
}

// Loads tensors to the devices that a selection chooses.
void client::load_placed() {
  const known_file& file = any_file();
  const std::shared_ptr<loader> by = program_.any_loader();
  load_options options = any_options();
  const bool is_replicated = random(2) == 0;
  options.select = is_replicated ? select().replicate("*") : select().spread("*");
  const bytes_by_name* expected = &expected_of(file, options);
  const std::size_t count = expected->size() * (is_replicated ? by->devices().size() : 1);
  auto handler = token<model>(begin_operation(),
                              [self = shared_from_this(), expected, count](bool ok, model done) {
                                if (ok) self->end_load(std::move(done), *expected, count);
                                self->next();
                              });
  call([&] { by->load_async(file.path, options, std::move(handler)); });
}

// ---- Work of the program on loaded tensors ----

// Copies of tensors to the host, on a stream of the program. The copies may run after the tensors
// are released.
struct client::stream_use {
  std::vector<tensor> tensors;  // Of one device, and of one allocation.
  int device = 0;
  std::string expected;
  std::string copied;
  cudaStream_t stream = nullptr;
  cudaEvent_t ended = nullptr;
  bool is_pinned = false;
  bool calls_host_function = false;
  // Set by the host function, which may end later than this object.
  std::shared_ptr<bool> was_called = std::make_shared<bool>(false);
  bool is_released = false;  // By release_after().
  bool is_awaited = false;   // The client waits for the copies.

  bool start();
  // Returns false if the copies may still run.
  bool has_ended();
  void end();
};

bool client::stream_use::start() {
  const certain_calls program;
  copied.resize(expected.size());
  is_pinned = is_done(cudaSetDevice(device)) &&
              is_done(cudaHostRegister(copied.data(), copied.size(), cudaHostRegisterMapped));
  if (!is_pinned || !is_done(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)) ||
      !is_done(cudaEventCreateWithFlags(&ended, cudaEventDisableTiming))) {
    return false;
  }
  char* into = copied.data();
  for (const tensor& each : tensors) {
    if (!is_done(cudaMemcpyAsync(into, each.data(), each.size_bytes(), cudaMemcpyDeviceToHost,
                                 stream))) {
      return false;
    }
    into += each.size_bytes();
  }
  using shared_flag = std::shared_ptr<bool>;
  const auto call = [](void* argument) {
    const std::unique_ptr<shared_flag> flag(static_cast<shared_flag*>(argument));
    sleep_for(static_cast<std::int64_t>(random(100'000)));
    **flag = true;
  };
  if (calls_host_function) {
    auto argument = std::make_unique<shared_flag>(was_called);
    if (!is_done(cudaLaunchHostFunc(stream, call, argument.get()))) return false;
    (void)argument.release();  // Owned by the function.
  }
  return is_done(cudaEventRecord(ended, stream));
}

bool client::stream_use::has_ended() {
  const cudaError_t state = cudaEventQuery(ended);
  (void)cudaGetLastError();
  if (state == cudaErrorNotReady) return false;
  // If the query failed, the copies may still run. Broken devices carry out no copy.
  if (state != cudaSuccess && !devices_are_broken()) return false;
  if (is_done(state)) {
    if (copied != expected) violation("work of the program has read other bytes of a tensor");
    if (calls_host_function && !*was_called) violation("an event passes a host function");
  }
  return true;
}

void client::stream_use::end() {
  const certain_calls program;
  (void)is_done(cudaSetDevice(device));
  if (stream) (void)is_done(cudaStreamDestroy(stream));
  if (ended) (void)is_done(cudaEventDestroy(ended));
  if (is_pinned) (void)is_done(cudaHostUnregister(copied.data()));
}

void client::use_tensors() {
  const known_file& file = any_file();
  auto handler = token<model>(begin_operation(),
                              [self = shared_from_this(), &file](bool ok, const model& loaded) {
                                auto use = std::make_shared<stream_use>();
                                for (const tensor& each : loaded) {
                                  if (!is_gpu(each.device()) || each.size_bytes() == 0) continue;
                                  use->tensors.push_back(each);
                                  use->expected += file.stored.at(std::string(each.name()));
                                }
                                if (!ok || use->tensors.empty()) return self->next();
                                use->device = use->tensors.front().device().index();
                                use->calls_host_function = random(3) == 0;
                                use->is_awaited = random(2) == 0;
                                self->start_use(use);
                              });
  call([&] { program_.any_loader()->load_async(file.path, std::move(handler)); });
}

// The tensors are released in one of three ways: after the stream, or when the copies have ended,
// with or without release().
void client::start_use(const std::shared_ptr<stream_use>& use) {
  if (!use->start()) {
    use->end();
    return next();
  }
  if (random(3) != 0) {
    call([&] {
      release_after(use->tensors[random(use->tensors.size())], use->stream);
      use->is_released = true;
    });
  }
  if (use->is_released) use->tensors.clear();
  await_use(use);
  if (!use->is_awaited) next();
}

void client::await_use(const std::shared_ptr<stream_use>& use) {
  const certain_calls program;
  if (use->has_ended()) {
    if (!use->tensors.empty() && random(2) == 0) release(use->tensors.front());
    use->tensors.clear();
    use->end();
    if (use->is_awaited) next();
    return;
  }
  auto timer = std::make_shared<asio::steady_timer>(
      loop_.context, std::chrono::nanoseconds(1000 + random(std::uint64_t{1000} << random(8))));
  timer->async_wait(
      [self = shared_from_this(), timer, use](boost::system::error_code) { self->await_use(use); });
}

// ---- Copies of tensors ----

// Copies a tensor of a model that is kept to the host or to a device of the loader.
void client::copy_between() {
  if (program_.kept.empty()) return load();
  copy_any(program_.kept[random(program_.kept.size())]);
}

void client::copy_any(const program::kept_model& chosen) {
  const std::shared_ptr<loader> by = program_.any_loader_for(chosen.loaded);
  if (!by || chosen.loaded.empty()) return load();
  const device to = random(3) == 0 ? host() : by->devices()[random(by->devices().size())];
  auto handler = token<tensor>(
      begin_operation(),
      [self = shared_from_this(), expected = chosen.expected, to](bool ok, const tensor& done) {
        if (ok) check_bytes(done, *expected);
        if (ok && done.device() != to) violation("a copy is on another device");
        self->next();
      });
  call([&] {
    by->copy_async(chosen.loaded[random(chosen.loaded.size())], {to}, std::move(handler));
  });
}

// Registers the memory of a model on the host, which copies then use.
void client::pin_model() {
  std::vector<program::kept_model> on_host;
  for (const program::kept_model& each : program_.kept) {
    const bool is_there = std::ranges::none_of(
        each.loaded, [](const tensor& loaded) { return is_gpu(loaded.device()); });
    if (is_there) on_host.push_back(each);
  }
  if (on_host.empty()) return copy_between();
  const program::kept_model chosen = on_host[random(on_host.size())];
  call([&] { (void)pin(chosen.loaded, static_cast<int>(random(settings().devices))); });
  copy_any(chosen);
}

// Each handler below keeps its loader. Otherwise a loader that another client replaces would end
// between two operations.

// ---- Fills of memory on a device ----

struct client::device_fill {
  static constexpr std::size_t guard_bytes = 256;
  static constexpr char untouched = '\xA5';  // Of new memory.

  struct region {
    void* begin = nullptr;
    std::string expected;  // With the guards.
  };

  explicit device_fill(int index) : device(index) {}
  device_fill(const device_fill&) = delete;
  device_fill& operator=(const device_fill&) = delete;
  ~device_fill() {
    const certain_calls program;
    (void)is_done(cudaSetDevice(device));
    for (const region& each : regions) (void)is_done(cudaFree(each.begin));
  }

  bool add(const tensor_info& tensor, const std::string& bytes, std::size_t offset,
           std::size_t stride);
  void check(bool is_whole) const;

  int device;
  std::vector<region> regions;
  std::vector<destination> into;
};

// Returns false if there is no memory.
bool client::device_fill::add(const tensor_info& tensor, const std::string& bytes,
                              std::size_t offset, std::size_t stride) {
  const certain_calls program;
  const std::size_t element = bits(tensor.dtype) / 8;
  const std::size_t begin = guard_bytes + offset * element;
  region added;
  added.expected.assign(begin + bytes.size() * stride + guard_bytes, untouched);
  for (std::size_t at = 0; at < bytes.size(); at += element) {
    added.expected.replace(begin + at * stride, element, bytes, at, element);
  }
  if (!is_done(cudaSetDevice(device)) ||
      !is_done(cudaMalloc(&added.begin, added.expected.size()))) {
    return false;
  }
  into.emplace_back(tensor.name, static_cast<char*>(added.begin) + begin, tensor.dtype,
                    tensor.shape, cuda_device(device));
  if (stride != 1) into.back().strides = {static_cast<std::int64_t>(stride)};
  regions.push_back(std::move(added));
  return true;
}

// A fill that fails may have written to its destinations, but not beside them.
void client::device_fill::check(bool is_whole) const {
  for (const region& each : regions) {
    const std::string found = bytes_on_device(each.begin, each.expected.size(), device);
    const std::string guard(guard_bytes, untouched);
    const bool is_right =
        is_whole ? found == each.expected : found.starts_with(guard) && found.ends_with(guard);
    if (!is_right) violation("a fill left wrong bytes on a GPU");
  }
}

void client::fill_device() {
  const known_file& file = any_file();
  const std::shared_ptr<loader> by = program_.any_loader();
  if (!is_gpu(by->device())) return fill();
  auto handler = token<checkpoint>(
      begin_operation(),
      [self = shared_from_this(), by, &file, begin = history_now()](bool ok, checkpoint opened) {
        if (!ok) return self->next();
        self->fill_device_from(by, file, opened, begin);
      });
  call([&] { by->open_async(file.path, std::move(handler)); });
}

void client::fill_device_from(const std::shared_ptr<loader>& by, const known_file& file,
                              const checkpoint& opened, const history& begin) {
  auto filled = std::make_shared<device_fill>(by->device().index());
  for (const tensor_info& each : opened) {
    const std::size_t stride = each.shape.size() == 1 ? 1 + random(2) : 1;
    if (!filled->add(each, file.stored.at(each.name), random(4), stride)) return next();
  }
  fill_options rules;
  rules.load = any_options();
  rules.load.dtype.reset();
  auto handler = token<fill_result>(
      begin_operation(begin), [self = shared_from_this(), by, filled](bool ok, const fill_result&) {
        filled->check(ok);
        self->next();
      });
  call([&] { by->fill_async(opened, filled->into, rules, std::move(handler)); });
}

// ---- Deltas ----

// Loads a version to a device, then applies a delta there, or updates the memory in place.
void client::change_on_device() {
  const std::shared_ptr<loader> by = program_.any_loader();
  if (!is_gpu(by->device())) return load_version();
  const std::vector<known_version>& versions = program_.files.versions();
  const std::size_t base = random(versions.size() - 1);
  auto handler = token<model>(begin_operation(),
                              [self = shared_from_this(), by, base](bool ok, const model& loaded) {
                                if (!ok) return self->next();
                                check_model(loaded, self->program_.files.versions()[base].stored);
                                random(2) == 0 ? self->apply_on_device(by, loaded, base)
                                               : self->update_on_device(by, loaded, base);
                              });
  call([&] { by->load_async(versions[base].path, std::move(handler)); });
}

void client::apply_on_device(const std::shared_ptr<loader>& by, const model& loaded,
                             std::size_t base) {
  const known_version& next_version = program_.files.versions()[base + 1];
  auto handler = token<model>(
      begin_operation(), [self = shared_from_this(), by, &next_version](bool ok, model done) {
        if (ok) self->end_load(std::move(done), next_version.stored, next_version.stored.size());
        self->next();
      });
  call([&] { apply_async(*by, loaded, next_version.delta, std::move(handler)); });
}

// An update that fails leaves the old bytes.
void client::update_on_device(const std::shared_ptr<loader>& by, const model& loaded,
                              std::size_t base) {
  const std::vector<known_version>& versions = program_.files.versions();
  std::vector<destination> into;
  for (const tensor& each : loaded) {
    into.emplace_back(std::string(each.name()), each.data(), each.dtype(),
                      std::vector<std::uint64_t>(each.shape().begin(), each.shape().end()),
                      each.device());
  }
  const operation_ptr begun = begin_operation();
  auto handler = token<update_result>(begun, [self = shared_from_this(), by, begun, loaded,
                                              &versions, base](bool ok, const update_result&) {
    const auto has = [&loaded](const known_version& version) {
      return std::ranges::all_of(loaded, [&version](const tensor& each) {
        return stored_bytes(each) == version.stored.at(std::string(each.name()));
      });
    };
    const bool is_right =
        has(versions[ok ? base + 1 : base]) || (begun->is_lost && has(versions[base + 1]));
    // The restoration fails if another call of the device fails.
    const bool is_reported = begun->code == errc::not_restored;
    if (!is_right && !is_reported && !devices_are_broken()) {
      violation(ok ? "an update left wrong bytes on a GPU"
                   : "a failed update changed bytes on a GPU");
    }
    self->next();
  });
  call([&] { update_async(*by, into, versions[base + 1].delta, std::move(handler)); });
}

}  // namespace ringload::simulation
