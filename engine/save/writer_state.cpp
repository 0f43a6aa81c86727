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
#include "base/crc32c_hasher.hpp"
#include "base/printable.hpp"
#include "base/retry_allocation.hpp"
#include "base/utf8.hpp"
#include "formats/codec/zstd_frame.hpp"
#include "formats/shape.hpp"
#include "formats/zt/zt_writing.hpp"
#include "save/safetensors_layout.hpp"
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

// Allocates `bytes` of the file, or 0 if the size is not known yet.
result<std::shared_ptr<writer_state>> writer_state::make(const optional_path& path,
                                                         writer_options options,
                                                         std::uint64_t bytes) {
  const std::string place = path ? printable_path(*path) : "memory";
  if (auto status = check_settings(options, place); !status) return status.error();
  std::optional<atomic_entry> entry;
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
  return std::make_shared<writer_state>(std::move(entry), std::move(*file), std::move(options));
}

result<void> writer_state::run(const std::function<result<void>()>& work) {
  std::promise<result<void>> ended;
  boost::asio::post(thread_.get_executor(), [&] { ended.set_value(catch_as_fault(work)); });
  return ended.get_future().get();
}

// The thread that created a ring must destroy it.
writer_state::~writer_state() {
  retry_allocation([this] {
    boost::asio::post(thread_.get_executor(), [this] {
      archive_.reset();
      append_.reset();
    });
  });
  thread_.join();
}

result<void> writer_state::open_archive(std::uint64_t begin) {
  archive_settings settings;
  if (options_.alignment != 0) settings.alignment = options_.alignment;
  const std::uint32_t processors = std::max(1U, std::thread::hardware_concurrency());
  settings.encoders = options_.zstd_threads != 0 ? options_.zstd_threads
                                                 : std::min(processors, frame_queue::encoders_max);
  settings.sha256 = options_.sha256;
  auto new_archive = zt_archive::make(file_, begin, std::move(settings), stop_);
  if (!new_archive) return new_archive.error();
  archive_ = std::move(*new_archive);
  return {};
}

result<std::shared_ptr<writer_state>> writer_state::make_zt(optional_path path,
                                                            writer_options options) {
  auto state = make(path, std::move(options), 0);
  if (!state) return state.error();
  writer_state& job = **state;
  if (auto status = job.run([&job] { return job.open_archive(0); }); !status) return status.error();
  return state;
}

result<std::shared_ptr<writer_state>> writer_state::make_safetensors(
    optional_path path, std::vector<planned_tensor> planned,
    std::span<const std::pair<std::string, std::string>> metadata, writer_options options) {
  std::vector<layout_tensor> tensors;
  tensors.reserve(planned.size());
  for (const planned_tensor& tensor : planned)
    tensors.push_back({tensor.name, tensor.dtype, tensor.shape});
  safetensors_settings settings;
  settings.metadata = metadata;
  settings.order = tensor_order::given;
  if (options.alignment != 0) settings.alignment = options.alignment;
  auto layout = lay_out_safetensors(tensors, settings);
  if (!layout) return layout.error().in(path ? printable_path(*path) : "memory");
  auto state = make(path, std::move(options), layout->files.front().bytes);
  if (!state) return state.error();
  writer_state& job = **state;
  auto status = job.run([&] { return job.begin_planned(std::move(planned), std::move(*layout)); });
  if (!status) return status.error();
  return state;
}

result<void> writer_state::begin_planned(std::vector<planned_tensor> planned,
                                         checkpoint_layout layout) {
  auto file = append_file::make(file_, 0, stop_);
  if (!file) return file.error();
  append_ = std::move(*file);
  plan_.tensors = std::move(planned);
  plan_.extents = std::move(layout.tensors);
  return append_->append(std::as_bytes(std::span<const char>(layout.files.front().head)));
}

// ---- Steps ----

fault writer_state::in_tensor(std::string_view name, errc code, std::string cause) const {
  return {code, file_.place + ": " + tensor_place(name), std::move(cause)};
}

result<void> writer_state::check() const {
  if (stop_) return fault{boost::asio::error::operation_aborted, file_.place};
  if (!finished_) return {};
  return fault{errc::invalid_saving, file_.place, "the file is already finished"};
}

