// SPDX-License-Identifier: Apache-2.0

// Makes random loads for a given time: checkpoints of all shapes, both engines, all routes, several
// loads at once. Loads are cancelled and abandoned in every way, and files are damaged or removed
// meanwhile. Every byte of a successful load is checked, every failure must have a simulated cause,
// and memory and descriptors must not grow after the warm-up.

#include <unistd.h>

#include <fmt/core.h>
#include <CLI/CLI.hpp>
#include <atomic>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <random>
#include <ringload/ringload.hpp>
#include <span>
#include <string>
#include <vector>

namespace {

using namespace ringload;
using clock_type = std::chrono::steady_clock;
namespace asio = boost::asio;
namespace fs = std::filesystem;

constexpr std::chrono::seconds patience{120};
constexpr int checkpoints = 12;
constexpr int loads_at_once_max = 6;
constexpr int rounds_per_loader = 25;
constexpr int warm_up_rounds = 30;
constexpr long resident_growth_kib_max = 96 * 1024;

// Computes the bytes at an offset of a file's data, so that no copy is needed for the comparison.
// `into` receives the words that contain the bytes.
std::span<const char> bytes_at(std::uint64_t seed, std::uint64_t offset, std::uint64_t bytes,
                               std::vector<std::uint64_t>& into) {
  const std::uint64_t first = offset / 8;
  into.resize((offset + bytes + 7) / 8 - first);
  std::uint64_t at = seed * 0x9e3779b97f4a7c15U + first;
  for (std::uint64_t& word : into) {
    word = at++ * 0xbf58476d1ce4e5b9U;
    word ^= word >> 29;
  }
  return {reinterpret_cast<const char*>(into.data()) + offset % 8, bytes};
}

struct checkpoint {
  fs::path path;
  std::uint64_t seed = 0;
  std::uint64_t data_begin = 0;
  std::vector<std::uint64_t> offsets;  // Of tensor "t0", "t1" and so on, in the file's data.
};

struct tally {
  std::uint64_t loads = 0;
  std::uint64_t succeeded = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t failed_as_meant = 0;
  std::uint64_t bytes = 0;
  std::uint64_t loaders = 0;
};

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what); }

class soak {
 public:
  soak(fs::path folder, std::uint64_t seed) : folder_(std::move(folder)), random_(seed) {
    fs::create_directories(folder_);
    for (int i = 0; i < checkpoints; ++i) made_.push_back(make(i));
  }

  void round() {
    if (!loader_ || ++rounds_on_loader_ > rounds_per_loader) renew_loader();
    const std::uint64_t count = 1 + pick(loads_at_once_max);
    for (std::uint64_t i = 0; i < count; ++i) one_load();
  }

  void end() { loader_.reset(); }

  tally done;

 private:
  std::uint64_t pick(std::uint64_t below) { return random_() % below; }

