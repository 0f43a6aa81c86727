// SPDX-License-Identifier: Apache-2.0

// Measures deltas of a model that a low-rate optimiser changes: their size, and the time until the
// next version is in memory.
//
// Weights are bf16. An optimiser changes f32 copies of them, so that about 2 % of the bf16 weights
// change from one version to the next. The time of each way to the next version is measured in
// turn, from the file to the last byte:
//
//   load     the full version, cold and from the page cache
//   delta    the load of the delta alone, which is a part of the next ways
//   apply    the delta, to a new model. The old version stays. Once with new memory, and once with
//            the memory of the version before the old version, which the loader has kept
//   update   the delta, in place. "applied" is the part of the update after the load of the delta
//   memcpy   of the changed tensors, into populated memory, as the ceiling of an update
//
// At the end, the models after all deltas are compared with the last full version.

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <cmath>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <random>
#include <ringload/ringload.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "arguments.hpp"

namespace {

using namespace ringload;
using boost::asio::use_future;

constexpr std::uint64_t tensor_elements = std::uint64_t{1} << 24;

std::uint16_t to_bf16(float value) noexcept {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<std::uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

// The generator splitmix64.
struct fast_random {
  std::uint64_t state = 0;

  std::uint64_t next() noexcept {
    std::uint64_t bits = state += 0x9E3779B97F4A7C15U;
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9U;
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBU;
    return bits ^ (bits >> 31);
  }
};

// The weights of one tensor, as the optimiser has them.
struct trained_tensor {
  std::string name;
  fast_random random;
  std::vector<float> master;
  std::vector<std::uint16_t> weights;

  void round() {
    for (std::size_t i = 0; i < master.size(); ++i) weights[i] = to_bf16(master[i]);
  }
  void step() {
    for (float& weight : master) {
      const auto noise = static_cast<float>(static_cast<std::int32_t>(random.next() >> 32));
      // A bf16 step is 2^-8 of the weight or more. The change is at most 0.055 of this step.
      weight += weight * (noise * 0x1p-31F) * 0.055F * 0x1p-8F;
    }
    round();
  }
};

// Calls `work(tensor)` for each tensor, in two threads.
template <class Work>
void for_each_tensor(std::vector<trained_tensor>& tensors, const Work& work) {
  std::atomic<std::size_t> next = 0;
  const auto run = [&] {
    for (std::size_t i = next++; i < tensors.size(); i = next++) work(tensors[i]);
  };
  std::thread other(run);
  run();
  other.join();
}

std::vector<trained_tensor> make_model(std::uint64_t bytes) {
  std::vector<trained_tensor> tensors;
  for (std::uint64_t left = bytes / 2; left > 0;) {
    trained_tensor& tensor = tensors.emplace_back();
    tensor.random.state = tensors.size();
    tensor.name = "layers." + std::to_string(tensors.size() - 1) + ".weight";
    tensor.master.resize(std::min(left, tensor_elements));
    left -= tensor.master.size();
  }
  for_each_tensor(tensors, [](trained_tensor& tensor) {
    std::normal_distribution<float> weights(0, 0.02F);
    std::mt19937_64 random(tensor.random.state);
    tensor.weights.resize(tensor.master.size());
    for (float& weight : tensor.master) weight = weights(random);
    tensor.round();
  });
  return tensors;
}

void train(std::vector<trained_tensor>& tensors) {
  for_each_tensor(tensors, [](trained_tensor& tensor) { tensor.step(); });
}

void save(loader& host_loader, const std::string& path,
          const std::vector<trained_tensor>& tensors) {
  std::vector<tensor_ref> refs;
  for (const trained_tensor& tensor : tensors) {
    refs.emplace_back(tensor.name, tensor.weights.data(), dtype::bf16,
                      std::vector<std::uint64_t>{tensor.weights.size()});
  }
  save_options options;
  options.alignment = 4096;
  host_loader.save_async(path, refs, options, use_future).get();
}

// Drops the file from the page cache.
void make_cold(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0 || ::fsync(file) != 0 || ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) != 0) {
    throw std::runtime_error("cannot drop " + path + " from the page cache");
  }
  ::close(file);
}

// The time of one way: of the clock, and of all processors together. The second one does not count
// the time that other programs of the machine take.
struct way_time {
  double seconds = 0;
  double cpu_seconds = 0;
};

