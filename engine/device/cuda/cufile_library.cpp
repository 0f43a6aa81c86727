// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/cufile_library.hpp"

#include <dlfcn.h>
#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <ringload/cuda.hpp>
#include <system_error>
#include <thread>
#include <utility>

#include "base/catch_as_fault.hpp"
#include "base/signals_blocked.hpp"
#include "device/cuda/runtime.hpp"

namespace ringload::inline v0::cuda::cufile {

using boost::system::error_code;

namespace {

constexpr int driver_not_initialized = 5001;
constexpr int cuda_driver_error = 5011;

class category_type final : public boost::system::error_category {
 public:
  const char* name() const noexcept override { return "cufile"; }

  std::string message(int value) const override {
    switch (value) {
      case driver_not_initialized: return "cuFile 5001: the driver nvidia-fs is not loaded";
      case 5002: return "cuFile 5002: an invalid property";
      case 5004: return "cuFile 5004: another version of the driver nvidia-fs is needed";
      case 5007: return "cuFile 5007: not supported on this platform";
      case 5008: return "cuFile 5008: not supported for this file";
      case 5009: return "cuFile 5009: not supported on this GPU";
      case 5010: return "cuFile 5010: the driver nvidia-fs failed";
      case 5018: return "cuFile 5018: not a regular file";
      case 5020: return "cuFile 5020: the file is not open for direct reads";
      case 5025: return "cuFile 5025: permission denied";
      case 5034: return "cuFile 5034: switched off for this file";
      case 5036: return "cuFile 5036: the GPU's memory cannot be pinned";
      default: return "cuFile " + std::to_string(value);
    }
  }
};

fault unavailable(std::string cause) {
  return {errc::device_unavailable, "GPUDirect Storage", std::move(cause)};
}

std::string last_error_of_loading() {
  const char* const message = ::dlerror();
  return message != nullptr ? message : "cuFile cannot be loaded";
}

result<functions> load_library(const std::string& name) {
  // The library is never closed, because the library has running threads.
  void* const library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return unavailable(last_error_of_loading());
  functions out;
  bool has_all = true;
  // After a missing function, looks up no other function, because dlsym would clear the message of
  // dlerror().
  const auto find = [library, &has_all](const char* symbol, auto& function) {
    if (!has_all) return;
    void* const found = ::dlsym(library, symbol);
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
    has_all = found != nullptr;
  };
  find("cuFileSetParameterBool", out.cuFileSetParameterBool);
  has_all = true;  // cuFile before 1.14 lacks this function.
  find("cuFileDriverOpen", out.cuFileDriverOpen);
  find("cuFileDriverGetProperties", out.cuFileDriverGetProperties);
  find("cuFileHandleRegister", out.cuFileHandleRegister);
  find("cuFileHandleDeregister", out.cuFileHandleDeregister);
  find("cuFileBufRegister", out.cuFileBufRegister);
  find("cuFileBufDeregister", out.cuFileBufDeregister);
  find("cuFileRead", out.cuFileRead);
  if (!has_all) return unavailable(last_error_of_loading());
  return out;
}

// Opens the driver with cuFile's compatibility mode off. Before cuFile 1.14, the mode cannot be
// switched off, so this function checks the properties of the driver.
result<functions> open_loaded(const functions& found) {
  if (found.cuFileSetParameterBool != nullptr) {
    (void)found.cuFileSetParameterBool(allow_compatibility, false);
  }
  if (const auto failed = code_of(found.cuFileDriverOpen())) return unavailable(failed.message());
  driver_properties properties = {};
  if (const auto failed = code_of(found.cuFileDriverGetProperties(&properties))) {
    return unavailable(failed.message());
  }
  constexpr unsigned through_host = 1U << compatibility_bit | 1U << posix_bit | 1U << fallback_bit;
  if ((properties.nvfs.control_flags & through_host) != 0) {
    return unavailable(
        "cuFile may read through the host: its compatibility mode is on, and cannot be switched "
        "off");
  }
  return found;
}

// Shared with the thread that opens the driver.
struct attempt {
  explicit attempt(std::chrono::milliseconds time_limit)
      : limit(time_limit), deadline(std::chrono::steady_clock::now() + time_limit) {}

  const std::chrono::milliseconds limit;
  const std::chrono::steady_clock::time_point deadline;
  std::mutex mutex;
  std::condition_variable changed;
  // Guarded by the mutex.
  bool has_ended = false;
  result<functions> outcome = fault();
};

result<functions> load_and_open(const std::string& name, int device) {
  if (const auto failed = use_device(device)) return unavailable(failed.message());
  auto outcome = load_library(name);
  if (outcome) outcome = open_loaded(*outcome);
  return outcome;
}

void open_in_thread(const std::shared_ptr<attempt>& state, const std::string& name, int device) {
  ::pthread_setname_np(::pthread_self(), "ringload-cufile");
  auto outcome = catch_as_fault([&] { return load_and_open(name, device); });
  const std::lock_guard lock(state->mutex);
  state->outcome = std::move(outcome);
  state->has_ended = true;
  state->changed.notify_all();
}

struct process_state {
  std::mutex mutex;
  // Guarded by the mutex.
  std::string library = "libcufile.so.0";
  std::chrono::milliseconds limit{10'000};
  std::shared_ptr<attempt> opening;  // Null before the first attempt.
};

// Never destroyed, because the thread that opens the driver may never end.
process_state& the_process() {
  static process_state& state = *new process_state;
  return state;
}

}  // namespace

const boost::system::error_category& category() noexcept {
  static const category_type the_category;
  return the_category;
}

error_code code_of(const error& outcome) noexcept {
  if (outcome.code == 0) return {};
  if (outcome.code == cuda_driver_error && outcome.driver_code != 0) {
    return {outcome.driver_code, cuda_category()};
  }
  return {outcome.code, category()};
}

result<const functions*> open_driver(int device) {
  process_state& process = the_process();
  const std::lock_guard lock(process.mutex);
  if (!process.opening) {
    const auto state = std::make_shared<attempt>(process.limit);
    try {
      const signals_blocked mask;
      std::thread([state, name = process.library, device] {
        open_in_thread(state, name, device);
      }).detach();
    } catch (const std::system_error& e) {
      return unavailable(std::string("a thread: ") + e.what());
    }
    process.opening = state;
  }
  attempt& opening = *process.opening;
  std::unique_lock waiting(opening.mutex);
  if (!opening.changed.wait_until(waiting, opening.deadline, [&] { return opening.has_ended; })) {
    return unavailable("cuFileDriverOpen did not return within " +
                       std::to_string(opening.limit.count()) + " ms");
  }
  if (!opening.outcome) return opening.outcome.error();
  return &*opening.outcome;
}

void limit_opening(std::chrono::milliseconds limit) {
  process_state& process = the_process();
  const std::lock_guard lock(process.mutex);
  process.limit = limit;
}

void use_library(const std::string& name, std::chrono::milliseconds limit) {
  process_state& process = the_process();
  const std::lock_guard lock(process.mutex);
  process.library = name;
  process.limit = limit;
  if (process.opening) {
    // A loader may still use the functions of the earlier attempt.
    static std::vector<std::shared_ptr<attempt>>& earlier =
        *new std::vector<std::shared_ptr<attempt>>;
    earlier.push_back(std::move(process.opening));
  }
  process.opening = nullptr;
}

}  // namespace ringload::inline v0::cuda::cufile
