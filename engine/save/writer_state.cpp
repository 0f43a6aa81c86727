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

result<void> check_settings(const writer_options& how, const std::string& place) {
  const auto wrong = [&](std::string cause) {
    return fault{errc::invalid_saving, place, std::move(cause)};
  };
  const std::uint32_t a = how.alignment;
  if (a != 0 && (a < zt_alignment || a > alignment_max || (a & (a - 1)) != 0)) {
    return wrong("alignment must be a power of two, 64 to " + grouped(alignment_max) + ", or 0");
  }
  if (how.zstd_threads > frame_queue::encoders_max) {
    return wrong("zstd_threads must be at most " + grouped(frame_queue::encoders_max));
  }
  return {};
}

result<unique_fd> file_in_memory(const std::string& place) {
  unique_fd made(::memfd_create("ringload", MFD_CLOEXEC));
  if (!made) return fault{system_code(errno), place};
  return made;
}

}  // namespace

// ---- Making ----

// The file has room for `bytes`, as far as they are known.
result<std::shared_ptr<writer_state>> writer_state::make(const optional_path& path,
                                                         writer_options how, std::uint64_t bytes) {
  const std::string place = path ? printable_path(*path) : "memory";
  if (auto good = check_settings(how, place); !good) return good.error();
  std::optional<atomic_entry> entry;
  if (path) {
    auto made = atomic_entry::make(*path, entry_kind::file, how.replace);
    if (!made) return made.error();
    entry = std::move(*made);
  }
  auto fd = entry ? open_again(entry->fd(), place) : file_in_memory(place);
  if (!fd) return fd.error();
  direct_files direct;
  const std::filesystem::path here = entry ? entry->path() : std::filesystem::path();
  auto file = begin_file(std::move(*fd), here, place, bytes, direct);
  if (!file) return file.error();
  return std::make_shared<writer_state>(std::move(entry), std::move(*file), std::move(how));
}

result<void> writer_state::run(const std::function<result<void>()>& work) {
  std::promise<result<void>> ended;
  boost::asio::post(thread_.get_executor(), [&] { ended.set_value(catch_as_fault(work)); });
  return ended.get_future().get();
}

// The ring of a file goes in the thread that made it.
writer_state::~writer_state() {
  retry_allocation([this] {
    boost::asio::post(thread_.get_executor(), [this] {
      archive_.reset();
      plain_.reset();
    });
  });
  thread_.join();
}

result<void> writer_state::open_archive(std::uint64_t begin) {
  archive_settings settings;
  if (how_.alignment != 0) settings.alignment = how_.alignment;
  const std::uint32_t processors = std::max(1U, std::thread::hardware_concurrency());
  settings.encoders =
      how_.zstd_threads != 0 ? how_.zstd_threads : std::min(processors, frame_queue::encoders_max);
  settings.sha256 = how_.sha256;
  auto made = zt_archive::make(file_, begin, std::move(settings), stop_);
  if (!made) return made.error();
  archive_ = std::move(*made);
  return {};
}

result<std::shared_ptr<writer_state>> writer_state::make_zt(optional_path path,
                                                            writer_options how) {
  auto made = make(path, std::move(how), 0);
  if (!made) return made.error();
  writer_state& job = **made;
  if (auto good = job.run([&job] { return job.open_archive(0); }); !good) return good.error();
  return made;
}

result<std::shared_ptr<writer_state>> writer_state::make_safetensors(
    optional_path path, std::vector<planned_tensor> planned,
    std::span<const std::pair<std::string, std::string>> metadata, writer_options how) {
  std::vector<layout_tensor> tensors;
  tensors.reserve(planned.size());
  for (const planned_tensor& each : planned) tensors.push_back({each.name, each.dtype, each.shape});
  safetensors_settings settings;
  settings.metadata = metadata;
  settings.order = tensor_order::given;
  if (how.alignment != 0) settings.alignment = how.alignment;
  auto layout = lay_out_safetensors(tensors, settings);
  if (!layout) return layout.error().in(path ? printable_path(*path) : "memory");
  auto made = make(path, std::move(how), layout->files.front().bytes);
  if (!made) return made.error();
  writer_state& job = **made;
  auto good = job.run([&] { return job.begin_planned(std::move(planned), std::move(*layout)); });
  if (!good) return good.error();
  return made;
}

