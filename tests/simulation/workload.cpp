// SPDX-License-Identifier: Apache-2.0
#include "workload.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <random>
#include <ringload/cuda.hpp>
#include <ringload/delta.hpp>
#include <ringload/loader.hpp>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

#include "client.hpp"
#include "delta/versions.hpp"
#include "devices.hpp"
#include "http_server.hpp"
#include "power.hpp"
#include "support/converted.hpp"
#include "support/made_checkpoint.hpp"
#include "support/npz_text.hpp"
#include "support/small_options.hpp"
#include "support/temporary_folder.hpp"

namespace ringload::simulation {

struct known_files::files_on_disk {
  static std::vector<testing::made_tensor> mixed() {
    std::vector<testing::made_tensor> tensors = testing::equal_tensors(6, 999);
    tensors.push_back({"large", 300'000});
    tensors.push_back(testing::f32("converted", 20'000));
    tensors.push_back({"empty", 0});
    return tensors;
  }

  files_on_disk() {
    for (const char* name : {"saves", "versions", "chain", "sockets"}) {
      std::filesystem::create_directory(folder.path() / name);
    }
    const auto write = [this](const char* name, const std::string& text) {
      testing::write_file(folder.path() / name, text);
    };
    write("mixed.safetensors", testing::checkpoint_text(mixed()));
    write("many.safetensors", testing::checkpoint_text(testing::equal_tensors(40, 5'000)));
    write("wide.safetensors", testing::checkpoint_text(testing::equal_tensors(24, 70'000)));
    const std::string values = testing::compressible(200'000, 3);
    write("arrays.npz",
          testing::zip_text(
              {testing::member("long", testing::npy_text("|u1", false, "200000,", values), true),
               testing::member("raw", testing::npy_text("|u1", false, "5,", "12345"), false)}));
  }

  std::string path_of(const char* name) const { return (folder.path() / name).string(); }

  // Messages between ranks contain paths, and the length of a message changes the order of events.
  // So this path has the same length in each build.
  testing::temporary_folder folder{"/tmp"};
};

namespace {

// Runs one operation of the first world. `start` is called with a handler.
template <class T, class Start>
T run_alone(asio::io_context& loop, const Start& start) {
  std::optional<T> result;
  start([&result](const boost::system::error_code& failed, T value) {
    if (failed) violation("the files cannot be made: " + failed.message());
    result.emplace(std::move(value));
  });
  loop.restart();
  loop.run();
  if (!result) violation("an operation is pending, and the io_context has no work");
  return std::move(*result);
}

model load_alone(const std::string& path, const load_options& options, device target) {
  asio::io_context loop;
  loader plain(loop, target, testing::small_options());
  return run_alone<model>(
      loop, [&](auto handler) { plain.load_async(path, options, std::move(handler)); });
}

bytes_by_name bytes_of_model(const model& loaded) {
  bytes_by_name all;
  for (const tensor& each : loaded) {
    all.emplace(std::string(each.name()), stored_bytes(each));
  }
  return all;
}

}  // namespace

namespace {

// The devices of a loader.
std::vector<device> any_devices() {
  if (settings().devices == 0 || devices_are_broken() || random(8) == 0) return {host()};
  const auto first = static_cast<int>(random(settings().devices));
  std::vector<device> chosen = {cuda_device(first)};
  for (int i = 0; i < static_cast<int>(settings().devices); ++i) {
    if (i != first && random(2) == 0) chosen.push_back(cuda_device(i));
  }
  if (random(8) == 0) chosen.push_back(host());
  return chosen;
}

}  // namespace

std::shared_ptr<loader> program::make_loader(bool is_shared) {
  constexpr read_engine engines[] = {read_engine::automatic, read_engine::automatic,
                                     read_engine::ring, read_engine::threads};
  for (;;) {
    loader_options limits =
        testing::small_options(settings().slots, engines[random(std::size(engines))]);
    if (settings().refuses_ring && limits.engine == read_engine::ring) continue;
    limits.bytes_in_flight = settings().bytes_in_flight;
    limits.copy_threads = 1 + static_cast<std::uint32_t>(random(3));
    limits.reader_threads = 1 + static_cast<std::uint32_t>(random(3));
    // A third of the loaders does not wait for the reads of a stopped load, or only briefly.
    if (random(3) == 0) limits.stop_time_max = std::chrono::milliseconds(random(20));
    std::vector<device> targets = any_devices();
    if (is_shared) targets = {shared_host()};
    if (settings().devices != 0) {
      limits.cached_bytes = random(3) == 0 ? 0 : 8'000'000;
      limits.peer_copies = random(4) != 0;
    }
    const std::uint64_t faults = hard_faults();
    if (random(2) == 0) fail_allocation_soon();
    try {
      const uncertain_memory engine;
      return std::make_shared<loader>(any_loop().context, std::move(targets), limits, extensions);
    } catch (const std::bad_alloc&) {
      if (hard_faults() == faults) violation("a loader has no memory");
    } catch (const error& refused) {
      if (hard_faults() == faults && !devices_are_broken()) {
        violation(std::string("a loader cannot be made: ") + refused.what());
      }
    }
  }
}

std::shared_ptr<loader> program::any_loader_for(const model& loaded) {
  if (settings().devices == 0) return any_loader();
  std::vector<std::shared_ptr<loader>> suitable;
  for (const std::shared_ptr<loader>& each : loaders) {
    const auto has_device = [&each](const tensor& tested) {
      return tested.device() == host() || std::ranges::count(each->devices(), tested.device()) != 0;
    };
    if (std::ranges::all_of(loaded, has_device)) suitable.push_back(each);
  }
  return suitable.empty() ? nullptr : suitable[random(suitable.size())];
}

void program::check_kept() {
  for (const kept_model& each : kept) check_model(each.loaded, *each.expected);
  for (const attached_model& each : attached) check_model(each.loaded, *each.expected);
}

namespace {

checksum_list digests_of(const bytes_by_name& tensors) {
  checksum_list list;
  for (const auto& [name, bytes] : tensors) {
    const std::uint32_t sum = crc32c(std::as_bytes(std::span(bytes)));
    tensor_digest& digest = list.tensors.emplace_back();
    digest.name = name;
    digest.algorithm = digest_algorithm::crc32c;
    for (int shift = 24; shift >= 0; shift -= 8) {
      digest.bytes.push_back(static_cast<std::byte>(sum >> shift));
    }
  }
  return list;
}

std::size_t open_descriptors() {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    (void)entry;
    ++count;
  }
  return count;
}

void run_loop(event_loop& loop) {
  const certain_memory simulation;
  loop.thread = std::this_thread::get_id();
  loop.context.run();
}

// The world may refuse a thread.
std::thread start_thread_of(event_loop& loop) {
  for (;;) {
    try {
      return std::thread([&loop] { run_loop(loop); });
    } catch (const std::system_error&) {
    }
  }
}

// Runs each loop in a thread. The calling thread runs the first loop.
void run_loops(std::deque<event_loop>& loops) {
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < loops.size(); ++i) threads.push_back(start_thread_of(loops[i]));
  run_loop(loops.front());
  for (std::thread& each : threads) each.join();
}

void run_program(program& all) {
  const std::size_t drawn_loops = random(3) == 0 ? 2 + random(2) : 1;
  const std::size_t loops = std::min<std::size_t>(drawn_loops, settings().loops_max);
  for (std::size_t i = 0; i < loops; ++i) all.loops.emplace_back();
  all.start_remote();
  const std::size_t loaders = std::min<std::size_t>(1 + random(2), settings().loaders_max);
  for (std::size_t i = 0; i < loaders; ++i) all.loaders.push_back(all.make_loader());
  all.start_keeper();
  const std::size_t clients = std::min<std::size_t>(1 + random(4), settings().clients_max);
  for (std::size_t i = 0; i < clients; ++i) {
    const unsigned operations = 1 + static_cast<unsigned>(random(8));
    start_client(all, std::min(operations, settings().operations_max));
  }
  run_loops(all.loops);
  if (all.pending != 0) violation("an operation is pending, and the io_context has no work");
  all.check_kept();
  all.loaders.clear();
  all.end_keeper();
  all.extensions.clear();
  await_freed_memory();
  all.end_remote();  // The last thread may connect to the server until its end.
  all.check_kept();
  all.kept.clear();
  all.attached.clear();
  check_shared_memory();
}

}  // namespace

known_files::known_files()
    : made_(std::make_unique<files_on_disk>()),
      folder_(made_->path_of("saves")),
      version_folder_(made_->path_of("chain")),
      socket_folder_(made_->path_of("sockets")) {
  // Seed 0 has no faults. A load that never ends is a violation of this world.
  world_settings first;
  first.devices = 1;
  begin(first);
  begin_devices();
  learn();
  end_devices();
  end();
}

void known_files::learn() {
  make_versions();
  for (const char* name : {"mixed.safetensors", "many.safetensors", "arrays.npz"}) {
    all_.push_back(know(made_->path_of(name)));
  }
  wide_ = know(made_->path_of("wide.safetensors"));
}

known_file known_files::know(const std::string& path) {
  load_options narrow;
  narrow.dtype = dtype::bf16;
  known_file known;
  known.path = path;
  known.content = content_of(path);
  known.stored = bytes_of_model(load_alone(path, load_options(), host()));
  known.as_bf16 = bytes_of_model(load_alone(path, narrow, host()));
  // The first use of the library for GPUs makes its static objects, which has no place in a trace.
  if (bytes_of_model(load_alone(path, narrow, cuda_device(0))) != known.as_bf16) {
    violation("a GPU has other bytes than the host");
  }
  known.digests = digests_of(known.stored);
  known.wrong_digests = known.digests;
  known.wrong_digests.tensors.back().bytes.back() ^= std::byte{1};
  // A tensor occupies up to three blocks more than its bytes, in whole blocks.
  for (const auto& [name, bytes] : known.stored) {
    known.window_min = std::max<std::uint64_t>(known.window_min, (bytes.size() / 4096 + 4) * 4096);
  }
  return known;
}

// One tensor changes little, one much, one at all elements, one not at all.
void known_files::make_versions() {
  using testing::delta_tests::version;
  std::mt19937_64 random(1);
  version tensors;
  tensors["little"] = {dtype::bf16, {150'000}, testing::noise(300'000, 1)};
  tensors["much"] = {dtype::f32, {9'000}, testing::noise(36'000, 2)};
  tensors["same"] = {dtype::u8, {999}, testing::noise(999, 3)};
  tensors["whole"] = {dtype::u8, {70'000}, testing::noise(70'000, 4)};
  asio::io_context loop;
  loader plain(loop, host(), testing::small_options());
  for (unsigned v = 0; v < 3; ++v) {
    known_version& made = versions_.emplace_back();
    const std::string begin = version_folder_ + "/v" + std::to_string(v);
    made.path = (v == 0 ? begin : made_->path_of("versions") + "/full" + std::to_string(v)) +
                ".safetensors";
    std::vector<tensor_ref> refs;
    for (const auto& [name, each] : tensors) {
      refs.emplace_back(name, each.bytes.data(), each.dtype, each.shape);
      made.stored[name] = each.bytes;
    }
    run_alone<save_result>(
        loop, [&](auto handler) { plain.save_async(made.path, refs, std::move(handler)); });
    for (const tensor_info& info : read_catalog(made.path).tensors) made.tensors[info.name] = info;
    if (v > 0) {
      made.delta = begin + ".delta.zt";
      run_alone<delta_result>(loop, [&](auto handler) {
        save_delta_async(plain, made.delta, versions_[v - 1].path, made.path, std::move(handler));
      });
    }
    testing::delta_tests::train(tensors["little"], 20, random);
    testing::delta_tests::train(tensors["much"], 900, random);
    tensors["whole"].bytes = testing::noise(70'000, 5 + v);
  }
}

known_files::~known_files() = default;

run_result run_world(const world_settings& chosen, const known_files& files) {
  for (const auto& entry : std::filesystem::directory_iterator(files.folder())) {
    std::filesystem::remove_all(entry.path());
  }
  const std::size_t descriptors = open_descriptors();
  begin(chosen);
  const certain_memory simulation;
  run_result result;
  {
    begin_power(files.folder());
    begin_devices();
    program all(files);
    run_program(all);
    result = all.result;
  }
  end_devices();
  result.operations = operations();
  result.trace_hash = trace_hash();
  result.transfers = reads_and_writes();
  result.turns = turns();
  if (open_descriptors() != descriptors) violation("descriptors are left open");
  cut_power();
  end_power();
  for (const auto& entry : std::filesystem::directory_iterator(files.folder())) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("saved")) violation("a save left the file " + name);
  }
  end();
  return result;
}

}  // namespace ringload::simulation
