// SPDX-License-Identifier: Apache-2.0

// What a writer takes from .zt files that are there: all of one, to append to it; objects of
// others, as they are stored.

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

// Copied by the kernel between two looks at whether to stop.
constexpr std::uint64_t copied_at_once = std::uint64_t{64} << 20;
// Stored bytes that are read at once, to be decoded or hashed.
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

// Before 1.2 nothing says how long what is compressed becomes, but the shape.
result<void> complete_lengths(zt_object& object) {
  for (zt_component& part : *object.components) {
    if (!part.zstd || part.uncompressed_length) continue;
    file_entries found;
    const zt_blobs anywhere = {zt_magic.size(), INT64_MAX, 1, true};
    if (auto bad = add_zt_object(object, anywhere, found)) return *bad;
    part.uncompressed_length = found.tensors.at(0).bytes;
  }
  return {};
}

// copy_file_range(), or what it does if the kernel or a filter of system calls has none. Moves both
// offsets. -1 with errno, as there.
::ssize_t copy_some(int from, ::off64_t& at, int to, std::uint64_t bytes) {
  ::off64_t there = at;
  const ::ssize_t n = ::copy_file_range(from, &at, to, &there, bytes, 0);
  const bool is_missing = n < 0 && (errno == ENOSYS || errno == EXDEV || errno == EOPNOTSUPP ||
                                    errno == EPERM || errno == EINVAL);
  if (!is_missing) return n;
  std::array<std::byte, std::size_t{64} << 10> room;
  const ::ssize_t got = ::pread(from, room.data(), std::min<std::uint64_t>(room.size(), bytes), at);
  for (::ssize_t done = 0; done < got;) {
    const ::ssize_t written =
        ::pwrite(to, room.data() + done, static_cast<std::size_t>(got - done), at + done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return -1;
    done += written;
  }
  if (got > 0) at += got;
  return got;
}

// 0, or errno.
int copy_all(int from, int to, std::uint64_t bytes, const std::atomic<bool>& stop) {
  ::off64_t at = 0;
  while (static_cast<std::uint64_t>(at) < bytes) {
    if (stop) return ECANCELED;
    const std::uint64_t step = std::min(bytes - static_cast<std::uint64_t>(at), copied_at_once);
    const ::ssize_t n = copy_some(from, at, to, step);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) return EIO;
  }
  return 0;
}

std::string lower_case(std::string text) {
  for (char& each : text) {
    if (each >= 'A' && each <= 'Z') each = static_cast<char>(each - 'A' + 'a');
  }
  return text;
}

// The stored bytes of a component, hashed as they are read. They must be read in order.
class hashed_component {
 public:
  // `pass` hashes as the component's digest asks; without functions nothing is compared.
  hashed_component(int fd, zt_component part, hasher pass)
      : stored_(file_bytes(fd, *part.offset)), part_(std::move(part)), pass_(std::move(pass)) {}

  result<std::span<const std::byte>> next(std::uint64_t offset, std::span<std::byte> room) {
    auto here = stored_(offset, room);
    if (!here) return here.error();
    if (pass_.update) pass_.update(*here);
    hashed_ = offset + here->size();
    return here;
  }