result<void> writer_state::begin_planned(std::vector<planned_tensor> planned,
                                         checkpoint_layout layout) {
  auto plain = append_file::make(file_, 0, stop_);
  if (!plain) return plain.error();
  plain_ = std::move(*plain);
  plan_.tensors = std::move(planned);
  plan_.places = std::move(layout.tensors);
  return plain_->append(std::as_bytes(std::span<const char>(layout.files.front().head)));
}

// ---- Steps ----

fault writer_state::at(std::string_view tensor, errc code, std::string cause) const {
  return {code, file_.place + ": " + tensor_place(tensor), std::move(cause)};
}

result<void> writer_state::check() const {
  if (stop_) return fault{boost::asio::error::operation_aborted, file_.place};
  if (!finished_) return {};
  return fault{errc::invalid_saving, file_.place, "it is finished already"};
}

result<zt_archive*> writer_state::archive(std::string_view name) {
  if (auto good = check(); !good) return good.error();
  if (archive_) return archive_.get();
  return at(name, errc::unsupported_feature, "a safetensors file has only dense tensors");
}

result<hasher> writer_state::begin_content_digest() const {
  if (!how_.manifest_digest) return hasher();
  if (*how_.manifest_digest == digest_algorithm::crc32c) return begin_crc32c();
  if (how_.sha256) return how_.sha256();
  return fault{errc::digest_unavailable, file_.place,
               "a sha256 is wanted, and no hasher for it was given"};
}

void writer_state::end_content_digest(const hasher& content, const std::string& name) {
  if (!content.finish) return;
  tensor_digest& out = digests_.emplace_back();
  out.name = name;
  out.algorithm = *how_.manifest_digest;
  out.bytes = content.finish();
}

result<readable_bytes> writer_state::bytes_of(const tensor_ref& view, const std::string& name,
                                              hasher& content) {
  if (auto bytes = stored_bytes(view, view.dtype); !bytes) {
    fault why = bytes.error();
    why.where = file_.place + ": " + tensor_place(name);
    return why;
  }
  auto pass = begin_content_digest();
  if (!pass) return pass.error();
  content = std::move(*pass);
  const auto source = std::make_shared<tensor_bytes>(view, view.dtype, backend_of(view.on), 1);
  return readable_bytes(
      [this, &content, source](std::uint64_t offset,
                               std::span<std::byte> room) -> result<std::span<const std::byte>> {
        std::span<const std::byte> here = room;
        if (const std::byte* const memory = source->at(offset)) {
          here = {memory, room.size()};
        } else if (auto good = source->read(offset, room); !good) {
          return good.error();
        }
        if (content.update) content.update(here);
        bytes_taken_ += here.size();
        return here;
      });
}

backend& writer_state::backend_of(const device& on) {
  for (const auto& [of, made] : backends_) {
    if (of == on) return *made;
  }
  return *backends_.emplace_back(on, on.maker()(on.index())).second;
}

result<zt_component> writer_state::component_of(std::string part, const tensor_ref& of,
                                                const object_options& how,
                                                const std::string& name) const {
  const auto element = zt_element_of(of.dtype);
  if (!element) {
    return at(name, errc::unsupported_dtype,
              ".zt has no elements of less than a byte, as those of " +
                  std::string(ringload::name(of.dtype)) + " are");
  }
  if (how.zstd_level < 0 || how.zstd_level > zstd_level_max) {
    return at(name, errc::invalid_saving,
              "the level of zstd is " + std::to_string(how.zstd_level) + ", and must be 1 to " +
                  grouped(zstd_level_max) + ", or 0 for raw");
  }
  if (how.digest == digest_algorithm::sha256 && !how_.sha256) {
    return at(name, errc::digest_unavailable, "a sha256 is wanted, and no hasher for it was given");
  }
  const auto bytes = stored_bytes(of, of.dtype);
  if (!bytes) return at(name, errc::invalid_tensor, bytes.error().cause);
  zt_component what;
  what.name = std::move(part);
  what.dtype = element->stored;
  what.type = how.type.empty() ? std::string(element->type) : how.type;
  // Its place is not known yet: a place that is allowed.
  what.offset = zt_alignment;
  what.length = *bytes;
  return what;
}

