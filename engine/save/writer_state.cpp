// SPDX-License-Identifier: Apache-2.0

#include "save/writer_state.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <filesystem>
#include <future>
#include <span>
#include <thread>

#include "base/catch_as_fault.hpp"
#include "base/file_io.hpp"
#include "base/printable.hpp"
#include "base/retry_allocation.hpp"
#include "catalog/store_folder.hpp"
#include "formats/shape.hpp"
#include "save/tensor_bytes.hpp"

namespace ringload::inline v0::detail {

namespace {

constexpr std::uint32_t alignment_max = 2U << 20;

result<void> check_settings(const writer_options& options, const std::string& place) {
  const auto wrong = [&](std::string cause) {
    return fault{errc::invalid_saving, place, std::move(cause)};
  };
  const std::uint32_t alignment = options.alignment;
  if (alignment != 0 && (alignment < zt_alignment || alignment > alignment_max ||
                         (alignment & (alignment - 1)) != 0)) {
    return wrong("alignment must be a power of two, 64 to " + grouped(alignment_max) + ", or 0");
  }
  if (options.zstd_threads > frame_queue::encoders_max) {
    return wrong("zstd_threads must be at most " + grouped(frame_queue::encoders_max));
  }
  return {};
}

result<unique_fd> file_in_memory(const std::string& place) {
  unique_fd memory_file(::memfd_create("ringload", MFD_CLOEXEC));
  if (!memory_file) return fault{system_code(errno), place};
  return memory_file;
}

}  // namespace

// ---- Creation ----

// Opens the file and allocates space for `bytes` bytes. `bytes` is 0 if the size is not known yet.
result<std::shared_ptr<writer_state>> writer_state::make(const optional_path& path,
                                                         writer_options options,
                                                         std::uint64_t bytes) {
  const std::string place = path ? printable_path(*path) : "memory";
  if (auto status = check_settings(options, place); !status) return status.error();
  std::stop_source stop;
  std::optional<atomic_entry> entry;
  auto store = store_for_writing(path.value_or(""), options.extensions);
  if (!store) return store.error().in(place);
  if (*store != nullptr) {
    const target_request request = {*path, bytes, options.replace, append_file::block_bytes,
                                    stop.get_token()};
    auto object = begin_object(**store, request, place);
    if (!object) return object.error();
    return std::make_shared<writer_state>(std::move(entry), std::move(*object), std::move(options),
                                          std::move(stop));
  }
  if (path) {
    auto new_entry = atomic_entry::make(*path, entry_kind::file, options.replace);
    if (!new_entry) return new_entry.error();
    entry = std::move(*new_entry);
  }
  auto fd = entry ? open_again(entry->fd(), place) : file_in_memory(place);
  if (!fd) return fd.error();
  direct_files direct;
  const std::filesystem::path current_path = entry ? entry->path() : std::filesystem::path();
  auto file = begin_file(std::move(*fd), current_path, place, bytes, direct);
  if (!file) return file.error();
  return std::make_shared<writer_state>(std::move(entry), std::move(*file), std::move(options),
                                        std::move(stop));
}

result<void> writer_state::run(const std::function<result<void>()>& work) {
  std::promise<result<void>> ended;
  boost::asio::post(thread_.get_executor(), [&] { ended.set_value(catch_as_fault(work)); });
  return ended.get_future().get();
}

// The archive or the append file may own an io_uring instance. The thread that has created the
// instance must also destroy the instance.
writer_state::~writer_state() {
  retry_allocation([this] {
    boost::asio::post(thread_.get_executor(), [this] {
      archive_.reset();
      append_.reset();
    });
  });
  thread_.join();
}

// ---- Steps ----

fault writer_state::tensor_fault(std::string_view name, errc code, std::string cause) const {
  return {code, file_.place + ": " + tensor_place(name), std::move(cause)};
}

result<void> writer_state::check_dtype_and_shape(const tensor_ref& tensor, dtype type,
                                                 const std::vector<std::uint64_t>& shape) const {
  if (tensor.dtype != type) {
    return tensor_fault(tensor.name, errc::wrong_dtype,
                        "its elements are " + std::string(name(tensor.dtype)) + ", expected " +
                            std::string(name(type)));
  }
  if (tensor.shape == shape) return {};
  return tensor_fault(
      tensor.name, errc::wrong_shape,
      "its shape is " + shape_text(tensor.shape) + ", expected " + shape_text(shape));
}

result<void> writer_state::check_not_ended() const {
  if (stop_) return fault{boost::asio::error::operation_aborted, file_.place};
  if (!finished_) return {};
  return fault{errc::invalid_saving, file_.place, "the file is already finished"};
}

result<hasher> writer_state::begin_content_digest() const {
  auto pass = begin_digest(options_.result_digest, options_.sha256);
  return pass ? pass : pass.error().in(file_.place);
}

void writer_state::end_content_digest(const hasher& content, const std::string& name) {
  if (!content.finish) return;
  tensor_digest& out = digests_.emplace_back();
  out.name = name;
  out.algorithm = *options_.result_digest;
  out.bytes = content.finish();
}

result<readable_bytes> writer_state::make_reader(const tensor_ref& view, const std::string& name,
                                                 hasher& content) {
  if (auto bytes = stored_bytes(view, view.dtype); !bytes) {
    const fault failure = bytes.error();
    return fault{failure.code, file_.place + ": " + tensor_place(name), failure.cause()};
  }
  auto pass = begin_content_digest();
  if (!pass) return pass.error();
  content = std::move(*pass);
  const auto source = std::make_shared<tensor_bytes>(view, view.dtype, backend_of(view.device), 1);
  return readable_bytes(
      [this, &content, source](std::uint64_t offset,
                               std::span<std::byte> buffer) -> result<std::span<const std::byte>> {
        std::span<const std::byte> bytes = buffer;
        if (const std::byte* const memory = source->memory_at(offset)) {
          bytes = {memory, buffer.size()};
        } else if (auto status = source->read(offset, buffer); !status) {
          return status.error();
        }
        if (content.update) content.update(bytes);
        bytes_taken_ += bytes.size();
        return bytes;
      });
}

backend& writer_state::backend_of(const device& source) {
  for (const auto& [known, known_backend] : backends_) {
    if (known == source) return *known_backend;
  }
  return *backends_.emplace_back(source, source.maker()(source.index())).second;
}

result<write_result> writer_state::finish() {
  if (auto status = check_not_ended(); !status) return status.error();
  write_result out;
  if (archive_) {
    if (auto status = drain(); !status) return status.error();
    if (auto status = archive_->check_objects(); !status) return status.error();
    may_damage_file_ = true;
    archive_->set_attributes(attributes_.to_cbor());
    if (auto status = archive_->finish(); !status) return status.error();
    out.bytes_direct = archive_->bytes_direct();
    out.writes = archive_->writes();
  } else {
    if (plan_.next < plan_.tensors.size()) {
      return tensor_fault(plan_.tensors[plan_.next].name, errc::missing_tensor, "it was not added");
    }
    may_damage_file_ = true;
    if (auto status = append_->finish(); !status) return status.error();
    out.bytes_direct = append_->bytes_direct();
    out.writes = append_->writes();
  }
  out.bytes = end();
  if (auto status = check_not_ended(); !status) return status.error();
  if (entry_) {
    if (auto status = old_file_.check_unchanged(); !status) return status.error();
    if (auto status = entry_->publish(options_.sync); !status) return status.error();
    old_file_ = replaced_file();
  } else if (file_.object) {
    if (auto status = publish_object(file_); !status) return status.error();
  } else {
    out.file.resize(static_cast<std::size_t>(out.bytes));
    const auto read = read_fully(file_.buffered.get(), 0, out.file);
    if (!read) return read.error();
    if (*read < out.file.size()) return fault{errc::truncated_file, ""};
  }
  finished_ = true;
  out.digests = std::move(digests_);
  out.notes = std::move(notes_);
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start_time_;
  out.seconds = passed.count();
  return out;
}

}  // namespace ringload::inline v0::detail
