// SPDX-License-Identifier: Apache-2.0

// Reads existing .zt files for a writer. append_zt() takes over a whole file. copy() copies objects
// of another file.

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <tuple>

#include "base/catch_as_fault.hpp"
#include "base/crc32c_hasher.hpp"
#include "base/printable.hpp"
#include "catalog/file_input.hpp"
#include "catalog/source_file.hpp"
#include "formats/codec/decoder.hpp"
#include "formats/codec/zstd_frame.hpp"
#include "formats/zt/zt_writing.hpp"
#include "save/writer_state.hpp"

namespace ringload::inline v0::detail {

namespace {

// Bytes copied by the kernel between two checks of the stop flag.
constexpr std::uint64_t copied_at_once = std::uint64_t{64} << 20;
// Size of one read of stored bytes, for decoding or hashing.
constexpr std::uint64_t stored_at_once = std::uint64_t{256} << 10;

struct zt_source {
  source_file file;
  zt_manifest manifest;
};

result<zt_source> open_zt(const std::string& path) {
  zt_source out;
  unique_fd fd(::open(path.c_str(), open_unknown_flags));
  if (!fd) return fault{system_code(errno), printable_path(path)};
  auto file = as_regular_file(std::move(fd));
  if (!file) return file.error().in(printable_path(path));
  out.file = std::move(*file);
  file_input in(out.file);
  auto manifest = read_zt_manifest(in);
  if (!manifest) return manifest.error().in(printable_path(path));
  out.manifest = std::move(*manifest);
  return out;
}

// Before version 1.2, only the shape determines the decoded length of a component.
result<void> complete_lengths(zt_object& object) {
  for (zt_component& part : *object.components) {
    if (!part.zstd || part.uncompressed_length) continue;
    file_entries found;
    const zt_blobs anywhere = {zt_magic.size(), INT64_MAX, 1, true};
    if (auto problem = add_zt_object(object, anywhere, found)) return *problem;
    part.uncompressed_length = found.tensors.at(0).bytes;
  }
  return {};
}

// Calls copy_file_range(). Reads and writes instead if the kernel or a system call filter refuses
// the call. Advances both offsets. Returns -1 with errno on failure.
::ssize_t copy_some(int from, ::off64_t& offset, int to, std::uint64_t bytes) {
  ::off64_t target_offset = offset;
  const ::ssize_t n = ::copy_file_range(from, &offset, to, &target_offset, bytes, 0);
  const bool is_missing = n < 0 && (errno == ENOSYS || errno == EXDEV || errno == EOPNOTSUPP ||
                                    errno == EPERM || errno == EINVAL);
  if (!is_missing) return n;
  std::array<std::byte, std::size_t{64} << 10> buffer;
  const ::ssize_t got =
      ::pread(from, buffer.data(), std::min<std::uint64_t>(buffer.size(), bytes), offset);
  for (::ssize_t done = 0; done < got;) {
    const ::ssize_t written =
        ::pwrite(to, buffer.data() + done, static_cast<std::size_t>(got - done), offset + done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return -1;
    done += written;
  }
  if (got > 0) offset += got;
  return got;
}

// Returns 0 or errno.
int copy_all(int from, int to, std::uint64_t bytes, const std::atomic<bool>& stop) {
  ::off64_t offset = 0;
  while (static_cast<std::uint64_t>(offset) < bytes) {
    if (stop) return ECANCELED;
    const std::uint64_t step = std::min(bytes - static_cast<std::uint64_t>(offset), copied_at_once);
    const ::ssize_t n = copy_some(from, offset, to, step);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) return EIO;
  }
  return 0;
}

std::string lower_case(std::string text) {
  for (char& letter : text) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return text;
}

// The stored bytes of a component, hashed as they are read. They must be read in order.
class hashed_component {
 public:
  // `pass` computes the component's digest. If its functions are empty, compare() does nothing.
  hashed_component(int fd, zt_component part, hasher pass)
      : stored_(file_bytes(fd, *part.offset)), part_(std::move(part)), pass_(std::move(pass)) {}

