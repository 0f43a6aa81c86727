// SPDX-License-Identifier: Apache-2.0

#include "save/zt/zt_archive.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/error.hpp>

#include "base/crc32c_hasher.hpp"
#include "base/printable.hpp"
#include "formats/zt/zt.hpp"
#include "formats/zt/zt_writing.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::uint64_t step_bytes = std::uint64_t{2} << 20;
static_assert(step_bytes == frame_queue::chunk_bytes);

void set_digest(zt_component& part, std::optional<digest_algorithm> algorithm, const hasher& pass) {
  part.digest = algorithm ? zt_digest_text(*algorithm, pass.finish()) : std::string();
}

}  // namespace

std::optional<digest_algorithm> digest_kind(const zt_component& part) noexcept {
  if (part.digest.starts_with("crc32c:0x") || part.digest.starts_with("crc32c:0X")) {
    return digest_algorithm::crc32c;
  }
  if (part.digest.starts_with("sha256:")) return digest_algorithm::sha256;
  return std::nullopt;
}

result<std::unique_ptr<zt_archive>> zt_archive::make(written_file& file, std::uint64_t begin,
                                                     archive_settings settings,
                                                     const std::atomic<bool>& stop) {
  std::unique_ptr<zt_archive> archive(new zt_archive(file.place, std::move(settings), stop));
  auto blocks = append_file::make(file, begin, stop);
  if (!blocks) return blocks.error();
  archive->file_ = std::move(*blocks);
  if (begin > 0) return archive;
  const std::span<const char> magic(zt_magic);
  if (auto status = archive->file_->append(std::as_bytes(magic)); !status) return status.error();
  return archive;
}

fault zt_archive::in_object(const fault& problem, const std::string& name) const {
  if (!problem.where().empty()) return problem;
  return problem.in(place_ + ": " + tensor_place(name));
}

result<std::uint32_t> zt_archive::declare(zt_object object) {
  const auto index = static_cast<std::uint32_t>(objects_.size());
  if (by_name_.contains(object.name)) {
    return fault{errc::duplicate_tensor, place_ + ": " + tensor_place(object.name),
                 "duplicate tensor name"};
  }
  if (!object.components) object.components.emplace();
  // If an allocation fails, both lists are unchanged. Then the writer can continue.
  const std::string name = object.name;
  objects_.push_back(std::move(object));
  try {
    by_name_.emplace(name, index);
  } catch (...) {
    objects_.pop_back();
    throw;
  }
  return index;
}

std::optional<std::uint32_t> zt_archive::index_of(const std::string& name) const noexcept {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? std::nullopt : std::optional(found->second);
}

const zt_object* zt_archive::find(const std::string& name) const noexcept {
  const auto index = index_of(name);
  return index ? &objects_[*index] : nullptr;
}

bool zt_archive::has_part(std::uint32_t object, const std::string& name) const noexcept {
  const bool written = std::ranges::any_of(*objects_[object].components,
                                           [&](const zt_component& p) { return p.name == name; });
  return written || std::ranges::any_of(pending_, [&](const encoded_component& p) {
           return p.object == object && p.part.name == name;
         });
}

void zt_archive::add(std::uint32_t object, zt_component part) {
  objects_[object].components->push_back(std::move(part));
}

result<hasher> begin_digest(std::optional<digest_algorithm> algorithm,
                            const std::function<hasher()>& sha256) {
  if (!algorithm) return hasher();
  if (*algorithm == digest_algorithm::crc32c) return begin_crc32c();
  if (sha256) return sha256();
  return fault{errc::digest_unavailable, "", "sha256 was requested, but no sha256 hasher is set"};
}

// Reads the bytes of the source from `offset`, at most `step_bytes` bytes, and none after `end`.
result<std::span<const std::byte>> zt_archive::next(const readable_bytes& source,
                                                    std::uint64_t offset, std::uint64_t end) {
  if (stop_) return fault{boost::asio::error::operation_aborted, ""};
  buffer_.resize(step_bytes);
  const auto step = static_cast<std::size_t>(std::min(end - offset, step_bytes));
  return source(offset, std::span(buffer_).first(step));
}

