// SPDX-License-Identifier: Apache-2.0

// Causes faults of deltas one after another. After each fault, the old version is intact. A
// separate executable, because the program starts and kills copies of itself.
//
// Environment: RINGLOAD_WALK_ROUNDS, RINGLOAD_WALK_SEED.

#include <doctest/doctest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/system_executor.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "delta/versions.hpp"
#include "support/effort.hpp"
#include "support/failing_new.hpp"
#include "support/scripted_reader.hpp"

using namespace ringload;
using namespace ringload::testing;
using namespace ringload::testing::delta_tests;

namespace {

// A random allocation with a number below this limit fails. An operation has a few hundred.
constexpr std::uint64_t allocations_max = 400;

constexpr const char* killed_folder = "RINGLOAD_KILLED_FOLDER";

std::uint64_t number_in(const char* variable, std::uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

enum class fault_kind { kill, read_error, bad_digest, missing_link, cancel, full_disk, no_memory };
constexpr std::array all_faults = {
    fault_kind::kill,   fault_kind::read_error, fault_kind::bad_digest, fault_kind::missing_link,
    fault_kind::cancel, fault_kind::full_disk,  fault_kind::no_memory};

// Files of this process cannot become larger, as on a full drive: EFBIG.
class file_size_limit {
 public:
  explicit file_size_limit(std::uint64_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit lowered = before_;
    lowered.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &lowered);
  }
  file_size_limit(const file_size_limit&) = delete;
  file_size_limit& operator=(const file_size_limit&) = delete;
  ~file_size_limit() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_ = {};
};

// The result of an operation.
template <class T>
struct outcome {
  std::optional<T> value;
  std::string failure;
};

class fault_walk {
 public:
  explicit fault_walk(std::uint64_t seed) : random_(seed) {
    versions_.push_back(random_version(random_, 3));
    versions_[0]["sparse"] = {dtype::bf16, {30'000}, noise(60'000, 1)};
    versions_[0]["dense"] = {dtype::f32, {9'000}, noise(36'000, 2)};
    versions_[0]["whole"] = {dtype::u8, {5'000}, noise(5'000, 3)};
    std::filesystem::create_directory(at_.path("v"));
    at_.save("v/v0.safetensors", versions_[0]);
    for (unsigned v = 1; v <= 3; ++v) {
      version next = versions_.back();
      train_each_form(next, v, random_);
      versions_.push_back(next);
      at_.save(full(v), next);
      at_.make(delta(v), at_.path(full(v - 1)), at_.path(full(v)));
    }
    delta_options with_index;
    with_index.indexed.emplace();
    at_.make(indexed(), at_.path(full(0)), at_.path(full(1)), with_index);
    loaded_ = at_.load(full(0));
    engine_ = detail::engine::make({host()}, small_options(), script_.wrapper());
    script_.runs_in(engine_->loop);
  }
  ~fault_walk() { engine_->close(); }

  void round() {
    const fault_kind fault = all_faults[random_() % all_faults.size()];
    CAPTURE(static_cast<int>(fault));
    lacks_memory_ = fault == fault_kind::no_memory;
    if (fault == fault_kind::kill) return kill_a_writer();
    if (fault == fault_kind::full_disk) return fill_the_disk();
    damaged_.clear();
    if (fault == fault_kind::bad_digest) damage();
    if (fault == fault_kind::missing_link) hide();
    if (fault == fault_kind::read_error) fail_reads();
    const bool cancels = fault == fault_kind::cancel;
    switch (random_() % 6) {
      case 0: apply(cancels, delta(1)); break;
      case 1: update(cancels, delta(1)); break;
      case 3: apply(cancels, indexed()); break;
      case 4: update(cancels, indexed()); break;
      case 2: load_chain(cancels); break;
      default: make(cancels);
    }
    script_.follow({});
    repair();
    CHECK(tensors_of(loaded_) == versions_[0]);
  }

