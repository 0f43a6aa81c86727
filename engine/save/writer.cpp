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

object_options::object_options() = default;
object_options::object_options(const object_options& other) = default;
object_options::object_options(object_options&& other) noexcept = default;
object_options& object_options::operator=(const object_options& other) = default;
object_options& object_options::operator=(object_options&& other) noexcept = default;
object_options::~object_options() = default;

object_info::object_info() = default;
object_info::object_info(const object_info& other) = default;
object_info::object_info(object_info&& other) noexcept = default;
object_info& object_info::operator=(const object_info& other) = default;
object_info& object_info::operator=(object_info&& other) noexcept = default;
object_info::~object_info() = default;

writer_options::writer_options() = default;
writer_options::writer_options(const writer_options& other) = default;
writer_options::writer_options(writer_options&& other) noexcept = default;
writer_options& writer_options::operator=(const writer_options& other) = default;
writer_options& writer_options::operator=(writer_options&& other) noexcept = default;
writer_options::~writer_options() = default;

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
void post_step(const std::shared_ptr<writer_state>& of, std::unique_ptr<operation<T>> waiting,
               Work work) {
  waiting->cancel->arm([job = std::weak_ptr<writer_state>(of)] {
    if (const auto alive = job.lock()) alive->stop();
  });
  auto owned = std::make_unique<Work>(std::move(work));
  auto run = [job = of.get(), waiting = std::move(waiting), work = std::move(owned)]() mutable {
    auto outcome = catch_as_fault([&] { return (*work)(*job); });
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
writer_step step_of(Work work) {
  return [work = std::move(work)](writer_state& job) {
    job.attempt_step([&] { return catch_as_fault([&] { return work(job); }); });
  };
}

std::shared_ptr<writer_state> made(result<std::shared_ptr<writer_state>> job) {
  if (!job) throw to_error(job.error());
  return std::move(*job);
}

}  // namespace

void begin_step(const std::shared_ptr<writer_state>& of, writer_step step,
                std::unique_ptr<operation<std::uint64_t>> waiting) {
  post_step(of, std::move(waiting),
            [step = std::move(step)](writer_state& job) -> result<std::uint64_t> {
              step(job);
              if (job.refusal()) return *job.refusal();
              return job.end();
            });
}

void begin_finish(const std::shared_ptr<writer_state>& of,
                  std::unique_ptr<operation<write_result>> waiting) {
  post_step(of, std::move(waiting), [](writer_state& job) -> result<write_result> {
    write_result out;
    job.attempt_step([&]() -> result<void> {
      auto done = catch_as_fault([&] { return job.finish(); });
      if (!done) return done.error();
      out = std::move(*done);
      return {};
    });
    if (job.refusal()) return *job.refusal();
    return out;
  });
}

}  // namespace detail

std::vector<std::size_t> first_of_same(std::span<const tensor_ref> all) {
  const auto address_of = [&](std::size_t i) { return all[i].data; };
  return find_duplicates(all.size(), address_of, [&](std::size_t a, std::size_t b) {
    const tensor_ref& mine = all[a];
    const tensor_ref& its = all[b];
    const bool empty = std::ranges::find(mine.shape, 0U) != mine.shape.end();
    return !empty && mine.on == its.on && mine.dtype == its.dtype && mine.shape == its.shape &&
           mine.strides == its.strides;
  });
}

writer::writer(std::string path, writer_options how)
    : job_(detail::made(catch_as_fault(
          [&] { return detail::writer_state::make_zt(std::move(path), std::move(how)); }))) {}

writer::writer(std::string path, std::vector<planned_tensor> tensors,
               std::vector<std::pair<std::string, std::string>> metadata, writer_options how)
    : job_(detail::made(catch_as_fault([&] {
        return detail::writer_state::make_safetensors(std::move(path), std::move(tensors), metadata,
                                                      std::move(how));
      }))) {}

writer writer::append(std::string path, writer_options how) {
  writer out;
  out.job_ = detail::made(catch_as_fault(
      [&] { return detail::writer_state::append_zt(std::move(path), std::move(how)); }));
  return out;
}

writer writer::in_memory(writer_options how) {
  writer out;
  out.job_ = detail::made(
      catch_as_fault([&] { return detail::writer_state::make_zt(std::nullopt, std::move(how)); }));
  return out;
}

writer writer::in_memory(std::vector<planned_tensor> tensors,
                         std::vector<std::pair<std::string, std::string>> metadata,
                         writer_options how) {
  writer out;
  out.job_ = detail::made(catch_as_fault([&] {
    return detail::writer_state::make_safetensors(std::nullopt, std::move(tensors), metadata,
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

detail::writer_step writer::add_step(tensor_ref what, object_options how) {
  return detail::step_of([what = std::move(what), how = std::move(how)](detail::writer_state& job) {
    return job.add(what, how);
  });
}

detail::writer_step writer::declare_step(object_info what) {
  return detail::step_of(
      [what = std::move(what)](detail::writer_state& job) { return job.declare(what); });
}

detail::writer_step writer::part_step(std::string object, tensor_ref part, object_options how) {
  return detail::step_of([object = std::move(object), part = std::move(part),
                          how = std::move(how)](detail::writer_state& job) {
    return job.add_part(object, part, how);
  });
}

detail::writer_step writer::alias_step(std::string name, std::string of) {
  return detail::step_of([name = std::move(name), of = std::move(of)](detail::writer_state& job) {
    return job.add_alias(name, of);
  });
}

detail::writer_step writer::copy_step(std::string file,
                                      std::function<bool(std::string_view)> chosen,
                                      copy_options how) {
  return detail::step_of([file = std::move(file), chosen = std::move(chosen),
                          how](detail::writer_state& job) { return job.copy(file, chosen, how); });
}

detail::writer_step writer::replace_step(tensor_ref by) {
  return detail::step_of(
      [by = std::move(by)](detail::writer_state& job) { return job.replace(by); });
}

detail::writer_step writer::attribute_step(std::string key, attribute value) {
  return detail::step_of([key = std::move(key), value = std::move(value)](
                             detail::writer_state& job) { return job.set_attribute(key, value); });
}

}  // namespace ringload::inline v0