  result<std::span<const std::byte>> next(std::uint64_t offset, std::span<std::byte> buffer) {
    auto bytes = stored_(offset, buffer);
    if (!bytes) return bytes.error();
    if (pass_.update) pass_.update(*bytes);
    hashed_ = offset + bytes->size();
    return bytes;
  }

  // Hashes the bytes that were not read, and compares the digest.
  result<void> compare() {
    if (!pass_.finish) return {};
    std::vector<std::byte> buffer(stored_at_once);
    while (hashed_ < *part_.length) {
      const std::uint64_t step = std::min<std::uint64_t>(*part_.length - hashed_, buffer.size());
      auto bytes = next(hashed_, std::span(buffer).first(static_cast<std::size_t>(step)));
      if (!bytes) return bytes.error();
    }
    const std::string found = zt_digest_text(*digest_kind(part_), pass_.finish());
    if (lower_case(found) == lower_case(part_.digest)) return {};
    return fault{errc::wrong_digest, "",
                 "the stored bytes of its component '" + printable(part_.name) + "' hash to " +
                     found + ", but the file says " + printable(part_.digest)};
  }

 private:
  const readable_bytes stored_;
  const zt_component part_;
  const hasher pass_;
  std::uint64_t hashed_ = 0;
};

// Decoded bytes of a component. They must be read in order.
class decoded_component {
 public:
  decoded_component(hashed_component& stored, const zt_component& part,
                    std::unique_ptr<decoder> stored_decoder)
      : stored_(stored), part_(part), decoder_(std::move(stored_decoder)) {}

  result<std::span<const std::byte>> next(std::uint64_t offset, std::span<std::byte> buffer) {
    auto filled = decoder_ == nullptr ? raw(offset, buffer) : decoded(buffer);
    if (!filled) return filled.error();
    for (std::size_t element = 0; part_.swap_bytes > 1 && element < buffer.size();
         element += part_.swap_bytes) {
      std::ranges::reverse(buffer.subspan(element, part_.swap_bytes));
    }
    return buffer;
  }

 private:
  result<void> raw(std::uint64_t offset, std::span<std::byte> buffer) {
    auto read = stored_.next(offset, buffer);
    return read ? result<void>() : read.error();
  }

  result<void> decoded(std::span<std::byte> buffer) {
    while (!buffer.empty()) {
      auto done = decoder_->decode(waiting_, buffer);
      if (!done) return done.error();
      waiting_ = waiting_.subspan(done->taken);
      buffer = buffer.subspan(done->given);
      if (done->taken > 0 || done->given > 0) continue;
      if (taken_ == *part_.length) {
        return fault{errc::malformed_stream, "", "the stream ends before all bytes are decoded"};
      }
      const std::uint64_t left = *part_.length - taken_;
      buffer_.resize(static_cast<std::size_t>(std::min<std::uint64_t>(left, stored_at_once)));
      auto read = stored_.next(taken_, buffer_);
      if (!read) return read.error();
      taken_ += buffer_.size();
      waiting_ = buffer_;
    }
    return {};
  }