double cpu_seconds() {
  ::timespec now = {};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

template <class Work>
way_time time_of(const Work& work) {
  const auto begun = std::chrono::steady_clock::now();
  const double cpu_begun = cpu_seconds();
  work();
  way_time time;
  time.cpu_seconds = cpu_seconds() - cpu_begun;
  time.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  return time;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

load_options options_of(read_route route) {
  load_options options;
  options.route = route;
  options.allocation = allocation::per_tensor;
  return options;
}

std::vector<destination> destinations_of(const model& source) {
  std::vector<destination> into;
  for (const tensor& each : source) {
    into.emplace_back(std::string(each.name()), each.data(), each.dtype(),
                      std::vector<std::uint64_t>(each.shape().begin(), each.shape().end()));
  }
  return into;
}

bool equal(const model& left, const model& right) {
  return left.size() == right.size() && std::all_of(left.begin(), left.end(), [&](const tensor& t) {
           const tensor other = right.find(t.name());
           return other && other.size_bytes() == t.size_bytes() &&
                  std::memcmp(other.data(), t.data(), t.size_bytes()) == 0;
         });
}

// The files of a series of versions: the first and the last as a whole, and all deltas.
class version_folder {
 public:
  version_folder(std::string folder, int versions)
      : folder_(std::move(folder)), versions_(versions) {
    std::filesystem::create_directories(folder_);
  }

  std::string full(int version) const {
    return folder_ + "/v" + std::to_string(version) + ".safetensors";
  }
  std::string delta(int version) const {
    return folder_ + "/v" + std::to_string(version) + ".delta.zt";
  }
  int versions() const { return versions_; }
  void remove() const {
    for (int v = 1; v <= versions_; ++v) std::filesystem::remove(delta(v));
    std::filesystem::remove(full(0));
    std::filesystem::remove(full(versions_));
  }

 private:
  const std::string folder_;
  const int versions_;
};

void print_row(const char* name, const std::vector<way_time>& times, double bytes, double load) {
  std::vector<double> seconds, cpu;
  for (const way_time& time : times) {
    seconds.push_back(time.seconds);
    cpu.push_back(time.cpu_seconds);
  }
  const double middle = median(seconds);
  const double cpu_middle = median(cpu);
  const std::string cpu_text = cpu_middle > 0 ? fmt::format("{:.3f} s of CPU", cpu_middle) : "";
  fmt::print("{:<28}{:>8.3f} s{:>17}{:>8.2f} GB/s", name, middle, cpu_text, bytes / middle / 1e9);
  if (load > 0) fmt::print("{:>8.2f} times as fast as the cold load", load / middle);
  fmt::print("\n");
}

// Trains the versions and writes their deltas.
void prepare(const version_folder& files, std::uint64_t bytes) {
  loader host_loader;
  std::vector<trained_tensor> tensors = make_model(bytes);
  save(host_loader, files.full(0), tensors);
  std::vector<double> sizes, changed;
  std::vector<way_time> times;
  for (int v = 1; v <= files.versions(); ++v) {
    train(tensors);
    save(host_loader, files.full(v), tensors);
    const delta_result made =
        save_delta_async(host_loader, files.delta(v), files.full(v - 1), files.full(v), use_future)
            .get();
    sizes.push_back(100 * static_cast<double>(made.bytes) / static_cast<double>(bytes));
    changed.push_back(100 * static_cast<double>(made.elements_changed) /
                      static_cast<double>(made.elements));
    times.push_back({made.seconds, 0});
    if (v > 1) std::filesystem::remove(files.full(v - 1));
  }
  fmt::print("{} versions of {} MiB, {:.2f} % of the elements change, medians\n", files.versions(),
             bytes >> 20, median(changed));
  fmt::print("delta                         {:>9.2f} % of the model, at most {:.2f} %\n",
             median(sizes), *std::max_element(sizes.begin(), sizes.end()));
  print_row("make the delta", times, static_cast<double>(bytes), 0);
}

// Measures each way to the next version, for all deltas in turn. Holds five copies of the model.
class measurement {
 public:
  explicit measurement(const version_folder& files) : files_(files) {}

  int run() {
    applied_ =
        loader_.load_async(files_.full(0), options_of(read_route::automatic), use_future).get();
    updated_ =
        loader_.load_async(files_.full(0), options_of(read_route::automatic), use_future).get();
    loader_options keeping;
    keeping.cached_bytes = std::uint64_t{1} << 40;
    loader keeping_loader(host(), keeping);
    reused_ =
        keeping_loader.load_async(files_.full(0), options_of(read_route::automatic), use_future)
            .get();
    for (int v = 1; v <= files_.versions(); ++v) {
      load_last();
      load_delta(files_.delta(v));
      apply(loader_, applied_, files_.delta(v), apply_cold_);
      apply(keeping_loader, reused_, files_.delta(v), apply_reused_);
      update(files_.delta(v));
      copy();
    }
    reused_ = {};
    return report();
  }

 private:
  // All versions have one size, so the last version stands for each version.
  void load_last() {
    const std::string path = files_.full(files_.versions());
    const auto load = [&](read_route route) {
      loader_.load_async(path, options_of(route), use_future).get();
    };
    make_cold(path);
    load_cold_.push_back(time_of([&] { load(read_route::automatic); }));
    load(read_route::buffered);
    load_warm_.push_back(time_of([&] { load(read_route::automatic); }));
  }

  void load_delta(const std::string& delta) {
    make_cold(delta);
    delta_cold_.push_back(time_of([&] { loader_.load_async(delta, use_future).get(); }));
  }

  static void apply(loader& host_loader, model& current, const std::string& delta,
                    std::vector<way_time>& times) {
    make_cold(delta);
    model next;
    times.push_back(
        time_of([&] { next = apply_async(host_loader, current, delta, use_future).get(); }));
    current = std::move(next);
  }

  void update(const std::string& delta) {
    auto into = destinations_of(updated_);
    make_cold(delta);
    update_result result;
    update_cold_.push_back(
        time_of([&] { result = update_async(loader_, into, delta, use_future).get(); }));
    update_applied_.push_back({result.seconds, 0});
  }

  // Both models are the same version now, so the copy changes no byte.
  void copy() {
    copy_.push_back(time_of([&] {
      for (const tensor& from : applied_) {
        std::memcpy(updated_.at(from.name()).data(), from.data(), from.size_bytes());
      }
    }));
  }

  int report() {
    std::uint64_t bytes = 0;
    for (const tensor& each : applied_) bytes += each.size_bytes();
    const bool are_equal = equal(applied_, updated_);
    applied_ = {};
    const model last = loader_.load_async(files_.full(files_.versions()), use_future).get();
    const bool is_right = are_equal && equal(updated_, last);
    std::vector<double> loads;
    for (const way_time& time : load_cold_) loads.push_back(time.seconds);
    const double load = median(loads);
    const auto row = [&](const char* name, const std::vector<way_time>& times) {
      print_row(name, times, static_cast<double>(bytes), load);
    };
    row("load, cold", load_cold_);
    row("load, page cache", load_warm_);
    row("load of the delta, cold", delta_cold_);
    row("apply, cold", apply_cold_);
    row("apply, cold, kept memory", apply_reused_);
    row("update, cold", update_cold_);
    row("update, applied", update_applied_);
    row("memcpy, one thread", copy_);
    fmt::print("after {} deltas: {}\n", files_.versions(),
               is_right ? "equal to the last version" : "NOT EQUAL to the last version");
    return is_right ? 0 : 1;
  }

  const version_folder& files_;
  loader loader_;
  model applied_;
  model updated_;
  model reused_;
  std::vector<way_time> load_cold_, load_warm_, delta_cold_, apply_cold_, apply_reused_,
      update_cold_, update_applied_, copy_;
};

}  // namespace

int main(int argc, char** argv) {
  std::string folder;
  unsigned mib = 1024;
  int versions = 20;
  std::string stage = "all";
  bench::arguments parser("Measures deltas of a model that a low-rate optimiser changes.");
  parser.add_option("FOLDER", folder, "Where the versions are written").required();
  parser.add_option("--mib", mib, "The size of the model. Default: 1,024").positive();
  parser.add_option("--versions", versions, "Default: 20").positive();
  parser
      .add_option("--stage", stage,
                  "prepare: writes the versions; measure: uses them; default all: removes them too")
      .among({"all", "prepare", "measure"});
  if (const auto code = parser.parse(argc, argv)) return *code;
  try {
    const version_folder files(folder, versions);
    if (stage != "measure") prepare(files, std::uint64_t{mib} << 20);
    const int code = stage != "prepare" ? measurement(files).run() : 0;
    if (stage == "all") files.remove();
    return code;
  } catch (const std::exception& failure) {
    fmt::print(stderr, "bench_delta: {}\n", failure.what());
    return 1;
  }
}
