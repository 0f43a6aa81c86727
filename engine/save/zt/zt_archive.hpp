// SPDX-License-Identifier: Apache-2.0
#pragma once

// Writes a .zt file, which contains objects such as tensors. An object consists of one or more
// components, which are arrays of bytes. An object is declared first. Then its components are
// compressed, hashed and written one after another. finish() writes the index at the end of the
// file.

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

// Reads the bytes of a component, beginning at `offset`. Returns as many bytes as `buffer` has. The
// result refers to `buffer` or to other memory.
using readable_bytes = std::function<result<std::span<const std::byte>>(
    std::uint64_t offset, std::span<std::byte> buffer)>;

struct archive_settings {
  // Alignment of the data of a component: a power of two from 64 bytes to 2 MiB.
  std::uint64_t alignment = zt_alignment;
  // Number of compressing threads, at most frame_queue::encoders_max.
  std::uint32_t encoders = 1;
  std::function<hasher()> sha256;  // See checksum_list::sha256.
};

struct component_encoding {
  int zstd_level = 0;  // 0 means no compression.
  std::optional<digest_algorithm> digest;
};

// Returns the digest algorithm of a component. Returns an empty optional if the component has no
// digest, or a digest of an unknown kind.
std::optional<digest_algorithm> digest_kind(const zt_component& part) noexcept;

// Returns a hasher for `algorithm`. If `algorithm` is empty, the functions of the hasher are empty
// too. For SHA-256, returns the hasher of the caller.
result<hasher> begin_digest(std::optional<digest_algorithm> algorithm,
                            const std::function<hasher()>& sha256);

// Must be used by one thread at a time. Must not be used after an error, unless the error is from
// declare(), check_overwrite() or check_objects(), or concerns a name that was passed to alias().
class zt_archive {
 public:
  // Creates an archive that writes to `file`. `begin` is the end of the existing data, or 0 for a
  // new file. `file` and `stop` must outlive the archive.
  static result<std::unique_ptr<zt_archive>> make(written_file& file, std::uint64_t begin,
                                                  archive_settings settings,
                                                  const std::atomic<bool>& stop);

  // Adds an object, and returns its index. The components of `object` must already be in the file.
  // Fails with errc::duplicate_tensor if the name exists.
  result<std::uint32_t> declare(zt_object object);
  std::optional<std::uint32_t> index_of(const std::string& name) const noexcept;
  const zt_object* find(const std::string& name) const noexcept;
  // Returns true if the object has this component, even if the component is not written yet.
  bool has_part(std::uint32_t object, const std::string& name) const noexcept;

  // Writes a component of `bytes` bytes. Compresses the bytes if encoding.zstd_level is not 0. The
  // offset and the length in `part` are ignored.
  result<void> write(std::uint32_t object, zt_component part, std::uint64_t bytes,
                     const readable_bytes& source, const component_encoding& encoding);
  // Writes stored bytes without a change. `part` describes the bytes, but its offset is ignored. If
  // `digest` is set, the component gets a new digest of this kind.
  result<void> copy(std::uint32_t object, zt_component part, const readable_bytes& source,
                    std::optional<digest_algorithm> digest);
  // Adds another name for an existing object. Fails with errc::no_such_tensor if the object does
  // not exist.
  result<void> alias(const std::string& name, const std::string& original);
  // Adds a component that shares the stored bytes of another component: `source_part` of the object
  // `source_object`. The new component has the name and type of `part`.
  result<void> add_shared(std::uint32_t object, const zt_component& part,
                          std::uint32_t source_object, const std::string& source_part);
  // Fails if overwrite() cannot be called for the tensor. The tensor must be dense, without
  // compression and in little-endian byte order. The tensor must not share its bytes with another
  // component.
  result<void> check_overwrite(const std::string& name) const;
  // Overwrites the stored bytes of a tensor that has passed check_overwrite(), and updates its
  // digest.
  result<void> overwrite(const std::string& name, const readable_bytes& source);

  // Sets the attributes of the file, as a CBOR map or an empty string.
  void set_attributes(std::string encoded) { attributes_ = std::move(encoded); }
  void set_version(std::string version) { version_ = std::move(version); }

  // Waits for all frames in the queue, and writes the frames.
  result<void> take_all_frames();
  // Fails if an object is invalid, for example because a component is missing. The queue of frames
  // must be empty.
  result<void> check_objects() const;
  // Writes all frames in the queue and the index, and ends the file.
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
    bool has_begun = false;
  };

  zt_archive(std::string place, archive_settings settings, const std::atomic<bool>& stop)
      : place_(std::move(place)), settings_(std::move(settings)), stop_(stop) {}

  result<void> begin_blob(zt_component& part);
  result<void> write_raw(zt_component& part, const readable_bytes& source, const hasher& pass);
  result<void> encode(std::uint64_t bytes, const readable_bytes& source, int level);
  result<void> take_frame();
  result<std::span<const std::byte>> next(const readable_bytes& source, std::uint64_t offset,
                                          std::uint64_t end);
  void add(std::uint32_t object, zt_component part);
  bool is_shared(const zt_component& part) const noexcept;
  fault in_object(const fault& problem, const std::string& name) const;

  const std::string place_;  // Name of the file, for errors.
  const archive_settings settings_;
  const std::atomic<bool>& stop_;
  std::unique_ptr<append_file> file_;
  // Created when the first component is compressed.
  std::unique_ptr<frame_queue> frames_;
  std::string version_{"1.2.0"};
  std::string attributes_;
  std::vector<zt_object> objects_;
  std::unordered_map<std::string, std::uint32_t> by_name_;
  std::deque<encoded_component> pending_;  // In the order of their frames.
  std::vector<std::byte> buffer_;
};

}  // namespace ringload::inline v0
