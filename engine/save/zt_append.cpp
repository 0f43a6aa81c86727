// SPDX-License-Identifier: Apache-2.0

// The steps of a writer that read existing .zt files. append_zt() copies an existing file. The
// writer adds objects to this copy, which then replaces the file. copy() copies objects of another
// file.

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
#include "base/file_io.hpp"
#include "base/printable.hpp"
#include "catalog/file_input.hpp"
#include "catalog/source_file.hpp"
#include "formats/codec/zstd_frame.hpp"
#include "formats/zt/zt_writing.hpp"
#include "save/writer_state.hpp"
#include "save/zt/stored_component.hpp"

namespace ringload::inline v0::detail {

namespace {

// Number of bytes that the kernel copies before the next check for cancellation.
constexpr std::uint64_t copied_at_once = std::uint64_t{64} << 20;

struct zt_source {
  source_file file;
  zt_index manifest;
};

// Returns the fault of the existing file `path`. A writer fails with errc::duplicate_tensor or
// errc::header_not_utf8 only if a name that the caller chose is wrong. Therefore these two codes
// become errc::malformed_header.
fault in_file(const fault& problem, const std::string& path) {
  fault out = problem.in(printable_path(path));
  if (out.code != errc::duplicate_tensor && out.code != errc::header_not_utf8) return out;
  return {errc::malformed_header, out.where(),
          out.cause().empty() ? out.code.message() : out.cause()};
}

result<zt_source> open_zt(const std::string& path) {
  if (path.find('\0') != path.npos) {
    return fault{errc::invalid_source_name, printable_path(path), "the name holds a NUL"};
  }
  zt_source out;
  unique_fd fd(::open(path.c_str(), open_unknown_flags));
  if (!fd) return fault{system_code(errno), printable_path(path)};
  auto file = as_regular_file(std::move(fd));
  if (!file) return file.error().in(printable_path(path));
  out.file = std::move(*file);
  file_input in(out.file);
  auto manifest = read_zt_index(in);
  if (!manifest) return in_file(manifest.error(), path);
  out.manifest = std::move(*manifest);
  return out;
}

// Sets the decoded length of each compressed component that has no decoded length. Files before
// version 1.2 do not contain the length for dense objects. The shape determines this length.
result<void> complete_lengths(zt_object& object) {
  for (zt_component& part : *object.components) {
    if (!part.zstd || part.uncompressed_length) continue;
    if (part.name != "data") {
      return fault{errc::unsupported_feature, tensor_place(object.name),
                   "its component '" + printable(part.name) + "' has no decoded length"};
    }
    file_entries entries;
    const zt_blob_rules anywhere = {zt_magic.size(), INT64_MAX, 1, true};
    if (auto problem = add_zt_object(object, anywhere, entries)) return *problem;
    part.uncompressed_length = entries.tensors.at(0).bytes;
  }
  return {};
}

// Copies at most `bytes` bytes at `offset` to the same offset of the other file. Uses
// copy_file_range(). If the kernel or a system call filter refuses this call, uses a read and a
// write. Increases `offset` by the number of copied bytes.
result<void> copy_range(int from, ::off64_t& offset, int to, std::uint64_t bytes) {
  const auto failed = [](int code) { return fault{system_code(code), {}}; };
  ::off64_t target_offset = offset;
  const ::ssize_t copied =
      uninterrupted([&] { return ::copy_file_range(from, &offset, to, &target_offset, bytes, 0); });
  if (copied > 0) return {};
  if (copied == 0) return failed(EIO);
  const bool is_missing =
      errno == ENOSYS || errno == EXDEV || errno == EOPNOTSUPP || errno == EPERM || errno == EINVAL;
  if (!is_missing) return failed(errno);
  std::array<std::byte, std::size_t{64} << 10> buffer;
  const auto begin = static_cast<std::uint64_t>(offset);
  const auto got = read_fully(
      from, begin, std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), bytes)));
  if (!got) return got.error();
  if (*got == 0) return failed(EIO);
  offset += static_cast<::off64_t>(*got);
  return write_fully(to, begin, std::span(buffer).first(*got));
}