  // Hashes the bytes that nobody has read, and compares the digest.
  result<void> compare() {
    if (!pass_.finish) return {};
    std::vector<std::byte> room(stored_at_once);
    while (hashed_ < *part_.length) {
      const std::uint64_t step = std::min<std::uint64_t>(*part_.length - hashed_, room.size());
      auto here = next(hashed_, std::span(room).first(static_cast<std::size_t>(step)));
      if (!here) return here.error();
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
                    std::unique_ptr<decoder> with)
      : stored_(stored), part_(part), decoder_(std::move(with)) {}

  result<std::span<const std::byte>> next(std::uint64_t offset, std::span<std::byte> room) {
    auto filled = decoder_ == nullptr ? raw(offset, room) : decoded(room);
    if (!filled) return filled.error();
    for (std::size_t at = 0; part_.swap_bytes > 1 && at < room.size(); at += part_.swap_bytes) {
      std::ranges::reverse(room.subspan(at, part_.swap_bytes));
    }
    return room;
  }

 private:
  result<void> raw(std::uint64_t offset, std::span<std::byte> room) {
    auto read = stored_.next(offset, room);
    return read ? result<void>() : read.error();
  }

  result<void> decoded(std::span<std::byte> room) {
    while (!room.empty()) {
      auto done = decoder_->decode(waiting_, room);
      if (!done) return done.error();
      waiting_ = waiting_.subspan(done->taken);
      room = room.subspan(done->given);
      if (done->taken > 0 || done->given > 0) continue;
      if (taken_ == *part_.length) {
        return fault{errc::malformed_stream, "", "it ends before all bytes are there"};
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
  std::span<const std::byte> waiting_;  // Of the buffer.
  std::uint64_t taken_ = 0;             // Of the stored bytes.
};

result<std::unique_ptr<decoder>> decoder_of(const zt_component& part) {
  if (!part.zstd) return std::unique_ptr<decoder>();
  return make_decoder(codec::zstd, 1);
}

// A component of an object of this file.
struct shared_part {
  std::uint32_t object;
  std::string name;
};

// Where the stored bytes of a component are, and how they are to be understood.
using stored_bytes_key = std::tuple<std::uint64_t, std::uint64_t, bool,
                                    std::optional<std::uint64_t>, std::uint8_t, std::string>;

stored_bytes_key key_of(const zt_component& part) {
  return {*part.offset,    *part.length, part.zstd, part.uncompressed_length,
          part.swap_bytes, part.digest};
}

}  // namespace

readable_bytes file_bytes(int fd, std::uint64_t begin) {
  return [fd, begin](std::uint64_t offset,
                     std::span<std::byte> room) -> result<std::span<const std::byte>> {
    std::size_t filled = 0;
    while (filled < room.size()) {
      const ::ssize_t n = ::pread(fd, room.data() + filled, room.size() - filled,
                                  static_cast<::off_t>(begin + offset + filled));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return fault{system_code(errno), ""};
      if (n == 0) return fault{errc::truncated_file, ""};
      filled += static_cast<std::size_t>(n);
    }
    return room;
  };
}

// What may take long is done as the first step, which can be cancelled.
result<std::shared_ptr<writer_state>> writer_state::append_zt(std::string path,
                                                              writer_options how) {
  how.replace = true;
  // The file is replaced, not a link to it.
  std::error_code unknown;
  if (std::filesystem::is_symlink(path, unknown)) {
    const std::filesystem::path target = std::filesystem::canonical(path, unknown);
    if (!unknown) path = target.native();
  }
  auto made = make(path, std::move(how), 0);
  if (!made) return made.error();
  boost::asio::post((*made)->thread_.get_executor(), [job = made->get(), path = std::move(path)] {
    job->attempt_step([&] { return catch_as_fault([&] { return job->take_over(path); }); });
  });
  return made;
}

result<void> writer_state::take_over(const std::string& path) {
  auto from = open_zt(path);
  if (!from) return from.error();
  if (auto alone = old_file_.take(path, from->file.fd.get()); !alone) return alone.error();
  const auto failed = [&](int code) { return fault{system_code(code), printable_path(path)}; };
  if (from->manifest.is_0_1) {
    return fault{errc::unsupported_feature, printable_path(path),
                 "a file of version 0.1 must be migrated first"};
  }
  const int to = file_.buffered.get();
  if (::ioctl(to, FICLONE, from->file.fd.get()) != 0) {
    const int code = copy_all(from->file.fd.get(), to, from->manifest.begin, stop_);
    if (code != 0) return failed(code);
  }
  struct ::stat status = {};
  if (::fstat(from->file.fd.get(), &status) != 0 || ::fchmod(to, status.st_mode & 07777) != 0 ||
      ::ftruncate(to, static_cast<::off_t>(from->manifest.begin)) != 0) {
    return failed(errno);
  }
  file_.bytes = from->manifest.begin;
  if (auto opened = open_archive(from->manifest.begin); !opened) return opened.error();
  if (!from->manifest.version.starts_with("1.1")) archive_->set_version(from->manifest.version);
  if (auto read = attributes_.read(from->manifest.encoded_attributes); !read) return read.error();
  for (zt_object& each : from->manifest.objects) {
    if (each.unreadable) return each.unreadable->in(printable_path(path));
    if (auto good = complete_lengths(each); !good) return good.error().in(printable_path(path));
    if (auto known = archive_->declare(std::move(each)); !known) return known.error();
  }
  return {};
}

// Hashes as the digest asks that the component has; without functions where it has none that is
// known.
result<hasher> writer_state::begin_stored_digest(const zt_component& part) const {
  const auto kind = digest_kind(part);
  if (!kind) return hasher();
  if (*kind == digest_algorithm::crc32c) return begin_crc32c();
  if (how_.sha256) return how_.sha256();
  return fault{errc::digest_unavailable, "",
               "its digest is a sha256, which must be compared before the bytes are encoded anew, "
               "and no hasher for it was given (writing::sha256)"};
}

result<void> writer_state::copy_part(std::uint32_t object, zt_component part, int from,
                                     const copy_options& how) {
  const bool other_encoding = how.zstd_level && (*how.zstd_level != 0 || part.zstd);
  const bool copied = part.swap_bytes == 0 && !other_encoding;
  // What is stored anew, or gets another digest, must be what its own digest says.
  hasher pass;
  if (!copied || how.digest) {
    auto begun = begin_stored_digest(part);
    if (!begun) return begun.error();
    pass = std::move(*begun);
  }
  hashed_component stored(from, part, std::move(pass));
  auto decoder = decoder_of(part);
  if (!decoder) return decoder.error();
  decoded_component decoded(stored, part, std::move(*decoder));
  const readable_bytes bytes = [&](std::uint64_t offset, std::span<std::byte> room) {
    auto here = copied ? stored.next(offset, room) : decoded.next(offset, room);
    if (here) bytes_taken_ += here->size();
    return here;
  };
  result<void> written;
  if (copied) {
    written = archive_->copy(object, part, bytes, how.digest);
  } else {
    component_encoding as;
    as.zstd_level = how.zstd_level ? *how.zstd_level : part.zstd ? zstd_level_default : 0;
    as.digest = how.digest ? how.digest : digest_kind(part);
    zt_component anew = part;
    anew.swap_bytes = 0;
    if (!part.digest.empty() && !digest_kind(part)) {
      notes_.push_back(tensor_place(archive_->objects()[object].name) + ": its digest '" +
                       printable(part.digest) +
                       "' is dropped, because it is of a kind that is not known and the bytes are "
                       "encoded anew");
    }
    const std::uint64_t count = part.zstd ? *part.uncompressed_length : *part.length;
    written = archive_->write(object, std::move(anew), count, bytes, as);
  }
  // Damage may be why they cannot be decoded.
  if (!written && written.error().code != errc::malformed_stream) return written;
  if (auto same = stored.compare(); !same) return same;
  return written;
}

result<void> writer_state::copy(const std::string& file,
                                const std::function<bool(std::string_view)>& chosen,
                                const copy_options& how) {
  if (auto to = archive(""); !to) return to.error();
  if (how.zstd_level && (*how.zstd_level < 0 || *how.zstd_level > zstd_level_max)) {
    return fault{errc::invalid_saving, file_.place,
                 "a level of zstd is 1 to " + grouped(zstd_level_max) + ", and 0 is raw"};
  }
  auto from = open_zt(file);
  if (!from) return from.error();
  std::vector<zt_object> wanted;
  for (zt_object& each : from->manifest.objects) {
    if (chosen && !chosen(each.name)) continue;
    if (each.unreadable) return each.unreadable->in(printable_path(file));
    if (archive_->index_of(each.name)) return archive_->declare(std::move(each)).error();
    if (auto good = complete_lengths(each); !good) return good.error().in(printable_path(file));
    wanted.push_back(std::move(each));
  }
  auto read = attributes_.read(from->manifest.encoded_attributes);
  if (!read) return read.error().in(printable_path(file));
  damages_ = true;
  // Bytes that components share are copied once, if the components say the same of them.
  std::map<stored_bytes_key, shared_part> copied;
  for (zt_object& each : wanted) {
    const std::string place = printable_path(file) + ": " + tensor_place(each.name);
    zt_object empty = each;
    empty.components.emplace();
    auto known = archive_->declare(std::move(empty));
    if (!known) return known.error();
    for (zt_component& part : *each.components) {
      const shared_part mine{*known, part.name};
      const auto [first, is_new] = copied.emplace(key_of(part), mine);
      // Without bytes there is nothing to share.
      auto good =
          is_new || *part.length == 0
              ? copy_part(*known, part, from->file.fd.get(), how)
              : archive_->add_shared(*known, part, first->second.object, first->second.name);
      if (!good) return good.error().where.empty() ? good.error().in(place) : good.error();
    }
  }
  return {};
}

}  // namespace ringload::inline v0::detail