result<void> zt_archive::begin_blob(zt_component& part) {
  const auto offset = zt_blob_offset(file_->end(), settings_.alignment);
  if (!offset) return fault{errc::size_overflow, "", "the file does not fit in 63 bits"};
  part.offset = *offset;
  return file_->pad_to(*offset);
}

result<void> zt_archive::write_raw(zt_component& part, const readable_bytes& source,
                                   const hasher& pass) {
  if (auto drained = take_all_frames(); !drained) return drained.error();
  if (auto has_begun = begin_blob(part); !has_begun) return has_begun.error();
  for (std::uint64_t offset = 0; offset < *part.length;) {
    auto bytes = next(source, offset, *part.length);
    if (!bytes) return bytes.error();
    if (pass.update) pass.update(*bytes);
    if (auto status = file_->append(*bytes); !status) return status.error();
    offset += bytes->size();
  }
  return {};
}

result<void> zt_archive::copy(std::uint32_t object, zt_component part, const readable_bytes& source,
                              std::optional<digest_algorithm> digest) {
  auto pass = begin_digest(digest, settings_.sha256);
  if (!pass) return in_object(pass.error(), objects_[object].name);
  if (auto status = write_raw(part, source, *pass); !status) {
    return in_object(status.error(), objects_[object].name);
  }
  if (digest) set_digest(part, digest, *pass);
  add(object, std::move(part));
  return {};
}

result<void> zt_archive::write(std::uint32_t object, zt_component part, std::uint64_t bytes,
                               const readable_bytes& source, const component_encoding& encoding) {
  auto pass = begin_digest(encoding.digest, settings_.sha256);
  if (!pass) return in_object(pass.error(), objects_[object].name);
  part.digest.clear();
  // An empty component is not compressed.
  part.zstd = encoding.zstd_level != 0 && bytes > 0;
  part.length = bytes;
  part.uncompressed_length.reset();
  if (part.zstd) {
    part.uncompressed_length = bytes;
    part.length = 0;
    pending_.push_back({object, std::move(part), encoding.digest, std::move(*pass)});
    auto status = encode(bytes, source, encoding.zstd_level);
    return status ? result<void>() : in_object(status.error(), objects_[object].name);
  }
  if (auto status = write_raw(part, source, *pass); !status) {
    return in_object(status.error(), objects_[object].name);
  }
  set_digest(part, encoding.digest, *pass);
  add(object, std::move(part));
  return {};
}

result<void> zt_archive::encode(std::uint64_t bytes, const readable_bytes& source, int level) {
  if (frames_ == nullptr) frames_ = std::make_unique<frame_queue>(settings_.encoders);
  for (std::uint64_t offset = 0; offset < bytes;) {
    if (frames_->full()) {
      if (auto status = take_frame(); !status) return status.error();
    }
    if (stop_) return fault{boost::asio::error::operation_aborted, ""};
    const std::span<std::byte> buffer =
        frames_->next_buffer(static_cast<std::size_t>(std::min(bytes - offset, step_bytes)));
    auto content = source(offset, buffer);
    if (!content) return content.error();
    if (content->data() != buffer.data()) std::ranges::copy(*content, buffer.begin());
    offset += buffer.size();
    frames_->push(level, offset == bytes);
  }
  return {};
}

// Writes the oldest frame to the file. If the frame is the last frame of its component, completes
// the component.
result<void> zt_archive::take_frame() {
  encoded_component& component = pending_.front();
  auto frame = frames_->take();
  if (!frame) return in_object(frame.error(), objects_[component.object].name);
  if (!std::exchange(component.has_begun, true)) {
    if (auto has_begun = begin_blob(component.part); !has_begun) return has_begun.error();
  }
  *component.part.length += frame->bytes.size();
  if (component.pass.update) component.pass.update(frame->bytes);
  if (auto status = file_->append(frame->bytes); !status) return status.error();
  if (!frame->last) return {};
  set_digest(component.part, component.algorithm, component.pass);
  add(component.object, std::move(component.part));
  pending_.pop_front();
  return {};
}