result<void> writer_state::write_part(std::uint32_t object, zt_component part, const tensor_ref& of,
                                      const object_options& how, const std::string& name) {
  hasher content;
  auto from = bytes_of(of, name, content);
  if (!from) return from.error();
  const std::uint64_t bytes = *part.length;
  damages_ = true;
  auto good = archive_->write(object, std::move(part), bytes, *from, {how.zstd_level, how.digest});
  if (!good) return good.error();
  end_content_digest(content, name);
  return {};
}

result<std::string> writer_state::encoded(const attributes& all, const std::string& name) const {
  attribute_list list;
  for (const auto& [key, value] : all) {
    if (utf8_valid_bytes(key) != key.size()) {
      return at(name, errc::header_not_utf8, "its attribute '" + printable(key) + "' is not UTF-8");
    }
    list.set(key, value.encoded());
  }
  return list.encoded();
}

result<void> writer_state::drain() {
  damages_ = true;
  auto good = archive_->take_all_frames();
  damages_ = !good;
  return good;
}

result<void> writer_state::add(const tensor_ref& what, const object_options& how) {
  if (auto good = check(); !good) return good.error();
  if (plain_) return add_planned(what, how);
  auto attributes = encoded(how.attributes, what.name);
  if (!attributes) return attributes.error();
  auto data = component_of("data", what, how, what.name);
  if (!data) return data.error();
  zt_object object;
  object.name = what.name;
  object.format = "dense";
  object.shape = what.shape;
  object.encoded_attributes = std::move(*attributes);
  object.components.emplace().push_back(*data);
  if (auto good = check_zt_object(object); !good) return good.error().in(file_.place);
  object.components->clear();
  // Whether its memory can be read is found out before the object is declared.
  if (archive_->index_of(what.name)) return archive_->declare(std::move(object)).error();
  if (what.on != host()) (void)backend_of(what.on);
  auto known = archive_->declare(std::move(object));
  if (!known) return known.error();
  damages_ = true;
  return write_part(*known, std::move(*data), what, how, what.name);
}

result<void> writer_state::add_planned(const tensor_ref& what, const object_options& how) {
  const bool plain =
      how.zstd_level == 0 && !how.digest && how.type.empty() && how.attributes.empty();
  if (!plain) {
    return at(what.name, errc::unsupported_feature,
              "safetensors files have neither compression, digests, types nor attributes");
  }
  if (plan_.next == plan_.tensors.size()) {
    return at(what.name, errc::unexpected_tensor, "all planned tensors are there");
  }
  const planned_tensor& planned = plan_.tensors[plan_.next];
  if (what.name != planned.name) {
    return at(what.name, errc::unexpected_tensor, tensor_place(planned.name) + " comes first");
  }
  if (what.dtype != planned.dtype) {
    return at(what.name, errc::wrong_dtype,
              "its elements are " + std::string(name(what.dtype)) + ", and were to be " +
                  std::string(name(planned.dtype)));
  }
  if (what.shape != planned.shape) {
    return at(
        what.name, errc::wrong_shape,
        "its shape is " + shape_text(what.shape) + ", and was to be " + shape_text(planned.shape));
  }
  hasher content;
  auto from = bytes_of(what, what.name, content);
  if (!from) return from.error();
  damages_ = true;
  const std::uint64_t bytes = plan_.places[plan_.next].bytes;
  std::vector<std::byte> room(
      static_cast<std::size_t>(std::min<std::uint64_t>(bytes, frame_queue::chunk_bytes)));
  for (std::uint64_t done = 0; done < bytes;) {
    if (auto good = check(); !good) return good.error();
    const auto step = static_cast<std::size_t>(std::min<std::uint64_t>(bytes - done, room.size()));
    auto here = (*from)(done, std::span(room).first(step));
    if (!here) return here.error();
    if (auto good = plain_->append(*here); !good) return good.error();
    done += step;
  }
  end_content_digest(content, what.name);
  ++plan_.next;
  return {};
}

result<void> writer_state::declare(const object_info& what) {
  auto to = archive(what.name);
  if (!to) return to.error();
  if (what.layout.empty() || what.layout == "dense") {
    return at(what.name, errc::invalid_saving, "the layout of an object of parts is not 'dense'");
  }
  if (utf8_valid_bytes(what.name) != what.name.size() ||
      utf8_valid_bytes(what.layout) != what.layout.size()) {
    return at(what.name, errc::header_not_utf8, "its name or its layout is not UTF-8");
  }
  auto attributes = encoded(what.attributes, what.name);
  if (!attributes) return attributes.error();
  zt_object object;
  object.name = what.name;
  object.format = what.layout;
  object.shape = what.shape;
  object.encoded_attributes = std::move(*attributes);
  auto known = (*to)->declare(std::move(object));
  return known ? result<void>() : known.error();
}