  checkpoint make(int index) {
    checkpoint c;
    c.path = folder_ / fmt::format("soak{}.safetensors", index);
    c.seed = random_();
    std::string header = "{";
    std::uint64_t at = 0;
    const std::uint64_t tensors = index == 0 ? 0 : index == 1 ? 5000 : 1 + pick(60);
    for (std::uint64_t t = 0; t < tensors; ++t) {
      const std::uint64_t kinds[] = {0, 1 + pick(64), pick(10'000), pick(2'000'000)};
      const std::uint64_t elements = kinds[index == 1 ? 1 : pick(4)];
      const bool wide = pick(2) == 0;
      const std::uint64_t bytes = elements * (wide ? 4 : 1);
      header += fmt::format(R"({}"t{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                            t == 0 ? "" : ",", t, wide ? "F32" : "U8", elements, at, at + bytes);
      c.offsets.push_back(at);
      at += bytes;
    }
    header += "}" + std::string(pick(9), ' ');
    c.data_begin = 8 + header.size();
    std::ofstream out(c.path, std::ios::binary);
    for (unsigned i = 0; i < 8; ++i) out.put(static_cast<char>(header.size() >> (8 * i)));
    out << header;
    const std::span<const char> data = bytes_at(c.seed, 0, at, words_);
    out.write(data.data(), static_cast<std::streamsize>(at));
    if (!out.flush()) fail("cannot write " + c.path.string());
    return c;
  }

  void renew_loader() {
    loader_.reset();
    loader_options within;
    within.slots = static_cast<std::uint32_t>(1 + pick(16));
    within.slot_bytes = std::uint64_t{64 * 1024} << pick(6);
    within.bytes_in_flight = pick(2) == 0 ? 0 : 1 + pick(16 << 20);
    within.cached_bytes = pick(2) == 0 ? 0 : pick(64 << 20);
    within.engine = pick(3) == 0 ? read_engine::threads : read_engine::automatic;
    within.copy_threads = static_cast<std::uint32_t>(1 + pick(4));
    within.reader_threads = static_cast<std::uint32_t>(1 + pick(8));
    loader_ = std::make_unique<loader>(host(), within);
    rounds_on_loader_ = 0;
    ++done.loaders;
  }

  load_options random_options() {
    load_options how;
    how.open.strictness = pick(2) == 0 ? strictness::strict : strictness::reference;
    how.route = pick(2) == 0 ? read_route::automatic : read_route::buffered;
    return how;
  }

  void one_load() {
    ++done.loads;
    const checkpoint& c = made_[pick(made_.size())];
    switch (pick(6)) {
      case 0: return cancelled_load(c);
      case 1: return abandoned_load(c);
      case 2: return damaged_load(c);
      case 3: return tensor_by_tensor(c);
      default: return concurrent_loads(c);
    }
  }

  template <class T>
  T await(std::future<T>& answer) {
    if (answer.wait_for(patience) != std::future_status::ready) fail("a load hangs");
    return answer.get();
  }

  void concurrent_loads(const checkpoint& first) {
    const checkpoint& second = made_[pick(made_.size())];
    auto a = loader_->load_async(first.path.string(), random_options(),
                                 as_exception(boost::asio::use_future));
    auto b = loader_->load_async(second.path.string(), random_options(),
                                 as_exception(boost::asio::use_future));
    check(first, await(a));
    check(second, await(b));
    ++done.loads;
    done.succeeded += 2;
  }

  void tensor_by_tensor(const checkpoint& c) {
    auto started = loader_->start_async(c.path.string(), random_options(),
                                        as_exception(boost::asio::use_future));
    load_operation load = await(started);
    const std::size_t count = load.catalog().tensors.size();
    if (count > 0) {
      const std::string name = load.catalog().tensors[pick(count)].name;
      auto one = load.tensor_async(name, as_exception(boost::asio::use_future));
      check(c, await(one));
    }
    for (std::size_t seen = 0;; ++seen) {
      auto next = load.next_async(as_exception(boost::asio::use_future));
      const std::optional<tensor> landed = await(next);
      if (!landed && seen != count) fail("next_async did not give every tensor");
      if (!landed) break;
      check(c, *landed);
    }
    auto whole = load.finish_async(as_exception(boost::asio::use_future));
    check(c, await(whole));
    ++done.succeeded;
  }

  void cancelled_load(const checkpoint& c) {
    auto started = loader_->start_async(c.path.string(), random_options(),
                                        as_exception(boost::asio::use_future));
    load_operation load = await(started);
    auto whole = load.finish_async(as_exception(boost::asio::use_future));
    for (std::uint64_t spin = pick(20'000); spin > 0; --spin)
      std::atomic_signal_fence(std::memory_order_seq_cst);
    load.cancel();
    try {
      check(c, await(whole));
      ++done.succeeded;  // The load completed before the cancellation.
    } catch (const error& e) {
      if (e.code() != asio::error::operation_aborted) throw;
      ++done.cancelled;
    }
  }

  void abandoned_load(const checkpoint& c) {
    auto started = loader_->start_async(c.path.string(), random_options(),
                                        as_exception(boost::asio::use_future));
    {
      const load_operation gone = await(started);
    }
    if (pick(4) == 0) loader_.reset();
    if (!loader_) renew_loader();
    ++done.cancelled;
  }

  // A copy of the checkpoint that is truncated, overwritten or removed before or during the load.
  void damaged_load(const checkpoint& c) {
    const fs::path copy = folder_ / "damaged.safetensors";
    fs::copy_file(c.path, copy, fs::copy_options::overwrite_existing);
    const std::uint64_t whole_bytes = fs::file_size(copy);
    const std::uint64_t what = pick(3);
    if (what == 0) fs::resize_file(copy, pick(whole_bytes));
    auto answer =
        loader_->load_async(copy.string(), random_options(), as_exception(boost::asio::use_future));
    if (what == 1) fs::resize_file(copy, pick(whole_bytes));
    if (what == 2) fs::remove(copy);
    try {
      const model landed = await(answer);
      if (what == 0) fail("a truncated file was loaded");
      check(c, landed);
      ++done.succeeded;
    } catch (const error& e) {
      if (std::string(e.what()).find("damaged") == std::string::npos) {
        fail(fmt::format("an error does not name its file: {}", e.what()));
      }
      ++done.failed_as_meant;
    }
  }

  void check(const checkpoint& c, const tensor& t) {
    check_bytes(c, t, c.offsets.at(std::stoul(std::string(t.name().substr(1)))));
  }

  void check(const checkpoint& c, const model& m) {
    for (std::size_t i = 0; i < m.size(); ++i) {
      check_bytes(c, m[i], m.catalog().tensors[i].offset - c.data_begin);
    }
  }

  void check_bytes(const checkpoint& c, const tensor& t, std::uint64_t offset) {
    const std::span<const char> expected = bytes_at(c.seed, offset, t.size_bytes(), words_);
    if (t.size_bytes() > 0 && std::memcmp(t.data(), expected.data(), t.size_bytes()) != 0) {
      fail(fmt::format("{}: the bytes of tensor {} are wrong", c.path.string(), t.name()));
    }
    done.bytes += t.size_bytes();
  }

  const fs::path folder_;
  std::mt19937_64 random_;
  std::vector<checkpoint> made_;
  std::vector<std::uint64_t> words_;
  std::unique_ptr<loader> loader_;
  int rounds_on_loader_ = 0;
};

long resident_kib() {
  std::ifstream statm("/proc/self/statm");
  long total = 0;
  long resident = 0;
  statm >> total >> resident;
  return resident * (::sysconf(_SC_PAGESIZE) / 1024);
}

long open_descriptors() {
  long count = 0;
  for ([[maybe_unused]] const auto& one : fs::directory_iterator("/proc/self/fd")) ++count;
  return count - 1;  // The folder itself.
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Loads at random, and checks everything", "soak");
  double minutes = 1;
  std::uint64_t seed = std::random_device()();
  std::string folder = "soak-files";
  app.add_option("MINUTES", minutes, "How long")->required();
  app.add_option("--seed", seed, "To repeat a run as far as threads let it be repeated");
  app.add_option("--folder", folder, "Where the checkpoints are made");
  CLI11_PARSE(app, argc, argv);

  fmt::print("seed {}\n", seed);
  try {
    soak all(folder, seed);
    for (int i = 0; i < warm_up_rounds; ++i) all.round();
    all.end();
    const long kib_before = resident_kib();
    const long descriptors_before = open_descriptors();

    const auto begin = clock_type::now();
    while (clock_type::now() - begin < std::chrono::duration<double, std::ratio<60>>(minutes)) {
      all.round();
    }
    all.end();
    const long kib_after = resident_kib();
    const long descriptors_after = open_descriptors();
    fmt::print(
        "{} loads on {} loaders: {} whole, {} cancelled, {} failed as they should; {} bytes "
        "checked\nresident {} -> {} KiB, descriptors {} -> {}\n",
        all.done.loads, all.done.loaders, all.done.succeeded, all.done.cancelled,
        all.done.failed_as_meant, all.done.bytes, kib_before, kib_after, descriptors_before,
        descriptors_after);
    if (descriptors_after > descriptors_before) fail("descriptors were lost");
    if (kib_after > kib_before + resident_growth_kib_max) fail("memory was lost");
  } catch (const std::exception& e) {
    fmt::print(stderr, "soak: {}\n", e.what());
    return 1;
  }
  fs::remove_all(folder);
  return 0;
}
