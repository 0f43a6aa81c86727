// SPDX-License-Identifier: Apache-2.0

// Each call of the public class `writer` becomes a step, which runs in the writer's own thread.

#include <algorithm>
#include <atomic>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/system_executor.hpp>
#include <cstdint>
#include <memory>
#include <new>
#include <ringload/writer.hpp>
#include <type_traits>

#include "base/catch_as_fault.hpp"
#include "base/find_duplicates.hpp"
#include "request/block_tensors.hpp"
#include "save/writer_state.hpp"

namespace ringload::inline v0 {

planned_tensor planned(const tensor_info& in_file, const load_options& options) {
  planned_tensor out = {in_file.name, in_file.dtype, in_file.shape};
  if (!options.dtype || *options.dtype == in_file.dtype) return out;
  // The conditions must be those of plan_input_builder::loaded_type(), because a group allocates
  // the memory for loaded tensors with this description.
  const bool blocks = blocks_of(in_file).has_value();
  const bool packed = !blocks && !in_file.type.empty() && !in_file.original_shape.empty();
  if (packed || (!blocks && !convertible(in_file.dtype, *options.dtype))) return out;
  if (options.converts && !options.converts(in_file)) return out;
  out.dtype = *options.dtype;
  if (blocks) out.shape = in_file.original_shape;
  return out;
}

namespace detail {

namespace {

// Decides whether a step ends or is cancelled first. A cancellation after the end of the step has
// no effect.
class step_end {
 public:
  // Returns true if the step had not ended.
  bool cancel() noexcept { return decide(state::cancelled); }
  // Returns false if the step was cancelled.
  bool end() noexcept { return decide(state::ended); }

 private:
  enum class state : std::uint8_t { running, cancelled, ended };

  bool decide(state outcome) noexcept {
    state expected = state::running;
    return state_.compare_exchange_strong(expected, outcome);
  }

