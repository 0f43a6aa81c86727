// SPDX-License-Identifier: Apache-2.0
#pragma once

// Writes a .zt file: objects are declared, their components are encoded, hashed and written one
// after another, and the manifest follows.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <ringload/verify.hpp>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/fault.hpp"
#include "formats/zt/zt.hpp"
#include "formats/zt/zt_object.hpp"
#include "io/writers/append_file.hpp"
#include "save/zt/frame_queue.hpp"

namespace ringload::inline v0 {

// Returns the bytes to be written from `offset` on, as many as `room` has, in place or copied into
// `room`.
using readable_bytes = std::function<result<std::span<const std::byte>>(std::uint64_t offset,
                                                                        std::span<std::byte> room)>;

struct archive_settings {
  std::uint64_t alignment = zt_alignment;  // Alignment of blobs: a power of two, 64 to 2 MiB.
  std::uint32_t encoders = 1;              // Threads, at most frame_queue::encoders_max.
  std::function<hasher()> sha256;          // See manifest::sha256.
};

struct component_encoding {
  int zstd_level = 0;  // 0: raw.
  std::optional<digest_algorithm> digest;
};

// Returns the digest algorithm of a component; empty if it has no digest or an unknown one.
std::optional<digest_algorithm> digest_kind(const zt_component& part) noexcept;

// Must be used by one thread at a time. After a fault it must not be used.
class zt_archive {
 public:
  // The file ends at `begin`, where the next blob may be written; 0: a new file. `file` and `stop`
  // must outlive this object.
  static result<std::unique_ptr<zt_archive>> make(written_file& file, std::uint64_t begin,
                                                  archive_settings settings,
                                                  const std::atomic<bool>& stop);

  // Declares an object together with its components that are in the file already. Fails with
  // errc::duplicate_tensor.
  result<std::uint32_t> declare(zt_object object);
  std::optional<std::uint32_t> index_of(const std::string& name) const noexcept;
  const zt_object* find(const std::string& name) const noexcept;
  // Also finds pending components.
  bool has_part(std::uint32_t object, const std::string& name) const noexcept;

  // Encodes and writes a component of `bytes` bytes. The offset and length in `part` are ignored.
  result<void> write(std::uint32_t object, zt_component part, std::uint64_t bytes,
                     const readable_bytes& from, const component_encoding& encoding);
  // Writes stored bytes unchanged; `part` describes them except for their offset. With `digest`, a
  // new digest of that kind replaces the old one.
  result<void> copy(std::uint32_t object, zt_component part, const readable_bytes& from,
                    std::optional<digest_algorithm> digest);
  // Adds another name for an existing object. Fails with errc::no_such_tensor.
  result<void> alias(const std::string& name, const std::string& original);
  // Adds a component that shares the stored bytes of `source_part` of the object `source_object`,
  // with the name and type of `part`.
  result<void> add_shared(std::uint32_t object, const zt_component& part,
                          std::uint32_t source_object, const std::string& source_part);
  // Returns no error if overwrite() may be called: the tensor is dense and raw, and no other
  // component shares its bytes.
  result<void> check_overwrite(const std::string& name) const;
  // Overwrites the stored bytes of such a tensor, and updates its digest.
  result<void> overwrite(const std::string& name, const readable_bytes& from);

  // Replaces the attributes of the file: an encoded map, or empty.
  void set_attributes(std::string encoded) { attributes_ = std::move(encoded); }
  void set_version(std::string version) { version_ = std::move(version); }

  // Writes the pending frames.
  result<void> take_all_frames();
  // Checks that the components of each object fit each other. No frame may be pending.
  result<void> check_objects() const;
  // Writes pending frames and the manifest, and ends the file.
  result<void> finish();

  std::uint64_t end() const noexcept { return file_->end(); }
  std::uint64_t bytes_direct() const noexcept { return file_->bytes_direct(); }
  std::uint64_t writes() const noexcept { return file_->writes(); }
  std::span<const zt_object> objects() const noexcept { return objects_; }

 private:
  // A component with frames that are not written yet.
  struct encoded_component {
    std::uint32_t object;
    zt_component part;
    std::optional<digest_algorithm> algorithm;
    hasher pass;
    bool begun = false;
  };

  zt_archive(std::string place, archive_settings settings, const std::atomic<bool>& stop)
      : place_(std::move(place)), settings_(std::move(settings)), stop_(stop) {}

  result<hasher> begin_digest(std::optional<digest_algorithm> algorithm) const;
  result<void> begin_blob(zt_component& part);
  result<void> write_raw(zt_component& part, const readable_bytes& from, const hasher& pass);
  result<void> encode(std::uint64_t bytes, const readable_bytes& from, int level);
  result<void> take_frame();
  result<std::span<const std::byte>> next(const readable_bytes& from, std::uint64_t offset,
                                          std::uint64_t end);
  void add(std::uint32_t object, zt_component part);
  bool is_shared(const zt_component& part) const noexcept;
  fault in_object(const fault& problem, const std::string& name) const;

  const std::string place_;  // The file, for errors.
  const archive_settings settings_;
  const std::atomic<bool>& stop_;
  std::unique_ptr<append_file> file_;
  std::unique_ptr<frame_queue> frames_;  // Created by the first compressed component.
  std::string version_{"1.2.0"};
  std::string attributes_;
  std::vector<zt_object> objects_;
  std::unordered_map<std::string, std::uint32_t> by_name_;
  std::deque<encoded_component> pending_;  // In the order of their frames.
  std::vector<std::byte> room_;
};

}  // namespace ringload::inline v0