  unsigned failures() const { return failures_; }

 private:
  static std::string full(unsigned version) {
    return (version == 0 ? "v/v" : "full") + std::to_string(version) + ".safetensors";
  }
  static std::string delta(unsigned version) {
    return "v/v" + std::to_string(version) + ".delta.zt";
  }

  // A delta in the layout with an index, from version 0 to version 1.
  static std::string indexed() { return "weight_v000001"; }

  void choose_damaged() {
    const auto number = static_cast<unsigned>(random_() % 5);
    damaged_ = number < 3    ? delta(1 + number)
               : number == 3 ? indexed() + "/model.safetensors.index.json"
                             : indexed() + "/" + indexed_shard_;
  }
  void damage() {
    choose_damaged();
    kept_ = text_of(at_.path(damaged_));
    std::string text = kept_;
    char& byte = text[random_() % text.size()];
    byte = static_cast<char>(byte ^ static_cast<char>(1U << (random_() % 8)));
    std::ofstream(at_.path(damaged_), std::ios::binary) << text;
  }
  void hide() {
    choose_damaged();
    kept_ = text_of(at_.path(damaged_));
    std::filesystem::remove(at_.path(damaged_));
  }
  void repair() {
    if (!damaged_.empty()) std::ofstream(at_.path(damaged_), std::ios::binary) << kept_;
  }
  void fail_reads() {
    const std::uint64_t first = script_.started() + random_() % 8;
    script_.follow([first](const io_request&, std::uint64_t number) {
      read_fate fate;
      if (number >= first) fate.result = -EIO;
      return fate;
    });
  }

