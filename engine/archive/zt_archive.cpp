// SPDX-License-Identifier: Apache-2.0
#include "archive/zt_archive.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/error.hpp>

#include "core/crc32c_hasher.hpp"
#include "formats/printable.hpp"
#include "formats/zt_writing.hpp"

namespace ringload::inline v0 {

namespace {

// Read at once from where the bytes come from.
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
                                                     archive_settings how,
                                                     const std::atomic<bool>& stop) {
  std::unique_ptr<zt_archive> made(new zt_archive(file.place, std::move(how), stop));
  auto blocks = block_file::make(file, begin, stop);
  if (!blocks) return blocks.error();
  made->file_ = std::move(*blocks);
  if (begin > 0) return made;
  const std::span<const char> magic(zt_magic);
  if (auto good = made->file_->append(std::as_bytes(magic)); !good) return good.error();
  return made;
}

fault zt_archive::in_object(const fault& why, const std::string& name) const {
  if (!why.where.empty()) return why;
  return why.in(place_ + ": " + tensor_place(name));
}

result<std::uint32_t> zt_archive::declare(zt_object object) {
  const auto index = static_cast<std::uint32_t>(objects_.size());
  if (!by_name_.emplace(object.name, index).second) {
    return fault{errc::duplicate_tensor, place_ + ": " + tensor_place(object.name),
                 "the file has one of that name already"};
  }
  if (!object.components) object.components.emplace();
  objects_.push_back(std::move(object));
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

result<hasher> zt_archive::begin_digest(std::optional<digest_algorithm> algorithm) const {
  if (!algorithm) return hasher();
  if (*algorithm == digest_algorithm::crc32c) return begin_crc32c();
  if (how_.sha256) return how_.sha256();
  return fault{errc::digest_unavailable, "", "a sha256 is wanted, and no hasher for it was given"};
}

// The next bytes up to `end`, at most one step.
result<std::span<const std::byte>> zt_archive::next(const readable_bytes& from,
                                                    std::uint64_t offset, std::uint64_t end) {
  if (stop_) return fault{boost::asio::error::operation_aborted, ""};
  room_.resize(step_bytes);
  const auto step = static_cast<std::size_t>(std::min(end - offset, step_bytes));
  return from(offset, std::span(room_).first(step));
}

result<void> zt_archive::begin_blob(zt_component& part) {
  const auto offset = zt_blob_offset(file_->end(), how_.alignment);
  if (!offset) return fault{errc::size_overflow, "", "the file would not fit in 63 bits"};
  part.offset = *offset;
  return file_->pad_to(*offset);
}

result<void> zt_archive::write_raw(zt_component& part, const readable_bytes& from,
                                   const hasher& pass) {
  if (auto drained = take_all_frames(); !drained) return drained.error();
  if (auto begun = begin_blob(part); !begun) return begun.error();
  for (std::uint64_t at = 0; at < *part.length;) {
    auto here = next(from, at, *part.length);
    if (!here) return here.error();
    if (pass.update) pass.update(*here);
    if (auto good = file_->append(*here); !good) return good.error();
    at += here->size();
  }
  return {};
}

result<void> zt_archive::copy(std::uint32_t object, zt_component part, const readable_bytes& from,
                              std::optional<digest_algorithm> digest) {
  auto pass = begin_digest(digest);
  if (!pass) return in_object(pass.error(), objects_[object].name);
  if (auto good = write_raw(part, from, *pass); !good) {
    return in_object(good.error(), objects_[object].name);
  }
  if (digest) set_digest(part, digest, *pass);
  add(object, std::move(part));
  return {};
}

result<void> zt_archive::write(std::uint32_t object, zt_component part, std::uint64_t bytes,
                               const readable_bytes& from, const component_encoding& how) {
  auto pass = begin_digest(how.digest);
  if (!pass) return in_object(pass.error(), objects_[object].name);
  part.digest.clear();
  // No bytes need no frame.
  part.zstd = how.zstd_level != 0 && bytes > 0;
  part.length = bytes;
  part.uncompressed_length.reset();
  if (part.zstd) {
    part.uncompressed_length = bytes;
    part.length = 0;
    pending_.push_back({object, std::move(part), how.digest, std::move(*pass)});
    auto good = encode(bytes, from, how.zstd_level);
    return good ? result<void>() : in_object(good.error(), objects_[object].name);
  }
  if (auto good = write_raw(part, from, *pass); !good) {
    return in_object(good.error(), objects_[object].name);
  }
  set_digest(part, how.digest, *pass);
  add(object, std::move(part));
  return {};
}

result<void> zt_archive::encode(std::uint64_t bytes, const readable_bytes& from, int level) {
  if (frames_ == nullptr) frames_ = std::make_unique<frame_queue>(how_.encoders);
  for (std::uint64_t at = 0; at < bytes;) {
    if (frames_->full()) {
      if (auto good = take_frame(); !good) return good.error();
    }
    if (stop_) return fault{boost::asio::error::operation_aborted, ""};
    const std::span<std::byte> room =
        frames_->room(static_cast<std::size_t>(std::min(bytes - at, step_bytes)));
    auto here = from(at, room);
    if (!here) return here.error();
    if (here->data() != room.data()) std::ranges::copy(*here, room.begin());
    at += room.size();
    frames_->push(level, at == bytes);
  }
  return {};
}

// Writes the oldest frame; with the last of a component that is whole.
result<void> zt_archive::take_frame() {
  encoded_component& of = pending_.front();
  auto frame = frames_->take();
  if (!frame) return in_object(frame.error(), objects_[of.object].name);
  if (!std::exchange(of.begun, true)) {
    if (auto begun = begin_blob(of.part); !begun) return begun.error();
  }
  *of.part.length += frame->bytes.size();
  if (of.pass.update) of.pass.update(frame->bytes);
  if (auto good = file_->append(frame->bytes); !good) return good.error();
  if (!frame->last) return {};
  set_digest(of.part, of.algorithm, of.pass);
  add(of.object, std::move(of.part));
  pending_.pop_front();
  return {};
}

result<void> zt_archive::take_all_frames() {
  while (frames_ != nullptr && !frames_->empty()) {
    if (auto good = take_frame(); !good) return good.error();
  }
  return {};
}

result<void> zt_archive::alias(const std::string& name, const std::string& of) {
  // What is not written yet has no place yet.
  if (auto drained = take_all_frames(); !drained) return drained.error();
  const zt_object* const first = find(of);
  if (first == nullptr) {
    return fault{errc::no_such_tensor, place_ + ": " + tensor_place(of), ""};
  }
  zt_object second = *first;
  second.name = name;
  auto known = declare(std::move(second));
  return known ? result<void>() : known.error();
}

result<void> zt_archive::add_shared(std::uint32_t object, const zt_component& part,
                                    std::uint32_t of, const std::string& other) {
  if (auto drained = take_all_frames(); !drained) return drained.error();
  const auto& parts = *objects_[of].components;
  zt_component same = *std::ranges::find(parts, other, &zt_component::name);
  same.name = part.name;
  same.dtype = part.dtype;
  same.type = part.type;
  add(object, std::move(same));
  return {};
}

// Whether another component begins within its bytes, or it within those of another.
bool zt_archive::is_shared(const zt_component& part) const noexcept {
  unsigned found = 0;
  for (const zt_object& object : objects_) {
    for (const zt_component& other : *object.components) {
      const bool apart = *other.offset + *other.length <= *part.offset ||
                         *part.offset + *part.length <= *other.offset;
      if (!apart) ++found;
    }
  }
  return found > 1;
}

result<void> zt_archive::check_overwrite(const std::string& name) const {
  const auto known = by_name_.find(name);
  const auto refused = [&](errc code, std::string why) {
    return fault{code, place_ + ": " + tensor_place(name), std::move(why)};
  };
  if (known == by_name_.end()) return refused(errc::no_such_tensor, "");
  const zt_object& object = objects_[known->second];
  if (*object.format != "dense" || object.components->size() != 1) {
    return refused(errc::unsupported_feature, "it is no dense tensor, so it is not replaced");
  }
  const zt_component& part = object.components->front();
  if (part.zstd || part.swap_bytes != 0) {
    return refused(errc::unsupported_feature,
                   "only what is stored raw can be replaced; remove it, and append it again");
  }
  if (is_shared(part)) {
    return refused(errc::unsupported_feature,
                   "another tensor has the same bytes, which would change too");
  }
  const auto pass = begin_digest(digest_kind(part));
  return pass ? result<void>() : in_object(pass.error(), name);
}

result<void> zt_archive::overwrite(const std::string& name, const readable_bytes& from) {
  zt_component& part = objects_[by_name_.at(name)].components->front();
  const auto algorithm = digest_kind(part);
  auto pass = begin_digest(algorithm);
  if (!pass) return in_object(pass.error(), name);
  for (std::uint64_t at = 0; at < *part.length;) {
    auto here = next(from, at, *part.length);
    if (!here) return in_object(here.error(), name);
    if (pass->update) pass->update(*here);
    if (auto good = file_->overwrite(*part.offset + at, *here); !good) return good.error();
    at += here->size();
  }
  set_digest(part, algorithm, *pass);
  return {};
}

result<void> zt_archive::check_objects() const {
  for (const zt_object& each : objects_) {
    if (auto good = check_zt_object(each); !good) return good.error().in(place_);
  }
  return {};
}

result<void> zt_archive::finish() {
  if (auto drained = take_all_frames(); !drained) return drained.error();
  if (auto good = check_objects(); !good) return good.error();
  auto tail = zt_tail(version_, attributes_, objects_);
  if (!tail) return tail.error().in(place_);
  // A file without blobs has its manifest right after the magic.
  if (auto good = file_->append(std::as_bytes(std::span<const char>(*tail))); !good) {
    return good.error();
  }
  return file_->finish();
}

}  // namespace ringload::inline v0