result<void> copy_all(int from, int to, std::uint64_t bytes, const std::atomic<bool>& stop) {
  for (::off64_t offset = 0; static_cast<std::uint64_t>(offset) < bytes;) {
    if (stop) return fault{system_code(ECANCELED), {}};
    const std::uint64_t step = std::min(bytes - static_cast<std::uint64_t>(offset), copied_at_once);
    if (auto copied = copy_range(from, offset, to, step); !copied) return copied;
  }
  return {};
}

// Sets the owner and the group of the file. Ignores failures, because only a privileged process may
// set another owner.
void copy_owner(const struct ::stat& properties, int to) noexcept {
  if (::fchown(to, properties.st_uid, properties.st_gid) == 0) return;
  constexpr auto same_owner = static_cast<::uid_t>(-1);
  (void)(::fchown(to, same_owner, properties.st_gid) == 0);
}

// A component that was already written to the new file.
struct shared_part {
  std::uint32_t object;
  std::string name;
};

// The position, the encoding and the digest of a component's stored bytes.
using stored_bytes_key = std::tuple<std::uint64_t, std::uint64_t, bool,
                                    std::optional<std::uint64_t>, std::uint8_t, std::string>;

stored_bytes_key key_of(const zt_component& part) {
  return {*part.offset,    *part.length, part.zstd, part.uncompressed_length,
          part.swap_bytes, part.digest};
}

}  // namespace

// The first step of the writer opens the old file and copies its content. This step may take long,
// but can be cancelled.
result<std::shared_ptr<writer_state>> writer_state::append_zt(std::string path,
                                                              writer_options options) {
  if (path.find("://") != path.npos) {
    return fault{errc::unsupported_feature, printable_path(path),
                 "objects cannot be added to a file in a store; expected a path"};
  }
  options.replace = true;
  // If the path is a symbolic link, the writer replaces the target of the link. The link does not
  // change.
  std::error_code unknown;
  if (std::filesystem::is_symlink(path, unknown)) {
    const std::filesystem::path target = std::filesystem::canonical(path, unknown);
    if (!unknown) path = target.native();
  }
  auto state = make(path, std::move(options), 0);
  if (!state) return state.error();
  boost::asio::post((*state)->thread_.get_executor(), [job = state->get(), path = std::move(path)] {
    job->attempt_step([&] { return catch_as_fault([&] { return job->open_existing(path); }); });
  });
  return state;
}

result<void> writer_state::open_existing(const std::string& path) {
  auto source = open_zt(path);
  if (!source) return source.error();
  // The old file is not opened for writing, so the kernel does not check this permission.
  if (::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) != 0) {
    return fault{system_code(errno), printable_path(path), "the file is not writable"};
  }
  if (auto locked = old_file_.lock(path, source->file.fd.get()); !locked) return locked.error();
  if (source->manifest.is_0_1) {
    return fault{errc::unsupported_feature, printable_path(path),
                 "the file has version 0.1, expected 1.1 or 1.2: migrate the file first"};
  }
  const int to = file_.buffered.get();
  if (::ioctl(to, FICLONE, source->file.fd.get()) != 0) {
    auto copied = copy_all(source->file.fd.get(), to, source->manifest.begin, stop_);
    if (!copied) return copied.error().in(printable_path(path));
  }
  struct ::stat properties = {};
  if (::fstat(source->file.fd.get(), &properties) != 0) {
    return fault{system_code(errno), printable_path(path)};
  }
  copy_owner(properties, to);
  // A change of the owner clears the set-user-ID bit, so the mode is set afterwards.
  if (::fchmod(to, properties.st_mode & 07777) != 0 ||
      ::ftruncate(to, static_cast<::off_t>(source->manifest.begin)) != 0) {
    return fault{system_code(errno), printable_path(path)};
  }
  file_.bytes = source->manifest.begin;
  if (auto opened = open_archive(source->manifest.begin); !opened) return opened.error();
  if (!source->manifest.version.starts_with("1.1")) archive_->set_version(source->manifest.version);
  if (auto read = attributes_.read(source->manifest.encoded_attributes); !read) {
    return in_file(read.error(), path);
  }
  for (zt_object& object : source->manifest.objects) {
    if (object.unreadable) return in_file(*object.unreadable, path);
    if (auto status = complete_lengths(object); !status) {
      return in_file(status.error(), path);
    }
    if (auto known = archive_->declare(std::move(object)); !known) return known.error();
  }
  return {};
}