  // Starts an operation, cancels it after a random time if `cancels`, and waits for its result.
  template <class T, auto Begin, class Request>
  outcome<T> run(Request request, bool cancels) {
    outcome<T> out;
    asio::cancellation_signal signal;
    std::optional<failing_at> failing;
    if (lacks_memory_) failing.emplace(static_cast<std::int64_t>(random_() % allocations_max));
    try {
      auto waiting =
          detail::initiate<T, Begin>(asio::bind_cancellation_slot(signal.slot(), future),
                                     asio::system_executor(), engine_, std::move(request));
      if (cancels) {
        std::this_thread::sleep_for(std::chrono::microseconds(random_() % 6'000));
        signal.emit(asio::cancellation_type::terminal);
      }
      out.value = waiting.get();
    } catch (const error& e) {
      out.failure = std::string("error: ") + e.what();
    } catch (const std::bad_alloc&) {
      // There was no memory for the text of the error.
    } catch (const std::future_error&) {
      // There was no memory for the completion.
    }
    if (!out.value) ++failures_;
    return out;
  }

  void check_names_file(const std::string& failure, const std::string& name) const {
    if (damaged_ != name || failure.empty()) return;
    CAPTURE(failure);
    CHECK(failure.find(std::filesystem::path(name).filename().string()) != std::string::npos);
  }

  // An index may be damaged so that its error names a file that does not exist, so only the folder
  // is checked.
  void check_names_delta(const std::string& failure, const std::string& name) const {
    if (name != indexed()) return check_names_file(failure, name);
    if (!damaged_.starts_with(name) || failure.empty()) return;
    CAPTURE(failure);
    CHECK(failure.find(name) != std::string::npos);
  }

  void apply(bool cancels, const std::string& name) {
    const auto out = run<model, &detail::begin_apply>(
        detail::apply_request{loaded_, at_.path(name), {}}, cancels);
    if (out.value) CHECK(tensors_of(*out.value) == versions_[1]);
    check_names_delta(out.failure, name);
  }

  void update(bool cancels, const std::string& name) {
    // In every second round, the memory has another version than the base of the delta.
    const unsigned has = static_cast<unsigned>(random_() % 2);
    owned_version memory(versions_[has]);
    const auto out = run<update_result, &detail::begin_update>(
        detail::update_request{memory.destinations(), at_.path(name), {}}, cancels);
    if (out.value) CHECK(has == 0);
    CHECK(memory.tensors == versions_[out.value ? 1 : has]);
    check_names_delta(out.failure, name);
  }

  void load_chain(bool cancels) {
    const auto out = run<model, &detail::begin_load_version>(
        detail::version_request{at_.path("v"), {}}, cancels);
    // Without the last link, the newest version is the one before.
    const bool lacks_last = damaged_ == delta(3) && !std::filesystem::exists(at_.path(damaged_));
    if (out.value) CHECK(tensors_of(*out.value) == versions_[lacks_last ? 2 : 3]);
    check_names_file(out.failure, damaged_);
  }

  // The file is missing, or is the delta to the next version.
  void check_made(bool must_exist) {
    const bool exists = std::filesystem::exists(at_.path("made.zt"));
    CHECK((exists || !must_exist));
    if (!exists) return;
    CHECK(tensors_of(at_.apply(loaded_, "made.zt")) == versions_[1]);
    std::filesystem::remove(at_.path("made.zt"));
  }

  detail::delta_request make_request() const {
    delta_options options;
    options.sync = false;
    return {at_.path("made.zt"), at_.path(full(0)), at_.path(full(1)), options};
  }

  void make(bool cancels) {
    const auto out = run<delta_result, &detail::begin_save_delta>(make_request(), cancels);
    check_made(out.value.has_value());
  }

  void fill_the_disk() {
    const std::uint64_t bytes = std::filesystem::file_size(at_.path(delta(1)));
    const file_size_limit limit(random_() % (bytes + bytes / 4));
    const auto out = run<delta_result, &detail::begin_save_delta>(make_request(), false);
    check_made(out.value.has_value());
  }

  void kill_a_writer() {
    const std::string folder = at_.folder.path().string();
    std::vector<std::string> arguments = {"/proc/self/exe", "--no-skip",
                                          "--test-case=killed writer"};
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    ::setenv(killed_folder, folder.c_str(), 1);
    const pid_t child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::close(STDOUT_FILENO);
      ::execv(argv[0], argv.data());
      ::_exit(127);
    }
    REQUIRE(child > 0);
    std::this_thread::sleep_for(std::chrono::microseconds(random_() % 60'000));
    ::kill(child, SIGKILL);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status));
    ++failures_;
    check_made(false);
    CHECK(tensors_of(at_.load(full(0))) == versions_[0]);
  }

  place at_;
  std::mt19937_64 random_;
  std::vector<version> versions_;
  model loaded_;  // Version 0.
  read_script script_;
  std::shared_ptr<detail::engine> engine_;
  bool lacks_memory_ = false;  // An allocation of the library fails in this round.
  const std::string indexed_shard_ = "model-00001.safetensors";
  std::string damaged_;  // A file that is changed or removed in this round, and its bytes.
  std::string kept_;
  unsigned failures_ = 0;
};

}  // namespace

TEST_CASE("killed writer" * doctest::skip()) {
  const char* const folder = std::getenv(killed_folder);
  REQUIRE(folder != nullptr);
  const std::string path = folder;
  loader host_loader(host(), small_options());
  for (;;) {
    save_delta_async(host_loader, path + "/made.zt", path + "/v/v0.safetensors",
                     path + "/full1.safetensors", future)
        .get();
  }
}

TEST_CASE("delta faults: after each fault the old version is whole") {
  const std::uint64_t seed = number_in("RINGLOAD_WALK_SEED", 20261124);
  const std::uint64_t rounds = number_in("RINGLOAD_WALK_ROUNDS", 400 * effort_percent / 100);
  CAPTURE(seed);
  fault_walk walk(seed);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    CAPTURE(round);
    walk.round();
  }
  MESSAGE(rounds << " rounds, " << walk.failures() << " of them failed");
  CHECK(walk.failures() > rounds / 4);
}