  std::atomic<state> state_ = state::running;
};

// Ends a step. A step that was cancelled during its work fails, and so do all later steps. A finish
// step that has succeeded does not fail, because its file is already visible.
template <class T>
void end_step(writer_state& job, step_end& end, result<T>& outcome) noexcept {
  if (end.end()) return;
  job.stop();
  if constexpr (!std::is_same_v<T, write_result>) {
    const auto status = catch_as_fault([&] { return job.check_not_ended(); });
    if (outcome && !status) outcome = status.error();
  }
}

// Runs a step in the writer's thread, and completes the operation with the result of the step. The
// destructor of the state joins the thread, so the state outlives the step.
template <class T, class Work>
void post_step(const std::shared_ptr<writer_state>& state, std::unique_ptr<operation<T>> waiting,
               Work work) {
  auto end = std::make_shared<step_end>();
  waiting->cancel->arm([job = std::weak_ptr<writer_state>(state), end] {
    const auto running = job.lock();
    if (running && end->cancel()) running->stop();
  });
  auto owned = std::make_unique<Work>(std::move(work));
  auto run = [job = state.get(), waiting = std::move(waiting), work = std::move(owned),
              end = std::move(end)]() mutable {
    auto outcome = catch_as_fault([&] { return (*work)(*job); });
    end_step(*job, *end, outcome);
    work.reset();  // Destroys the arguments before the operation completes.
    try {
      if (outcome) {
        waiting->complete(std::move(*outcome));
      } else {
        waiting->fail(outcome.error());
      }
    } catch (const std::bad_alloc&) {
      waiting.reset();  // If there is no memory to post the handler, destroys the handler.
    }
  };
  boost::asio::post(state->thread().get_executor(), std::move(run));
}

// Wraps a function as a step. If the function fails, the step stores the error in the state.
template <class Work>
writer_step step_of(Work work) {
  return [work = std::move(work)](writer_state& job) {
    job.attempt_step([&] { return catch_as_fault([&] { return work(job); }); });
  };
}

boost::asio::any_io_executor executor_of(const writer_options& options) {
  if (options.executor) return options.executor;
  return boost::asio::system_executor();
}

std::shared_ptr<writer_state> value_or_throw(result<std::shared_ptr<writer_state>> job) {
  if (!job) throw to_error(job.error());
  return std::move(*job);
}

}  // namespace

void begin_step(const std::shared_ptr<writer_state>& state, writer_step step,
                std::unique_ptr<operation<std::uint64_t>> waiting) {
  post_step(state, std::move(waiting),
            [step = std::move(step)](writer_state& job) -> result<std::uint64_t> {
              step(job);
              if (job.refusal()) return *job.refusal();
              return job.end();
            });
}

void begin_finish(const std::shared_ptr<writer_state>& state,
                  std::unique_ptr<operation<write_result>> waiting) {
  post_step(state, std::move(waiting), [](writer_state& job) -> result<write_result> {
    write_result out;
    job.attempt_step([&]() -> result<void> {
      auto status = catch_as_fault([&] { return job.finish(); });
      if (!status) return status.error();
      out = std::move(*status);
      return {};
    });
    if (job.refusal()) return *job.refusal();
    return out;
  });
}

}  // namespace detail

std::vector<std::size_t> first_of_same(std::span<const tensor_ref> tensors) {
  const auto address_of = [&](std::size_t i) { return tensors[i].data; };
  return find_duplicates(tensors.size(), address_of, [&](std::size_t a, std::size_t b) {
    const tensor_ref& left = tensors[a];
    const tensor_ref& right = tensors[b];
    const bool empty = std::ranges::find(left.shape, 0U) != left.shape.end();
    return !empty && left.device == right.device && left.dtype == right.dtype &&
           left.shape == right.shape && left.strides == right.strides;
  });
}

writer::writer(std::string path, writer_options options)
    : executor_(detail::executor_of(options)), job_(detail::value_or_throw(catch_as_fault([&] {
        return detail::writer_state::make_zt(std::move(path), std::move(options));
      }))) {}

writer::writer(std::string path, std::vector<planned_tensor> tensors,
               std::vector<std::pair<std::string, std::string>> metadata, writer_options options)
    : executor_(detail::executor_of(options)), job_(detail::value_or_throw(catch_as_fault([&] {
        return detail::writer_state::make_safetensors(std::move(path), std::move(tensors), metadata,
                                                      std::move(options));
      }))) {}

writer writer::append(std::string path, writer_options options) {
  writer out;
  out.executor_ = detail::executor_of(options);
  out.job_ = detail::value_or_throw(catch_as_fault(
      [&] { return detail::writer_state::append_zt(std::move(path), std::move(options)); }));
  return out;
}

writer writer::in_memory(writer_options options) {
  writer out;
  out.executor_ = detail::executor_of(options);
  out.job_ = detail::value_or_throw(catch_as_fault(
      [&] { return detail::writer_state::make_zt(std::nullopt, std::move(options)); }));
  return out;
}

writer writer::in_memory(std::vector<planned_tensor> tensors,
                         std::vector<std::pair<std::string, std::string>> metadata,
                         writer_options options) {
  writer out;
  out.executor_ = detail::executor_of(options);
  out.job_ = detail::value_or_throw(catch_as_fault([&] {
    return detail::writer_state::make_safetensors(std::nullopt, std::move(tensors), metadata,
                                                  std::move(options));
  }));
  return out;
}

writer& writer::operator=(writer&& source) noexcept {
  if (job_) job_->stop();
  executor_ = std::move(source.executor_);
  job_ = std::move(source.job_);
  return *this;
}

writer::~writer() {
  if (job_) job_->stop();
}

std::uint64_t writer::bytes_taken() const noexcept { return job_->bytes_taken(); }

detail::writer_step writer::add_step(tensor_ref tensor, object_options options) {
  return detail::step_of([tensor = std::move(tensor), options = std::move(options)](
                             detail::writer_state& job) { return job.add(tensor, options); });
}

detail::writer_step writer::declare_step(object_info info) {
  return detail::step_of(
      [info = std::move(info)](detail::writer_state& job) { return job.declare(info); });
}

detail::writer_step writer::part_step(std::string object, tensor_ref part, object_options options) {
  return detail::step_of([object = std::move(object), part = std::move(part),
                          options = std::move(options)](detail::writer_state& job) {
    return job.add_part(object, part, options);
  });
}

detail::writer_step writer::alias_step(std::string name, std::string original) {
  return detail::step_of([name = std::move(name), original = std::move(original)](
                             detail::writer_state& job) { return job.add_alias(name, original); });
}

detail::writer_step writer::copy_step(std::string file,
                                      std::function<bool(std::string_view)> selects,
                                      copy_options options) {
  return detail::step_of(
      [file = std::move(file), selects = std::move(selects), options](detail::writer_state& job) {
        return job.copy(file, selects, options);
      });
}

detail::writer_step writer::replace_step(tensor_ref tensor) {
  return detail::step_of(
      [tensor = std::move(tensor)](detail::writer_state& job) { return job.replace(tensor); });
}

detail::writer_step writer::attribute_step(std::string key, attribute value) {
  return detail::step_of([key = std::move(key), value = std::move(value)](
                             detail::writer_state& job) { return job.set_attribute(key, value); });
}

}  // namespace ringload::inline v0
