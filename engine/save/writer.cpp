// SPDX-License-Identifier: Apache-2.0

// The public writer: each call becomes a step that is posted to the thread of the file.

#include <algorithm>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <memory>
#include <ringload/writer.hpp>

#include "base/catch_as_fault.hpp"
#include "base/find_duplicates.hpp"
#include "base/numeric/dequantize.hpp"
#include "save/writer_state.hpp"

namespace ringload::inline v0 {

storing::storing() = default;
storing::storing(const storing& other) = default;
storing::storing(storing&& other) noexcept = default;
storing& storing::operator=(const storing& other) = default;
storing& storing::operator=(storing&& other) noexcept = default;
storing::~storing() = default;

object_info::object_info() = default;
object_info::object_info(const object_info& other) = default;
object_info::object_info(object_info&& other) noexcept = default;
object_info& object_info::operator=(const object_info& other) = default;
object_info& object_info::operator=(object_info&& other) noexcept = default;
object_info::~object_info() = default;

writing::writing() = default;
writing::writing(const writing& other) = default;
writing::writing(writing&& other) noexcept = default;
writing& writing::operator=(const writing& other) = default;
writing& writing::operator=(writing&& other) noexcept = default;
writing::~writing() = default;

planned_tensor planned(const tensor_info& in_file, const load_options& how) {
  planned_tensor out = {in_file.name, in_file.dtype, in_file.shape};
  if (!how.dtype) return out;
  const bool blocks = block_type_named(in_file.type).has_value();
  if (!blocks && !convertible(in_file.dtype, *how.dtype)) return out;
  if (how.converts != nullptr && !how.converts(in_file, how.converts_with)) return out;
  out.dtype = *how.dtype;
  if (blocks) out.shape = in_file.original_shape;
  return out;
}

namespace detail {

namespace {

// Runs in the thread of the file, which the job joins before it goes: so the job is there.
template <class T, class Work>
void post_step(const std::shared_ptr<writing_job>& of, std::unique_ptr<operation<T>> waiting,
               Work work) {
  waiting->cancel->arm([job = std::weak_ptr<writing_job>(of)] {
    if (const auto alive = job.lock()) alive->stop();
  });
  auto owned = std::make_unique<Work>(std::move(work));
  auto run = [job = of.get(), waiting = std::move(waiting), work = std::move(owned)]() mutable {
    auto outcome = attempt([&] { return (*work)(*job); });
    work.reset();  // What it was given is gone before anybody hears of its end.
    if (outcome) {
      waiting->complete(nullptr, std::move(*outcome));
    } else {
      waiting->complete(to_exception(outcome.error()), T());
    }
  };
  boost::asio::post(of->thread().get_executor(), std::move(run));
}

// Turns what a step does into one that says what it did.
template <class Work>
writing_step step_of(Work work) {
  return [work = std::move(work)](writing_job& job) {
    job.attempt_step([&] { return attempt([&] { return work(job); }); });
  };
}

std::shared_ptr<writing_job> made(result<std::shared_ptr<writing_job>> job) {
  if (!job) throw to_error(job.error());
  return std::move(*job);
}

}  // namespace

void begin_step(const std::shared_ptr<writing_job>& of, writing_step step,
                std::unique_ptr<operation<std::uint64_t>> waiting) {
  post_step(of, std::move(waiting),
            [step = std::move(step)](writing_job& job) -> result<std::uint64_t> {
              step(job);
              if (job.refusal()) return *job.refusal();
              return job.end();
            });
}

void begin_finish(const std::shared_ptr<writing_job>& of,
                  std::unique_ptr<operation<written>> waiting) {
  post_step(of, std::move(waiting), [](writing_job& job) -> result<written> {
    written out;
    job.attempt_step([&]() -> result<void> {
      auto done = attempt([&] { return job.finish(); });
      if (!done) return done.error();
      out = std::move(*done);
      return {};
    });
    if (job.refusal()) return *job.refusal();
    return out;
  });
}

}  // namespace detail

std::vector<std::size_t> first_of_same(std::span<const tensor_view> all) {
  const auto address_of = [&](std::size_t i) { return all[i].data; };
  return first_of_same_memory(all.size(), address_of, [&](std::size_t a, std::size_t b) {
    const tensor_view& mine = all[a];
    const tensor_view& its = all[b];
    const bool empty = std::ranges::find(mine.shape, 0U) != mine.shape.end();
    return !empty && mine.on == its.on && mine.dtype == its.dtype && mine.shape == its.shape &&
           mine.strides == its.strides;
  });
}

writer::writer(std::string path, writing how)
    : job_(detail::made(
          attempt([&] { return detail::writing_job::make_zt(std::move(path), std::move(how)); }))) {
}

writer::writer(std::string path, std::vector<planned_tensor> tensors,
               std::vector<std::pair<std::string, std::string>> metadata, writing how)
    : job_(detail::made(attempt([&] {
        return detail::writing_job::make_safetensors(std::move(path), std::move(tensors), metadata,
                                                     std::move(how));
      }))) {}

writer writer::append(std::string path, writing how) {
  writer out;
  out.job_ = detail::made(
      attempt([&] { return detail::writing_job::append_zt(std::move(path), std::move(how)); }));
  return out;
}

writer writer::in_memory(writing how) {
  writer out;
  out.job_ = detail::made(
      attempt([&] { return detail::writing_job::make_zt(std::nullopt, std::move(how)); }));
  return out;
}

writer writer::in_memory(std::vector<planned_tensor> tensors,
                         std::vector<std::pair<std::string, std::string>> metadata, writing how) {
  writer out;
  out.job_ = detail::made(attempt([&] {
    return detail::writing_job::make_safetensors(std::nullopt, std::move(tensors), metadata,
                                                 std::move(how));
  }));
  return out;
}

writer& writer::operator=(writer&& other) noexcept {
  if (job_) job_->stop();
  job_ = std::move(other.job_);
  return *this;
}

writer::~writer() {
  if (job_) job_->stop();
}

std::uint64_t writer::bytes_taken() const noexcept { return job_->bytes_taken(); }

detail::writing_step writer::add_step(tensor_view what, storing how) {
  return detail::step_of([what = std::move(what), how = std::move(how)](detail::writing_job& job) {
    return job.add(what, how);
  });
}

detail::writing_step writer::declare_step(object_info what) {
  return detail::step_of(
      [what = std::move(what)](detail::writing_job& job) { return job.declare(what); });
}

detail::writing_step writer::part_step(std::string object, tensor_view part, storing how) {
  return detail::step_of([object = std::move(object), part = std::move(part), how = std::move(how)](
                             detail::writing_job& job) { return job.add_part(object, part, how); });
}

detail::writing_step writer::alias_step(std::string name, std::string of) {
  return detail::step_of([name = std::move(name), of = std::move(of)](detail::writing_job& job) {
    return job.add_alias(name, of);
  });
}

detail::writing_step writer::copy_step(std::string file,
                                       std::function<bool(std::string_view)> chosen, copying how) {
  return detail::step_of([file = std::move(file), chosen = std::move(chosen),
                          how](detail::writing_job& job) { return job.copy(file, chosen, how); });
}

detail::writing_step writer::replace_step(tensor_view by) {
  return detail::step_of(
      [by = std::move(by)](detail::writing_job& job) { return job.replace(by); });
}

detail::writing_step writer::attribute_step(std::string key, attribute value) {
  return detail::step_of([key = std::move(key), value = std::move(value)](
                             detail::writing_job& job) { return job.set_attribute(key, value); });
}

}  // namespace ringload::inline v0
