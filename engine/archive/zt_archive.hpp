// SPDX-License-Identifier: Apache-2.0
#pragma once

// A .zt file as it is written: objects are declared, their components come one after the other,
// encoded and hashed on the way, and the manifest follows them.

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

#include "archive/frame_queue.hpp"
#include "core/fault.hpp"
#include "formats/zt.hpp"
#include "formats/zt_object.hpp"
#include "writers/block_file.hpp"

namespace ringload::inline v0 {

// Bytes that are to be written: those from `offset` on, as many as `room` has; in place, or put
// into `room`.
using readable_bytes = std::function<result<std::span<const std::byte>>(std::uint64_t offset,
                                                                        std::span<std::byte> room)>;

struct archive_settings {
  std::uint64_t alignment = zt_alignment;  // Of blobs: a power of two, 64 to 2 MiB.
  std::uint32_t encoders = 1;              // Threads, at most frame_queue::encoders_max.
  std::function<hasher()> sha256;          // See manifest::sha256.
};

struct component_encoding {
  int zstd_level = 0;  // 0: raw.
  std::optional<digest_algorithm> digest;
};

// Of what kind the digest of a component is; empty: it has none, or one that is not known.
std::optional<digest_algorithm> digest_kind(const zt_component& part) noexcept;

// Used by one thread at a time. After a fault it is of no more use.
class zt_archive {
 public:
  // The file ends at `begin`, where the next blob may stand; 0: it is new. All outlive this.
  static result<std::unique_ptr<zt_archive>> make(written_file& file, std::uint64_t begin,
                                                  archive_settings how,
                                                  const std::atomic<bool>& stop);

  // An object, with the components that it has in the file already. Fails with
  // errc::duplicate_tensor.
  result<std::uint32_t> declare(zt_object object);
  std::optional<std::uint32_t> index_of(const std::string& name) const noexcept;
  const zt_object* find(const std::string& name) const noexcept;
  // Also one that is pending.
  bool has_part(std::uint32_t object, const std::string& name) const noexcept;

  // Encodes and writes a component of `bytes` bytes. What `part` says of its place is ignored.
  result<void> write(std::uint32_t object, zt_component part, std::uint64_t bytes,
                     const readable_bytes& from, const component_encoding& how);
  // Writes stored bytes as they are; `part` says what they are, but for their place. With a digest
  // of that kind in place of the one that it has.
  result<void> copy(std::uint32_t object, zt_component part, const readable_bytes& from,
                    std::optional<digest_algorithm> digest);
  // Another name for an object that is there. errc::no_such_tensor.
  result<void> alias(const std::string& name, const std::string& of);
  // A component with the stored bytes of another, of the object `of`, and under the name and type
  // that `part` has.
  result<void> add_shared(std::uint32_t object, const zt_component& part, std::uint32_t of,
                          const std::string& other);
  // Whether overwrite() may be called: the tensor is dense, raw, and shares its bytes with none.
  result<void> check_overwrite(const std::string& name) const;
  // Writes over the stored bytes of such a tensor, and updates its digest.
  result<void> overwrite(const std::string& name, const readable_bytes& from);

  // Replaces the attributes of the file: a map, or empty.
  void set_attributes(std::string encoded) { attributes_ = std::move(encoded); }
  void set_version(std::string version) { version_ = std::move(version); }

  // Writes what is pending.
  result<void> take_all_frames();
  // Whether the objects' components fit each other. Nothing may be pending.
  result<void> check_objects() const;
  // Writes what is pending, the manifest, and the end of the file.
  result<void> finish();

  std::uint64_t end() const noexcept { return file_->end(); }
  std::uint64_t bytes_direct() const noexcept { return file_->bytes_direct(); }
  std::uint64_t writes() const noexcept { return file_->writes(); }
  std::span<const zt_object> objects() const noexcept { return objects_; }

 private:
  // A component whose frames are not all written yet.
  struct encoded_component {
    std::uint32_t object;
    zt_component part;
    std::optional<digest_algorithm> algorithm;
    hasher pass;
    bool begun = false;
  };

  zt_archive(std::string place, archive_settings how, const std::atomic<bool>& stop)
      : place_(std::move(place)), how_(std::move(how)), stop_(stop) {}

  result<hasher> begin_digest(std::optional<digest_algorithm> algorithm) const;
  result<void> begin_blob(zt_component& part);
  result<void> write_raw(zt_component& part, const readable_bytes& from, const hasher& pass);
  result<void> encode(std::uint64_t bytes, const readable_bytes& from, int level);
  result<void> take_frame();
  result<std::span<const std::byte>> next(const readable_bytes& from, std::uint64_t offset,
                                          std::uint64_t end);
  void add(std::uint32_t object, zt_component part);
  bool is_shared(const zt_component& part) const noexcept;
  fault in_object(const fault& why, const std::string& name) const;

  const std::string place_;  // The file, for errors.
  const archive_settings how_;
  const std::atomic<bool>& stop_;
  std::unique_ptr<block_file> file_;
  std::unique_ptr<frame_queue> frames_;  // From the first component on that is compressed.
  std::string version_{"1.2.0"};
  std::string attributes_;
  std::vector<zt_object> objects_;
  std::unordered_map<std::string, std::uint32_t> by_name_;
  std::deque<encoded_component> pending_;  // In the order of their frames.
  std::vector<std::byte> room_;
};

}  // namespace ringload::inline v0