  hashed_component& stored_;
  const zt_component& part_;
  const std::unique_ptr<decoder> decoder_;
  std::vector<std::byte> buffer_;
  std::span<const std::byte> waiting_;  // Bytes of the buffer that are not decoded.
  std::uint64_t taken_ = 0;             // Stored bytes read so far.
};

result<std::unique_ptr<decoder>> decoder_of(const zt_component& part) {
  if (!part.zstd) return std::unique_ptr<decoder>();
  return make_decoder(codec::zstd, 1);
}

// A component that this file contains already.
struct shared_part {
  std::uint32_t object;
  std::string name;
};

// The position and encoding of a component's stored bytes.
using stored_bytes_key = std::tuple<std::uint64_t, std::uint64_t, bool,
                                    std::optional<std::uint64_t>, std::uint8_t, std::string>;

stored_bytes_key key_of(const zt_component& part) {
  return {*part.offset,    *part.length, part.zstd, part.uncompressed_length,
          part.swap_bytes, part.digest};
}

}  // namespace

readable_bytes file_bytes(int fd, std::uint64_t begin) {
  return [fd, begin](std::uint64_t offset,
                     std::span<std::byte> buffer) -> result<std::span<const std::byte>> {
    std::size_t filled = 0;
    while (filled < buffer.size()) {
      const ::ssize_t n = ::pread(fd, buffer.data() + filled, buffer.size() - filled,
                                  static_cast<::off_t>(begin + offset + filled));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return fault{system_code(errno), ""};
      if (n == 0) return fault{errc::truncated_file, ""};
      filled += static_cast<std::size_t>(n);
    }
    return buffer;
  };
}

// The long operations are part of the first step, which can be cancelled.
result<std::shared_ptr<writer_state>> writer_state::append_zt(std::string path,
                                                              writer_options options) {
  options.replace = true;
  // If the path is a symbolic link, the writer replaces its target and not the link.
  std::error_code unknown;
  if (std::filesystem::is_symlink(path, unknown)) {
    const std::filesystem::path target = std::filesystem::canonical(path, unknown);
    if (!unknown) path = target.native();
  }
  auto state = make(path, std::move(options), 0);
  if (!state) return state.error();
  boost::asio::post((*state)->thread_.get_executor(), [job = state->get(), path = std::move(path)] {
    job->attempt_step([&] { return catch_as_fault([&] { return job->take_over(path); }); });
  });
  return state;
}

result<void> writer_state::take_over(const std::string& path) {
  auto from = open_zt(path);
  if (!from) return from.error();
  if (auto locked = old_file_.take(path, from->file.fd.get()); !locked) return locked.error();
  const auto failed = [&](int code) { return fault{system_code(code), printable_path(path)}; };
  if (from->manifest.is_0_1) {
    return fault{errc::unsupported_feature, printable_path(path),
                 "the file has version 0.1, expected 1.1 or 1.2: migrate the file first"};
  }
  const int to = file_.buffered.get();
  if (::ioctl(to, FICLONE, from->file.fd.get()) != 0) {
    const int code = copy_all(from->file.fd.get(), to, from->manifest.begin, stop_);
    if (code != 0) return failed(code);
  }
  struct ::stat properties = {};
  if (::fstat(from->file.fd.get(), &properties) != 0 ||
      ::fchmod(to, properties.st_mode & 07777) != 0 ||
      ::ftruncate(to, static_cast<::off_t>(from->manifest.begin)) != 0) {
    return failed(errno);
  }
  file_.bytes = from->manifest.begin;
  if (auto opened = open_archive(from->manifest.begin); !opened) return opened.error();
  if (!from->manifest.version.starts_with("1.1")) archive_->set_version(from->manifest.version);
  if (auto read = attributes_.read(from->manifest.encoded_attributes); !read) return read.error();
  for (zt_object& object : from->manifest.objects) {
    if (object.unreadable) return object.unreadable->in(printable_path(path));
    if (auto status = complete_lengths(object); !status)
      return status.error().in(printable_path(path));
    if (auto known = archive_->declare(std::move(object)); !known) return known.error();
  }
  return {};
}

// Returns a hasher for the component's digest. Its functions are empty if the digest is missing or
// of an unknown kind.
result<hasher> writer_state::begin_stored_digest(const zt_component& part) const {
  const auto kind = digest_kind(part);
  if (!kind) return hasher();
  if (*kind == digest_algorithm::crc32c) return begin_crc32c();
  if (options_.sha256) return options_.sha256();
  return fault{errc::digest_unavailable, "",
               "its sha256 digest must be verified before the bytes are encoded again, but no "
               "sha256 hasher is set (writer_options::sha256)"};
}

result<void> writer_state::copy_part(std::uint32_t object, zt_component part, int fd,
                                     const copy_options& options) {
  const bool changes_encoding = options.zstd_level && (*options.zstd_level != 0 || part.zstd);
  const bool copied = part.swap_bytes == 0 && !changes_encoding;
  // Bytes that get a new encoding or digest must match their old digest.
  hasher pass;
  if (!copied || options.digest) {
    auto begun = begin_stored_digest(part);
    if (!begun) return begun.error();
    pass = std::move(*begun);
  }
  hashed_component stored(fd, part, std::move(pass));
  auto decoder = decoder_of(part);
  if (!decoder) return decoder.error();
  decoded_component decoded(stored, part, std::move(*decoder));
  const readable_bytes source = [&](std::uint64_t offset, std::span<std::byte> buffer) {
    auto bytes = copied ? stored.next(offset, buffer) : decoded.next(offset, buffer);
    if (bytes) bytes_taken_ += bytes->size();
    return bytes;
  };
  result<void> written;
  if (copied) {
    written = archive_->copy(object, part, source, options.digest);
  } else {
    component_encoding encoding;
    encoding.zstd_level = options.zstd_level ? *options.zstd_level
                          : part.zstd        ? zstd_level_default
                                             : 0;
    encoding.digest = options.digest ? options.digest : digest_kind(part);
    zt_component new_part = part;
    new_part.swap_bytes = 0;
    if (!part.digest.empty() && !digest_kind(part)) {
      notes_.push_back(tensor_place(archive_->objects()[object].name) + ": its digest '" +
                       printable(part.digest) +
                       "' is dropped, because its kind is unknown and the bytes are encoded again");
    }
    const std::uint64_t count = part.zstd ? *part.uncompressed_length : *part.length;
    written = archive_->write(object, std::move(new_part), count, source, encoding);
  }
  // A decoding error may be caused by damaged bytes. The digest then gives the better message.
  if (!written && written.error().code != errc::malformed_stream) return written;
  if (auto status = stored.compare(); !status) return status;
  return written;
}

result<void> writer_state::copy(const std::string& file,
                                const std::function<bool(std::string_view)>& chosen,
                                const copy_options& options) {
  if (auto to = archive(""); !to) return to.error();
  if (options.zstd_level && (*options.zstd_level < 0 || *options.zstd_level > zstd_level_max)) {
    return fault{errc::invalid_saving, file_.place,
                 "zstd_level is " + std::to_string(*options.zstd_level) + ", expected 1 to " +
                     grouped(zstd_level_max) + ", or 0 for raw"};
  }
  auto from = open_zt(file);
  if (!from) return from.error();
  std::vector<zt_object> selected;
  for (zt_object& object : from->manifest.objects) {
    if (chosen && !chosen(object.name)) continue;
    if (object.unreadable) return object.unreadable->in(printable_path(file));
    if (archive_->index_of(object.name)) return archive_->declare(std::move(object)).error();
    if (auto status = complete_lengths(object); !status)
      return status.error().in(printable_path(file));
    selected.push_back(std::move(object));
  }
  auto read = attributes_.read(from->manifest.encoded_attributes);
  if (!read) return read.error().in(printable_path(file));
  damages_ = true;
  // Shared bytes are copied once if all their components declare the same encoding and digest.
  std::map<stored_bytes_key, shared_part> copied;
  for (zt_object& object : selected) {
    const std::string place = printable_path(file) + ": " + tensor_place(object.name);
    zt_object empty = object;
    empty.components.emplace();
    auto known = archive_->declare(std::move(empty));
    if (!known) return known.error();
    for (zt_component& part : *object.components) {
      const shared_part current_part{*known, part.name};
      const auto [first, is_new] = copied.emplace(key_of(part), current_part);
      // An empty component has no bytes to share.
      auto status =
          is_new || *part.length == 0
              ? copy_part(*known, part, from->file.fd.get(), options)
              : archive_->add_shared(*known, part, first->second.object, first->second.name);
      if (!status) return status.error().where.empty() ? status.error().in(place) : status.error();
    }
  }
  return {};
}

}  // namespace ringload::inline v0::detail
