// SPDX-License-Identifier: Apache-2.0

#include "save/save_job.hpp"

#include <boost/asio/error.hpp>
#include <utility>

#include "base/printable.hpp"
#include "base/retry_allocation.hpp"
#include "runtime/engine.hpp"

namespace ringload::inline v0::detail {

save_job::save_job(std::shared_ptr<engine> owner, save_request request)
    : the_engine(std::move(owner)), request_(std::move(request)), quiet_(the_engine->loop) {}

void save_job::cancel() noexcept {
  if (finished()) return;
  retry_allocation([&] {
    the_engine->post([self = shared_from_this()] {
      self->request_stop(retry_allocation([&] {
        return fault(boost::asio::error::operation_aborted, printable_path(self->request_.path));
      }));
    });
  });
}

void save_job::begin(save_setup setup) {
  setup_ = std::move(setup);
  result_.bytes = setup_.bytes;
  if (options().digest) result_.digests.resize(request_.tensors.size());
  if (options().progress) options().progress->set_total(setup_.bytes);
  has_begun_ = true;
}

work::offer save_job::take_step(bool) {
  // The schedule may call take_step() again after the last write was taken.
  if (stopped() || !setup_.group || next_write_ == setup_.group->plan.writes.size()) return {};
  ++writes_in_flight_;
  return {next_write_++};
}

void save_job::end(std::uint32_t write, const result<void>& outcome) {
  --writes_in_flight_;
  if (outcome) {
    ++writes_done_;
    if (options().progress) options().progress->add(setup_.group->plan.writes[write].bytes);
  } else {
    stop(outcome.error());
  }
  wake_if_quiet();
}

void save_job::count_write(std::uint32_t bytes, bool direct, bool unstaged) noexcept {
  ++result_.writes;
  if (direct) result_.bytes_direct += bytes;
  if (direct && unstaged) result_.bytes_unstaged += bytes;
}

work::offer save_job::digest_work::take_step(bool) {
  // The schedule may call take_step() again after the save has released its tensors.
  if (save_.stopped() || !save_.setup_.group || save_.next_digest_ == save_.result_.digests.size())
    return {};
  ++save_.digests_in_flight_;
  return {save_.next_digest_++};
}

void save_job::digest_work::end(std::uint32_t, const result<void>& outcome) {
  --save_.digests_in_flight_;
  ++save_.digests_done_;
  if (!outcome) save_.stop(outcome.error());
  save_.wake_if_quiet();
}

void save_job::await(std::unique_ptr<operation<save_result>> waiting) {
  waiting->cancel->arm([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->cancel();
  });
  waiting_ = std::move(waiting);
}

void save_job::stop(fault cause) {
  stop_state_.stop(std::move(cause));
  stop_source_.request_stop();
  wake_if_quiet();
}

void save_job::stop_at_close() {
  request_stop({boost::asio::error::operation_aborted, printable_path(request_.path),
                "the loader was destroyed"});
}

void save_job::request_stop(fault cause) noexcept {
  stop_source_.request_stop();
  if (!publishing_) stop(std::move(cause));
}

bool save_job::is_quiet() const noexcept {
  if (writes_in_flight_ > 0 || digests_in_flight_ > 0) return false;
  return stopped() || all_written();
}

void save_job::wake_if_quiet() {
  if (is_quiet()) quiet_.wake_all();
}

save_files save_job::release_files() noexcept {
  publishing_ = true;
  for (written_file& file : setup_.files.files()) {
    if (result_.route_reason.empty()) result_.route_reason = std::move(file.direct_refusal);
  }
  return std::move(setup_.files);
}

save_job::released_tensors save_job::release_tensors() noexcept {
  return {std::move(setup_.group), std::move(request_.tensors)};
}

// Must not throw. Otherwise the save would never complete.
void save_job::finish() noexcept {
  stop_state_.finish();
  the_engine->read_schedule.remove(*this);
  the_engine->check_schedule.remove(digest_work_);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_time_;
  result_.seconds = elapsed.count();
  const auto waiting = std::move(waiting_);
  if (!waiting) return;
  try {
    if (stopped()) {
      waiting->fail(stop_state_.cause());
    } else {
      waiting->complete(std::move(result_));
    }
  } catch (const std::bad_alloc&) {
    // If memory is exhausted, the handler is destroyed without being called, as in every other
    // operation.
  }
}

}  // namespace ringload::inline v0::detail
