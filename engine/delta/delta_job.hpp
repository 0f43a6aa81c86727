// SPDX-License-Identifier: Apache-2.0
#pragma once

// Runs one delta operation (make, apply or update) in a thread of its own, and provides the
// functions that these operations share.

#include <boost/asio/error.hpp>
#include <boost/asio/system_executor.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <ringload/checkpoint.hpp>
#include <ringload/delta.hpp>
#include <ringload/model.hpp>
#include <ringload/verify.hpp>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "base/fault.hpp"
#include "delta/device_bytes.hpp"
#include "runtime/cancel_step.hpp"
#include "runtime/step_operation.hpp"

namespace ringload::inline v0::detail {

// Calls `work(index)` for each index below `count`, in parallel. Uses one thread per processor, at
// most 16. After a failure, starts no further call. Returns the first failure. `work` may throw.
result<void> for_each_index(std::size_t count,
                            const std::function<result<void>(std::size_t)>& work);

// Throws if a delta at `path` would replace a file of the version, or a folder that contains one.
void refuse_replacing(const checkpoint& version, const std::string& path);

inline std::span<const std::byte> tensor_bytes_of(const tensor& source) {
  return {static_cast<const std::byte*>(source.data()),
          static_cast<std::size_t>(source.size_bytes())};
}

class delta_user;

// The loader and the cancellation of one delta operation. The device of an operation is the first
// device of the loader. Deltas are always loaded into host memory.
class delta_services {
 public:
  explicit delta_services(engine_ptr loader_engine) : engine_(std::move(loader_engine)) {}

  // Registers the operation with the engine. The destructor of the loader then cancels the
  // operation, and waits until the last copy of this object is destroyed, because the operation
  // uses the devices of the loader. Returns false if the loader was destroyed. Must be called
  // before memory().
  bool join_engine();

  // If the device is not the host, makes an engine for the host. This engine is closed when the
  // last copy of this object is destroyed. Must be called before open() and load(). Throws
  // ringload::error.
  void make_host_engine();

  std::shared_ptr<step_cancellation> cancellation() const noexcept { return cancellation_; }
  // A cancellation requests a stop, which ends blocking calls to a store.
  std::stop_token stop_token() const noexcept { return stop_.get_token(); }
  // Throws operation_aborted if the operation was cancelled.
  void check_cancelled() const;

  // The next four functions throw ringload::error on failure.
  checkpoint open(const source& from) const;
  // Loads the named tensors into host memory. Each name must exist.
  model load(const source& from, std::vector<std::string> names, const verification& verify) const;
  model load_all(const source& from) const;
  // Loads all tensors into the memory of the device.
  model load_to_device(const source& from, const load_options& options) const;
  const std::shared_ptr<engine>& loader_engine() const noexcept { return engine_; }
  // The result is valid as long as this object exists.
  device_bytes memory() const noexcept;

 private:
  model load_by(const engine_ptr& used, const source& from, const load_options& options) const;

  std::shared_ptr<delta_user> user_;  // Destroyed last.
  engine_ptr engine_;
  engine_ptr host_engine_;  // The same as engine_ if the device is the host.
  // Closes host_engine_ when this object is destroyed. The deleter of host_engine_ must not close
  // the engine. A load can release the last reference in a thread of the engine, and this thread
  // cannot wait for itself. Destroyed before host_engine_.
  std::shared_ptr<engine> closed_at_end_;
  std::stop_source stop_;
  std::shared_ptr<step_cancellation> cancellation_ =
      std::make_shared<step_cancellation>([stop = stop_]() mutable { stop.request_stop(); });
};

// One delta operation. The destructor removes the operation from the engine before it releases the
// arguments in `work`. The arguments may own the loader, and the destructor of the loader waits for
// all operations of the engine.
template <class T, class Work>
struct delta_work {
  T operator()() {
    services.make_host_engine();
    return work(services);
  }

  Work work;
  delta_services services;  // Destroyed first.
};

// Starts a thread that calls `work(services)`. The result, of type T, completes the operation.
template <class T, class Work>
void run_delta_operation(const engine_ptr& loader_engine, std::unique_ptr<operation<T>> waiting,
                         Work work) {
  delta_services services(loader_engine);
  if (!services.join_engine()) {
    // Releases the owners of the caller's memory before the completion.
    {
      const Work released(std::move(work));
    }
    waiting->fail(
        fault(boost::asio::error::operation_aborted, "delta", "the loader was destroyed"));
    return;
  }
  auto cancellation = services.cancellation();
  run_step_operation<T>(std::move(waiting), "delta", std::move(cancellation),
                        delta_work<T, Work>{std::move(work), std::move(services)});
}

}  // namespace ringload::inline v0::detail
