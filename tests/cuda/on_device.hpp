// SPDX-License-Identifier: Apache-2.0
#pragma once

// Compares tensors on a device with the bytes of the file.

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <ringload/cuda.hpp>
#include <ringload/error.hpp>
#include <ringload/loader.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "support/made_checkpoint.hpp"
#include "support/waiting.hpp"

namespace ringload::testing {

// A load that completes in the calling thread. With a future, another thread may destroy the error,
// and ThreadSanitizer does not understand the reference count of an exception in libstdc++.
class pending_load {
 public:
  pending_load(loader& with, const std::string& path,
               boost::asio::cancellation_slot stop = boost::asio::cancellation_slot()) {
    auto completed = [this](std::exception_ptr why, model m) {
      done_ = true;
      failed_ = std::move(why);
      loaded_ = std::move(m);
    };
    with.load_async(path, boost::asio::bind_executor(here_, boost::asio::bind_cancellation_slot(
                                                                stop, as_exception(completed))));
  }
  pending_load(const pending_load&) = delete;
  pending_load& operator=(const pending_load&) = delete;

  bool completes_within(std::chrono::milliseconds time) {
    here_.run_for(time);
    return done_;
  }

  // Empty if the load succeeds.
  std::optional<error> failure() {
    if (!completes_within(patience)) throw std::runtime_error("it does not complete");
    try {
      if (failed_) std::rethrow_exception(failed_);
    } catch (const error& e) {
      return e;
    }
    return std::nullopt;
  }

  // Must be called after failure().
  const model& loaded() const noexcept { return loaded_; }

 private:
  boost::asio::io_context here_;
  bool done_ = false;
  std::exception_ptr failed_;
  model loaded_;
};

inline std::vector<made_tensor> only(std::string name, std::uint64_t bytes) {
  return {{std::move(name), bytes}};
}

inline std::string bytes_on_device(const tensor& t) {
  std::string out(t.size_bytes(), '\0');
  copy_to_host(t, 0, std::as_writable_bytes(std::span(out)));
  return out;
}

// Returns an empty string if the tensor has the bytes of the file. Otherwise returns its name and
// the difference.
inline std::string difference_on_device(const tensor& t, const tensor_info& info,
                                        const catalog& in) {
  if (!t || t.name() != info.name || t.size_bytes() != info.bytes)
    return info.name + ": another one";
  if (t.device().kind() != device_kind::cuda) return info.name + ": not on a GPU";
  if (reinterpret_cast<std::uintptr_t>(t.data()) % 256 != 0 && t.size_bytes() > 0) {
    return info.name + ": misaligned";
  }
  const std::string wanted = file_bytes(in.files[info.file].path, info.offset, info.bytes);
  return bytes_on_device(t) == wanted ? "" : info.name + ": other bytes";
}

// Describes the first tensor that differs from the file.
inline std::string first_difference_on_device(const model& loaded) {
  for (std::size_t i = 0; i < loaded.size(); ++i) {
    std::string wrong =
        difference_on_device(loaded[i], loaded.catalog().tensors[i], loaded.catalog());
    if (!wrong.empty()) return wrong;
  }
  return {};
}

// The last device. On the stand-in, this is not the initial device of a thread.
inline device last_cuda_device() { return cuda_device(cuda_device_count() - 1); }

}  // namespace ringload::testing