result<zt_archive*> writer_state::archive(std::string_view name) {
  if (auto status = check(); !status) return status.error();
  if (archive_) return archive_.get();
  return in_tensor(name, errc::unsupported_feature, "a safetensors file has only dense tensors");
}

result<hasher> writer_state::begin_content_digest() const {
  if (!options_.manifest_digest) return hasher();
  if (*options_.manifest_digest == digest_algorithm::crc32c) return begin_crc32c();
  if (options_.sha256) return options_.sha256();
  return fault{errc::digest_unavailable, file_.place,
               "sha256 was requested, but no sha256 hasher is set"};
}

void writer_state::end_content_digest(const hasher& content, const std::string& name) {
  if (!content.finish) return;
  tensor_digest& out = digests_.emplace_back();
  out.name = name;
  out.algorithm = *options_.manifest_digest;
  out.bytes = content.finish();
}

result<readable_bytes> writer_state::bytes_of(const tensor_ref& view, const std::string& name,
                                              hasher& content) {
  if (auto bytes = stored_bytes(view, view.dtype); !bytes) {
    fault failure = bytes.error();
    failure.where = file_.place + ": " + tensor_place(name);
    return failure;
  }
  auto pass = begin_content_digest();
  if (!pass) return pass.error();
  content = std::move(*pass);
  const auto source = std::make_shared<tensor_bytes>(view, view.dtype, backend_of(view.on), 1);
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

backend& writer_state::backend_of(const device& on) {
  for (const auto& [known, known_backend] : backends_) {
    if (known == on) return *known_backend;
  }
  return *backends_.emplace_back(on, on.maker()(on.index())).second;
}

result<zt_component> writer_state::component_of(std::string part, const tensor_ref& tensor,
                                                const object_options& options,
                                                const std::string& name) const {
  const auto element = zt_element_of(tensor.dtype);
  if (!element) {
    return in_tensor(name, errc::unsupported_dtype,
                     ".zt cannot store " + std::string(ringload::name(tensor.dtype)) +
                         ", expected elements of whole bytes");
  }
  if (options.zstd_level < 0 || options.zstd_level > zstd_level_max) {
    return in_tensor(name, errc::invalid_saving,
                     "zstd_level is " + std::to_string(options.zstd_level) + ", expected 1 to " +
                         grouped(zstd_level_max) + ", or 0 for raw");
  }
  if (options.digest == digest_algorithm::sha256 && !options_.sha256) {
    return in_tensor(name, errc::digest_unavailable,
                     "sha256 was requested, but no sha256 hasher is set");
  }
  const auto bytes = stored_bytes(tensor, tensor.dtype);
  if (!bytes) return in_tensor(name, errc::invalid_tensor, bytes.error().cause);
  zt_component component;
  component.name = std::move(part);
  component.dtype = element->stored;
  component.type = options.type.empty() ? std::string(element->type) : options.type;
  // The offset is not known yet. This valid offset passes the checks.
  component.offset = zt_alignment;
  component.length = *bytes;
  return component;
}

result<void> writer_state::write_part(std::uint32_t object, zt_component part,
                                      const tensor_ref& tensor, const object_options& options,
                                      const std::string& name) {
  hasher content;
  auto from = bytes_of(tensor, name, content);
  if (!from) return from.error();
  const std::uint64_t bytes = *part.length;
  damages_ = true;
  auto status =
      archive_->write(object, std::move(part), bytes, *from, {options.zstd_level, options.digest});
  if (!status) return status.error();
  end_content_digest(content, name);
  return {};
}

result<std::string> writer_state::encoded(const attributes& pairs, const std::string& name) const {
  attribute_list list;
  for (const auto& [key, value] : pairs) {
    if (utf8_valid_bytes(key) != key.size()) {
      return in_tensor(name, errc::header_not_utf8,
                       "its attribute '" + printable(key) + "' is not UTF-8");
    }
    list.set(key, value.encoded());
  }
  return list.encoded();
}

result<void> writer_state::drain() {
  damages_ = true;
  auto status = archive_->take_all_frames();
  damages_ = !status;
  return status;
}

result<void> writer_state::add(const tensor_ref& tensor, const object_options& options) {
  if (auto status = check(); !status) return status.error();
  if (append_) return add_planned(tensor, options);
  auto attributes = encoded(options.attributes, tensor.name);
  if (!attributes) return attributes.error();
  auto data = component_of("data", tensor, options, tensor.name);
  if (!data) return data.error();
  zt_object object;
  object.name = tensor.name;
  object.format = "dense";
  object.shape = tensor.shape;
  object.encoded_attributes = std::move(*attributes);
  object.components.emplace().push_back(*data);
  if (auto status = check_zt_object(object); !status) return status.error().in(file_.place);
  object.components->clear();
  // Creating the backend may fail, so it is created before the object is declared.
  if (archive_->index_of(tensor.name)) return archive_->declare(std::move(object)).error();
  if (tensor.on != host()) (void)backend_of(tensor.on);
  auto known = archive_->declare(std::move(object));
  if (!known) return known.error();
  damages_ = true;
  return write_part(*known, std::move(*data), tensor, options, tensor.name);
}

result<void> writer_state::add_planned(const tensor_ref& tensor, const object_options& options) {
  const bool is_default = options.zstd_level == 0 && !options.digest && options.type.empty() &&
                          options.attributes.empty();
  if (!is_default) {
    return in_tensor(tensor.name, errc::unsupported_feature,
                     "safetensors files have no compression, digests, types or attributes");
  }
  if (plan_.next == plan_.tensors.size()) {
    return in_tensor(tensor.name, errc::unexpected_tensor, "all planned tensors are already added");
  }
  const planned_tensor& planned = plan_.tensors[plan_.next];
  if (tensor.name != planned.name) {
    return in_tensor(tensor.name, errc::unexpected_tensor,
                     "expected " + tensor_place(planned.name));
  }
  if (tensor.dtype != planned.dtype) {
    return in_tensor(tensor.name, errc::wrong_dtype,
                     "its elements are " + std::string(name(tensor.dtype)) + ", expected " +
                         std::string(name(planned.dtype)));
  }
  if (tensor.shape != planned.shape) {
    return in_tensor(
        tensor.name, errc::wrong_shape,
        "its shape is " + shape_text(tensor.shape) + ", expected " + shape_text(planned.shape));
  }
  hasher content;
  auto from = bytes_of(tensor, tensor.name, content);
  if (!from) return from.error();
  damages_ = true;
  const std::uint64_t bytes = plan_.extents[plan_.next].bytes;
  std::vector<std::byte> buffer(
      static_cast<std::size_t>(std::min<std::uint64_t>(bytes, frame_queue::chunk_bytes)));
  for (std::uint64_t done = 0; done < bytes;) {
    if (auto status = check(); !status) return status.error();
    const auto step =
        static_cast<std::size_t>(std::min<std::uint64_t>(bytes - done, buffer.size()));
    auto chunk = (*from)(done, std::span(buffer).first(step));
    if (!chunk) return chunk.error();
    if (auto status = append_->append(*chunk); !status) return status.error();
    done += step;
  }
  end_content_digest(content, tensor.name);
  ++plan_.next;
  return {};
}

result<void> writer_state::declare(const object_info& info) {
  auto target = archive(info.name);
  if (!target) return target.error();
  if (info.layout.empty() || info.layout == "dense") {
    return in_tensor(
        info.name, errc::invalid_saving,
        "the layout is '" + printable(info.layout) + "', expected a layout other than 'dense'");
  }
  if (utf8_valid_bytes(info.name) != info.name.size() ||
      utf8_valid_bytes(info.layout) != info.layout.size()) {
    return in_tensor(info.name, errc::header_not_utf8, "its name or its layout is not UTF-8");
  }
  auto attributes = encoded(info.attributes, info.name);
  if (!attributes) return attributes.error();
  zt_object object;
  object.name = info.name;
  object.format = info.layout;
  object.shape = info.shape;
  object.encoded_attributes = std::move(*attributes);
  auto known = (*target)->declare(std::move(object));
  return known ? result<void>() : known.error();
}

result<void> writer_state::add_part(const std::string& object, const tensor_ref& part,
                                    const object_options& options) {
  auto target = archive(object);
  if (!target) return target.error();
  const auto known = (*target)->index_of(object);
  if (!known) return in_tensor(object, errc::no_such_tensor, "it was not declared");
  if (!options.attributes.empty()) {
    return in_tensor(object, errc::invalid_saving, "a part has no attributes of its own");
  }
  if ((*target)->has_part(*known, part.name)) {
    return in_tensor(object, errc::duplicate_tensor,
                     "duplicate part '" + printable(part.name) + "'");
  }
  const std::string name = object + "/" + part.name;
  if (utf8_valid_bytes(part.name) != part.name.size()) {
    return in_tensor(name, errc::header_not_utf8, "its name is not UTF-8");
  }
  auto component = component_of(part.name, part, options, name);
  if (!component) return component.error();
  return write_part(*known, std::move(*component), part, options, name);
}

result<void> writer_state::add_alias(const std::string& name, const std::string& original) {
  auto target = archive(name);
  if (!target) return target.error();
  if (auto status = drain(); !status) return status.error();
  return (*target)->alias(name, original);
}

result<void> writer_state::set_attribute(std::string key, const attribute& value) {
  auto target = archive("");
  if (!target) return target.error();
  if (utf8_valid_bytes(key) != key.size()) {
    return fault{errc::header_not_utf8, file_.place,
                 "the attribute '" + printable(key) + "' is not UTF-8"};
  }
  attributes_.set(std::move(key), value.encoded());
  return {};
}

result<void> writer_state::replace(const tensor_ref& tensor) {
  auto target = archive(tensor.name);
  if (!target) return target.error();
  if (auto status = drain(); !status) return status.error();
  const zt_object* const known = (*target)->find(tensor.name);
  if (known == nullptr) return in_tensor(tensor.name, errc::no_such_tensor, "");
  file_entries found;
  const zt_blobs anywhere = {zt_magic.size(), INT64_MAX, 1};
  if (auto problem = add_zt_object(*known, anywhere, found)) return *problem;
  if (found.composites.empty() && found.tensors.front().dtype != tensor.dtype) {
    return in_tensor(tensor.name, errc::wrong_dtype,
                     "its elements are " + std::string(name(tensor.dtype)) + ", expected " +
                         std::string(name(found.tensors.front().dtype)));
  }
  if (*known->shape != tensor.shape) {
    return in_tensor(
        tensor.name, errc::wrong_shape,
        "its shape is " + shape_text(tensor.shape) + ", expected " + shape_text(*known->shape));
  }
  hasher content;
  auto from = bytes_of(tensor, tensor.name, content);
  if (!from) return from.error();
  if (auto status = (*target)->check_overwrite(tensor.name); !status) return status.error();
  damages_ = true;
  if (auto status = (*target)->overwrite(tensor.name, *from); !status) return status.error();
  end_content_digest(content, tensor.name);
  return {};
}

result<write_result> writer_state::finish() {
  if (auto status = check(); !status) return status.error();
  write_result out;
  if (archive_) {
    if (auto status = drain(); !status) return status.error();
    if (auto status = archive_->check_objects(); !status) return status.error();
    damages_ = true;
    archive_->set_attributes(attributes_.encoded());
    if (auto status = archive_->finish(); !status) return status.error();
    out.bytes_direct = archive_->bytes_direct();
    out.writes = archive_->writes();
  } else {
    if (plan_.next < plan_.tensors.size()) {
      return in_tensor(plan_.tensors[plan_.next].name, errc::missing_tensor, "it was not added");
    }
    damages_ = true;
    if (auto status = append_->finish(); !status) return status.error();
    out.bytes_direct = append_->bytes_direct();
    out.writes = append_->writes();
  }
  out.bytes = end();
  if (auto status = check(); !status) return status.error();
  if (entry_) {
    if (auto status = old_file_.check_unchanged(); !status) return status.error();
    if (auto status = entry_->publish(options_.sync); !status) return status.error();
    old_file_ = replaced_file();
  } else {
    out.file.resize(static_cast<std::size_t>(out.bytes));
    auto read = file_bytes(file_.buffered.get(), 0)(0, out.file);
    if (!read) return read.error();
  }
  finished_ = true;
  out.digests = std::move(digests_);
  out.notes = std::move(notes_);
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begun_;
  out.seconds = passed.count();
  return out;
}

}  // namespace ringload::inline v0::detail
