// SPDX-License-Identifier: Apache-2.0

#include "load/delivery.hpp"

#include <boost/asio/error.hpp>
#include <utility>

#include "base/printable.hpp"
#include "base/retry_allocation.hpp"
#include "load/job.hpp"
#include "load/traced_step.hpp"
#include "runtime/engine.hpp"

namespace ringload::inline v0::detail {

template <class T>
void load_delivery::forward_cancel(operation<T>& waiting) const {
  waiting.cancel->arm([weak = load_.weak_from_this()] {
    if (const auto load = weak.lock()) load->cancel();
  });
}

template <class T>
void load_delivery::end_wait(std::unique_ptr<operation<T>> waiting) const {
  if (!waiting) return;  // The operation has completed before its cancellation.
  const fault cancelled(boost::asio::error::operation_aborted, printable_path(load_.source),
                        "the wait was cancelled, not the load");
  waiting->fail(cancelled);
}

// If `waiting` is cancelled before the load has started, the load is cancelled too.
void load_delivery::forward_cancel_until_start(operation<load_handle>& waiting) const {
  waiting.cancel->arm([weak = load_.weak_from_this()] {
    const auto load = weak.lock();
    if (!load) return;
    retry_allocation([&] {
      load->the_engine->post([load] {
        if (load->delivery.waiters_.start) load->stop_cancelled();
      });
    });
  });
}

void load_delivery::trace_delivery(std::uint32_t t) const {
  const loaded_tensors& tensors = load_.tensors();
  trace_moment(load_.options(), load_step::handed_out, tensors.info(t).name, tensors.bytes(t));
}

void load_delivery::trace_model_delivery() const {
  if (load_.stopped() || (!waiters_.fill && waiters_.finish.empty())) return;
  trace_moment(load_.options(), load_step::handed_out, {}, load_.counters.bytes);
}

void load_delivery::fail_waiting() noexcept {
  fails_waiting_ = true;
  complete_fill();
  waiters_.end_all(load_.outcome(), model(), checkpoint());
}

bool load_delivery::fails_at_once() const noexcept {
  return load_.stopped() && (load_.finished() || fails_waiting_);
}

void load_delivery::await_tensor(std::uint32_t t, std::unique_ptr<operation<tensor>> waiting) {
  if (fails_at_once()) {
    waiting->fail(load_.outcome().cause());
    return;
  }
  if (!load_.stopped() && load_.is_loaded(t)) {
    trace_delivery(t);
    waiting->complete(load_.tensor_at(t));
    return;
  }
  const std::uint64_t id = waiters_.new_id();
  waiting->cancel->arm([weak = load_.weak_from_this(), t, id] {
    const auto load = weak.lock();
    if (!load) return;
    retry_allocation([&] {
      load->the_engine->post([load, t, id] {
        load_delivery& self = load->delivery;
        self.end_wait(self.waiters_.remove(t, id));
      });
    });
  });
  waiters_.tensors[t].add(id, std::move(waiting));
  if (!load_.stopped()) load_.prioritize(t);
}

void load_delivery::await_next(std::unique_ptr<operation<std::optional<tensor>>> waiting) {
  if (window_) return window_->next(std::move(waiting));
  if (fails_at_once()) {
    waiting->fail(load_.outcome().cause());
    return;
  }
  const std::uint64_t id = waiters_.new_id();
  waiting->cancel->arm([weak = load_.weak_from_this(), id] {
    const auto load = weak.lock();
    if (!load) return;
    retry_allocation([&] {
      load->the_engine->post([load, id] {
        load_delivery& self = load->delivery;
        self.end_wait(self.waiters_.next.remove(id));
      });
    });
  });
  waiters_.next.add(id, std::move(waiting));
  if (!load_.stopped()) deliver_next();
  if (load_.finished()) waiters_.next.end_all(load_.outcome(), std::nullopt);
}

void load_delivery::await_finish(std::unique_ptr<operation<model>> waiting) {
  forward_cancel(*waiting);
  waiters_.finish.add(waiters_.new_id(), std::move(waiting));
  if (!load_.finished() && !fails_at_once()) return;
  trace_model_delivery();
  waiters_.finish.end_all(load_.outcome(), load_.stopped() ? model() : load_.loaded_model());
}

void load_delivery::await_start(std::unique_ptr<operation<load_handle>> waiting) {
  forward_cancel_until_start(*waiting);
  waiters_.start = std::move(waiting);
}

void load_delivery::await_open(std::unique_ptr<operation<checkpoint>> waiting) {
  forward_cancel(*waiting);
  waiters_.open.add(waiters_.new_id(), std::move(waiting));
}

void load_delivery::await_fill(std::unique_ptr<operation<fill_result>> waiting) {
  forward_cancel(*waiting);
  waiters_.fill = std::move(waiting);
}

void load_delivery::await_copy(std::unique_ptr<operation<tensor>> waiting) {
  forward_cancel(*waiting);
  waiters_.copy.add(waiters_.new_id(), std::move(waiting));
}

void load_delivery::started() {
  if (const auto waiting = std::move(waiters_.start)) {
    waiting->complete(load_handle(load_.shared_from_this()));
  }
}

void load_delivery::deliver(std::uint32_t t) {
  const auto waiting = waiters_.tensors.find(t);
  if (waiting == waiters_.tensors.end()) return;
  trace_delivery(t);
  waiting->second.complete_all(load_.tensor_at(t));
  waiters_.tensors.erase(waiting);
}

void load_delivery::deliver_next() {
  while (!waiters_.next.empty()) {
    const auto t = load_.take_loaded();
    if (!t) return;
    trace_delivery(*t);
    waiters_.next.pop()->complete(load_.tensor_at(*t));
  }
}

void load_delivery::complete_fill() noexcept {
  if (!waiters_.fill) return;
  const auto waiting = std::move(waiters_.fill);
  fill_state* const fill = load_.fill_progress();
  try {
    if (!load_.stopped()) {
      fill_result fill_outcome = {std::move(fill->missing), std::move(fill->unexpected),
                                  load_.progress(), load_.per_file().stats()};
      waiting->complete(std::move(fill_outcome));
    } else if (fill != nullptr) {
      const auto is_loaded = [this](std::uint32_t t) { return load_.is_loaded(t); };
      waiting->fail(fill->failure(load_.outcome().cause(), is_loaded));
    } else {
      waiting->fail(load_.outcome().cause());
    }
  } catch (const std::bad_alloc&) {
    // Memory is exhausted. The handler is destroyed without a call, as in every other operation.
  }
}

void load_delivery::finish() noexcept {
  trace_model_delivery();
  complete_fill();
  model loaded = load_.stopped() ? model() : load_.loaded_model();
  checkpoint opened(load_.release_opened());
  // If no later operation can request a tensor, the load drops its own reference to the memory.
  // Then the memory is freed when the caller drops the result.
  if (delivers_once_) load_.release_storage();
  waiters_.end_all(load_.outcome(), std::move(loaded), std::move(opened));
}

}  // namespace ringload::inline v0::detail