result<void> writer_state::add_part(const std::string& object, const tensor_ref& part,
                                    const object_options& how) {
  auto to = archive(object);
  if (!to) return to.error();
  const auto known = (*to)->index_of(object);
  if (!known) return at(object, errc::no_such_tensor, "it was not declared");
  if (!how.attributes.empty()) {
    return at(object, errc::invalid_saving, "a part has no attributes of its own");
  }
  if ((*to)->has_part(*known, part.name)) {
    return at(object, errc::duplicate_tensor, "its part '" + printable(part.name) + "' is there");
  }
  const std::string name = object + "/" + part.name;
  if (utf8_valid_bytes(part.name) != part.name.size()) {
    return at(name, errc::header_not_utf8, "its name is not UTF-8");
  }
  auto component = component_of(part.name, part, how, name);
  if (!component) return component.error();
  return write_part(*known, std::move(*component), part, how, name);
}

result<void> writer_state::add_alias(const std::string& name, const std::string& of) {
  auto to = archive(name);
  if (!to) return to.error();
  if (auto good = drain(); !good) return good.error();
  return (*to)->alias(name, of);
}

result<void> writer_state::set_attribute(std::string key, const attribute& value) {
  auto to = archive("");
  if (!to) return to.error();
  if (utf8_valid_bytes(key) != key.size()) {
    return fault{errc::header_not_utf8, file_.place,
                 "the attribute '" + printable(key) + "' is not UTF-8"};
  }
  attributes_.set(std::move(key), value.encoded());
  return {};
}

result<void> writer_state::replace(const tensor_ref& by) {
  auto to = archive(by.name);
  if (!to) return to.error();
  if (auto good = drain(); !good) return good.error();
  const zt_object* const known = (*to)->find(by.name);
  if (known == nullptr) return at(by.name, errc::no_such_tensor, "");
  file_entries found;
  const zt_blobs anywhere = {zt_magic.size(), INT64_MAX, 1};
  if (auto bad = add_zt_object(*known, anywhere, found)) return *bad;
  if (found.composites.empty() && found.tensors.front().dtype != by.dtype) {
    return at(by.name, errc::wrong_dtype,
              "its elements are " + std::string(name(found.tensors.front().dtype)) + ", not " +
                  std::string(name(by.dtype)));
  }
  if (*known->shape != by.shape) {
    return at(by.name, errc::wrong_shape,
              "its shape is " + shape_text(*known->shape) + ", not " + shape_text(by.shape));
  }
  hasher content;
  auto from = bytes_of(by, by.name, content);
  if (!from) return from.error();
  if (auto good = (*to)->check_overwrite(by.name); !good) return good.error();
  damages_ = true;
  if (auto good = (*to)->overwrite(by.name, *from); !good) return good.error();
  end_content_digest(content, by.name);
  return {};
}

result<write_result> writer_state::finish() {
  if (auto good = check(); !good) return good.error();
  write_result out;
  if (archive_) {
    if (auto good = drain(); !good) return good.error();
    if (auto good = archive_->check_objects(); !good) return good.error();
    damages_ = true;
    archive_->set_attributes(attributes_.encoded());
    if (auto good = archive_->finish(); !good) return good.error();
    out.bytes_direct = archive_->bytes_direct();
    out.writes = archive_->writes();
  } else {
    if (plan_.next < plan_.tensors.size()) {
      return at(plan_.tensors[plan_.next].name, errc::missing_tensor, "it was not added");
    }
    damages_ = true;
    if (auto good = plain_->finish(); !good) return good.error();
    out.bytes_direct = plain_->bytes_direct();
    out.writes = plain_->writes();
  }
  out.bytes = end();
  if (auto good = check(); !good) return good.error();
  if (entry_) {
    if (auto good = old_file_.check_unchanged(); !good) return good.error();
    if (auto good = entry_->publish(how_.sync); !good) return good.error();
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