result<void> zt_archive::take_all_frames() {
  while (frames_ != nullptr && !frames_->empty()) {
    if (auto status = take_frame(); !status) return status.error();
  }
  return {};
}

result<void> zt_archive::alias(const std::string& name, const std::string& original) {
  // Writes pending components first, because their offsets are not known yet.
  if (auto drained = take_all_frames(); !drained) return drained.error();
  const zt_object* const first = find(original);
  if (first == nullptr) {
    return fault{errc::no_such_tensor, place_ + ": " + tensor_place(original), ""};
  }
  zt_object second = *first;
  second.name = name;
  auto known = declare(std::move(second));
  return known ? result<void>() : known.error();
}

result<void> zt_archive::add_shared(std::uint32_t object, const zt_component& part,
                                    std::uint32_t source_object, const std::string& source_part) {
  if (auto drained = take_all_frames(); !drained) return drained.error();
  const auto& parts = *objects_[source_object].components;
  zt_component shared = *std::ranges::find(parts, source_part, &zt_component::name);
  shared.name = part.name;
  shared.dtype = part.dtype;
  shared.type = part.type;
  add(object, std::move(shared));
  return {};
}

// Returns true if the bytes of the component overlap the bytes of another component.
bool zt_archive::is_shared(const zt_component& part) const noexcept {
  unsigned overlaps = 0;
  for (const zt_object& object : objects_) {
    for (const zt_component& component : *object.components) {
      const bool apart = *component.offset + *component.length <= *part.offset ||
                         *part.offset + *part.length <= *component.offset;
      if (!apart) ++overlaps;
    }
  }
  return overlaps > 1;
}

result<void> zt_archive::check_overwrite(const std::string& name) const {
  const auto known = by_name_.find(name);
  const auto refused = [&](errc code, std::string cause) {
    return fault{code, place_ + ": " + tensor_place(name), std::move(cause)};
  };
  if (known == by_name_.end()) return refused(errc::no_such_tensor, "");
  const zt_object& object = objects_[known->second];
  if (*object.format != "dense" || object.components->size() != 1) {
    return refused(errc::unsupported_feature, "only dense tensors can be replaced");
  }
  const zt_component& part = object.components->front();
  if (part.zstd || part.swap_bytes != 0) {
    return refused(errc::unsupported_feature,
                   "only raw tensors can be replaced; remove the tensor and append it again");
  }
  if (is_shared(part)) {
    return refused(errc::unsupported_feature,
                   "another tensor shares these bytes and would change too");
  }
  const auto pass = begin_digest(digest_kind(part), settings_.sha256);
  return pass ? result<void>() : in_object(pass.error(), name);
}

result<void> zt_archive::overwrite(const std::string& name, const readable_bytes& source) {
  zt_component& part = objects_[by_name_.at(name)].components->front();
  const auto algorithm = digest_kind(part);
  auto pass = begin_digest(algorithm, settings_.sha256);
  if (!pass) return in_object(pass.error(), name);
  for (std::uint64_t offset = 0; offset < *part.length;) {
    auto bytes = next(source, offset, *part.length);
    if (!bytes) return in_object(bytes.error(), name);
    if (pass->update) pass->update(*bytes);
    if (auto status = file_->overwrite(*part.offset + offset, *bytes); !status)
      return status.error();
    offset += bytes->size();
  }
  set_digest(part, algorithm, *pass);
  return {};
}

result<void> zt_archive::check_objects() const {
  for (const zt_object& object : objects_) {
    if (auto status = check_zt_object(object); !status) return status.error().in(place_);
  }
  return {};
}

result<void> zt_archive::finish() {
  if (auto drained = take_all_frames(); !drained) return drained.error();
  if (auto status = check_objects(); !status) return status.error();
  auto tail = zt_tail(version_, attributes_, objects_);
  if (!tail) return tail.error().in(place_);
  if (auto status = check_zt_tail(*tail, file_->end() + tail->size()); !status) {
    return status.error().in(place_);
  }
  if (auto status = file_->append(std::as_bytes(std::span<const char>(*tail))); !status) {
    return status.error();
  }
  return file_->finish();
}

}  // namespace ringload::inline v0