// Returns a hasher for the component's digest. If the component has no digest, or a digest of an
// unknown kind, the functions of the hasher are empty.
result<hasher> writer_state::begin_stored_digest(const zt_component& part) const {
  const auto kind = digest_kind(part);
  auto pass = begin_digest(kind, options_.sha256);
  if (pass) return pass;
  return fault{errc::digest_unavailable, "",
               "its sha256 digest must be verified before the bytes are encoded again, but no "
               "sha256 hasher is set (writer_options::sha256)"};
}

result<void> writer_state::copy_part(std::uint32_t object, zt_component part, int fd,
                                     const copy_options& options) {
  const bool changes_encoding = options.zstd_level && (*options.zstd_level != 0 || part.zstd);
  const bool copied = part.swap_bytes == 0 && !changes_encoding;
  // If the component gets a new encoding or a new digest, the old digest is checked.
  hasher pass;
  if (!copied || options.digest) {
    auto new_hasher = begin_stored_digest(part);
    if (!new_hasher) return new_hasher.error();
    pass = std::move(*new_hasher);
  }
  hashed_component stored(fd, part, std::move(pass));
  auto decoded = decoded_component::make(stored, part);
  if (!decoded) return decoded.error();
  const readable_bytes source = [&](std::uint64_t offset, std::span<std::byte> buffer) {
    auto bytes = copied ? stored.read(offset, buffer) : decoded->read(offset, buffer);
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
      notes_.push_back(
          tensor_place(archive_->objects()[object].name) + ": its digest '" +
          printable(part.digest) +
          "' is dropped, because its algorithm is unknown and the bytes are encoded again");
    }
    const std::uint64_t count = part.zstd ? *part.uncompressed_length : *part.length;
    written = archive_->write(object, std::move(new_part), count, source, encoding);
  }
  // A decoding error can be a result of damaged bytes. In this case, the error of the digest is
  // more helpful.
  if (!written && written.error().code != errc::malformed_stream) return written;
  if (auto status = stored.compare(); !status) return status;
  return written;
}

result<void> writer_state::copy(const std::string& file,
                                const std::function<bool(std::string_view)>& selects,
                                const copy_options& options) {
  if (auto target = archive(""); !target) return target.error();
  if (options.zstd_level && (*options.zstd_level < 0 || *options.zstd_level > zstd_level_max)) {
    return fault{errc::invalid_saving, file_.place,
                 "zstd_level is " + std::to_string(*options.zstd_level) + ", expected 1 to " +
                     grouped(zstd_level_max) + ", or 0 for raw"};
  }
  auto source = open_zt(file);
  if (!source) return source.error();
  std::vector<zt_object> selected;
  for (zt_object& object : source->manifest.objects) {
    if (selects && !selects(object.name)) continue;
    if (object.unreadable) return in_file(*object.unreadable, file);
    if (archive_->index_of(object.name)) return archive_->declare(std::move(object)).error();
    if (auto status = complete_lengths(object); !status) {
      return in_file(status.error(), file);
    }
    selected.push_back(std::move(object));
  }
  auto read = attributes_.read(source->manifest.encoded_attributes);
  if (!read) return in_file(read.error(), file);
  may_damage_file_ = true;
  // If several components share their bytes and declare the same encoding and digest, the bytes are
  // copied once.
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
              ? copy_part(*known, part, source->file.fd.get(), options)
              : archive_->add_shared(*known, part, first->second.object, first->second.name);
      if (!status)
        return status.error().where().empty() ? status.error().in(place) : status.error();
    }
  }
  return {};
}

}  // namespace ringload::inline v0::detail
