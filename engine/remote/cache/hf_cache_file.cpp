// SPDX-License-Identifier: Apache-2.0

// hf_cache_file.hpp shows the layout of the cache. The record is the file <digest>.ringload.ranges.

#include "remote/cache/hf_cache_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "base/catch_as_fault.hpp"
#include "base/file_io.hpp"
#include "base/printable.hpp"
#include "base/retry_allocation.hpp"
#include "catalog/hf_cache.hpp"
#include "remote/cache/cache_io.hpp"

namespace ringload::inline v0::remote_http {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t hash_buffer_bytes = std::size_t{1} << 20;
// Number of received bytes after which the record is written again.
constexpr std::uint64_t record_every_bytes = std::uint64_t{32} << 20;

constexpr std::string_view flushed_line = "flushed\n";

// Returns the first line of a record whose bytes may not be flushed yet. Such a record is valid
// only until the machine starts again. If /proc is not mounted, returns an empty string.
std::string boot_line() {
  const unique_fd fd(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  std::string id(64, '\0');
  const auto count = fd ? read_fully(fd.get(), 0, std::as_writable_bytes(std::span(id))) : 0;
  if (!count || *count == 0) return {};
  id.resize(id.find_first_of(std::string_view("\n\0", 2)));
  return "boot " + id + "\n";
}

}  // namespace

hf_cache_file::hf_cache_file(blob_place place)
    : place_(std::move(place)),
      repository_(place_.cache + "/" + repository_folder(place_.model)),
      blob_(repository_ + "/blobs/" + place_.file.digest),
      partial_(blob_ + ".ringload"),
      record_(partial_ + ".ranges"),
      bytes_(place_.file.bytes.value_or(0)),
      boot_line_(boot_line()),
      present_(bytes_) {}

hf_cache_file::~hf_cache_file() {
  // If the record cannot be written, the next load fetches the bytes again.
  if (!lock_ || !fd_ || published_ || removed_) return;
  static_cast<void>(catch_as_fault([this] { return write_record(true); }));
}

fault hf_cache_file::with_path(fault failure) const {
  return failure.where().empty() ? failure.in(printable_path(partial_)) : failure;
}

result<std::shared_ptr<hf_cache_file>> hf_cache_file::open(blob_place place) {
  const std::shared_ptr<hf_cache_file> out(new hf_cache_file(std::move(place)));
  if (auto created = make_folders(out->repository_ + "/blobs"); !created) return created.error();
  auto is_open = out->open_blob();
  if (is_open && !*is_open) {
    const auto locked = out->take_lock();
    if (!locked) return locked.error();
    // Another program or load may have published the file since the first check.
    is_open = out->open_blob();
    if (is_open && !*is_open && !*locked) return std::shared_ptr<hf_cache_file>();
  }
  if (!is_open) return is_open.error();
  if (*is_open) {
    out->lock_ = unique_fd();
    return out;
  }
  if (auto opened = out->open_partial(); !opened) return out->with_path(opened.error());
  return out;
}

// Opens the complete file, and creates the link and the ref. Needs no lock, because a complete file
// does not change. Returns false if the file does not exist or has another size.
result<bool> hf_cache_file::open_blob() {
  struct ::stat status = {};
  if (::stat(blob_.c_str(), &status) != 0) return false;
  if (static_cast<std::uint64_t>(status.st_size) != bytes_) return false;
  fd_ = unique_fd(::open(blob_.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd_) return system_fault(errno, blob_);
  present_.add({0, bytes_});
  published_ = true;
  auto linked = link_snapshot();
  if (linked) linked = write_ref();
  if (!linked) return linked.error();
  return true;
}

// Locks the lock file of huggingface_hub, so that no other program writes the file into the cache.
// Returns false if another program holds the lock.
result<bool> hf_cache_file::take_lock() {
  const std::string folder = place_.cache + "/.locks/" + repository_folder(place_.model);
  if (auto created = make_folders(folder); !created) return created.error();
  const std::string path = folder + "/" + place_.file.digest + ".lock";
  unique_fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, cache_file_mode));
  if (!fd) return system_fault(errno, path);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return false;
    return system_fault(errno, path);
  }
  lock_ = std::move(fd);
  return true;
}

result<void> hf_cache_file::open_partial() {
  struct ::stat status = {};
  fd_ = unique_fd(::open(partial_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, cache_file_mode));
  if (!fd_ || ::fstat(fd_.get(), &status) != 0) return fault{system_code(errno), ""};
  // The record is valid only if the partial file has its full size. If the size differs, the record
  // describes another file, or a crash has cut off the end of the file.
  if (static_cast<std::uint64_t>(status.st_size) == bytes_) present_ = recorded_ranges();
  resumed_ = present_.count() > 0;
  if (::ftruncate(fd_.get(), static_cast<::off_t>(bytes_)) != 0) {
    return fault{system_code(errno), ""};
  }
  return begin_hash();
}

// Returns the ranges of the record. After a power failure, the file may lack bytes that were not
// flushed. Therefore a record of unflushed bytes is ignored if the machine has started again.
range_set hf_cache_file::recorded_ranges() const {
  const std::string record = read_text(record_);
  std::string_view ranges = record;
  for (const std::string_view valid : {flushed_line, std::string_view(boot_line_)}) {
    if (valid.empty() || !ranges.starts_with(valid)) continue;
    ranges.remove_prefix(valid.size());
    return range_set::from_text(ranges, bytes_).value_or(range_set(bytes_));
  }
  return range_set(bytes_);
}

result<void> hf_cache_file::begin_hash() {
  auto hasher = hub_hasher::make(place_.file.digest, bytes_);
  if (!hasher) return hasher.error();
  hasher_ = std::move(*hasher);
  hashed_bytes_ = 0;
  return {};
}

bool hf_cache_file::has(std::uint64_t offset, std::size_t bytes) const {
  const std::lock_guard<std::mutex> hold(mutex_);
  return !broken_ && present_.has({offset, offset + bytes});
}

std::vector<byte_range> hf_cache_file::missing() const {
  const std::lock_guard<std::mutex> hold(mutex_);
  return present_.missing();
}

std::vector<byte_range> hf_cache_file::missing_in(byte_range part) const {
  const std::lock_guard<std::mutex> hold(mutex_);
  if (broken_) return {part};
  return present_.missing_in(part);
}

bool hf_cache_file::published() const {
  const std::lock_guard<std::mutex> hold(mutex_);
  return published_;
}

result<void> hf_cache_file::read(std::uint64_t offset, std::span<std::byte> into) const {
  auto status = read_all(fd_.get(), into, offset);
  if (!status) return with_path(status.error());
  return {};
}

// Marks the range of one call of write() until the call ends.
struct hf_cache_file::write_in_progress {
  ~write_in_progress() {
    const std::lock_guard<std::mutex> hold(file.mutex_);
    file.writing_.erase(range);
    file.changed_.notify_all();
  }

  hf_cache_file& file;
  const std::list<byte_range>::iterator range;
};

result<void> hf_cache_file::write(std::uint64_t offset, std::span<const std::byte> from) {
  const byte_range range = {offset, offset + from.size()};
  const auto overlaps = [&](const byte_range& other) {
    return other.begin < range.end && range.begin < other.end;
  };
  std::list<byte_range> own = {range};
  const auto position = own.begin();
  std::vector<byte_range> missing;
  {
    std::unique_lock<std::mutex> hold(mutex_);
    // The bytes of two overlapping writes must be compared, so the second write waits until the
    // bytes of the first write are present.
    changed_.wait(hold, [&] { return std::ranges::none_of(writing_, overlaps); });
    if (broken_) return *broken_;
    if (present_.count() >= range_set::ranges_max) return {};
    missing = present_.missing_in(range);
    writing_.splice(writing_.end(), own);
  }
  const write_in_progress in_progress{*this, position};
  const auto status = write_missing(offset, from, missing);
  const std::lock_guard<std::mutex> hold(mutex_);
  if (!status) return refuse_write(status.error());
  if (broken_) return *broken_;
  present_.add(range);
  unrecorded_bytes_ += from.size();
  if (unrecorded_bytes_ < record_every_bytes || present_.is_complete()) return {};
  unrecorded_bytes_ = 0;
  return write_record(false);
}

// Writes the missing bytes. Bytes that are present may be hashed already, so these bytes are
// compared and not overwritten.
result<void> hf_cache_file::write_missing(std::uint64_t offset, std::span<const std::byte> from,
                                          std::span<const byte_range> missing) const {
  const std::uint64_t end = offset + from.size();
  std::uint64_t position = offset;
  const auto bytes_in = [&](std::uint64_t part_begin, std::uint64_t part_end) {
    return from.subspan(static_cast<std::size_t>(part_begin - offset),
                        static_cast<std::size_t>(part_end - part_begin));
  };
  for (const byte_range& gap : missing) {
    auto status = compare_all(fd_.get(), bytes_in(position, gap.begin), position);
    if (status) status = write_fully(fd_.get(), gap.begin, bytes_in(gap.begin, gap.end));
    if (!status) return status;
    position = gap.end;
  }
  return compare_all(fd_.get(), bytes_in(position, end), position);
}

// Stores the failure of a write. If the received bytes contradict the present bytes, some present
// bytes may be wrong, so the partial file is removed. Must be called while mutex_ is locked.
fault hf_cache_file::refuse_write(const fault& failure) {
  const bool is_contradiction = failure.code == errc::changed_file;
  if (is_contradiction) {
    contradiction_ = retry_allocation([&] { return failure; });
    if (!published_) {
      remove_partial();
      removed_ = true;
    }
  }
  if (!broken_) {
    broken_ = retry_allocation([&] { return is_contradiction ? failure : with_path(failure); });
  }
  changed_.notify_all();
  return *broken_;
}

std::optional<fault> hf_cache_file::contradiction() const {
  const std::lock_guard<std::mutex> hold(mutex_);
  return contradiction_;
}

result<void> hf_cache_file::advance() {
  while (true) {
    std::uint64_t end = 0;
    bool anew = false;
    {
      const std::lock_guard<std::mutex> hold(mutex_);
      if (broken_) return *broken_;
      if (published_) return {};
      end = present_.prefix_bytes();
      anew = std::exchange(hash_is_stale_, false);
    }
    auto status = anew ? catch_as_fault([this] { return begin_hash(); }) : result<void>();
    if (status && end <= hashed_bytes_ && end < bytes_) return {};
    if (status) status = catch_as_fault([&] { return hash_up_to(end); });
    if (status && end == bytes_) status = catch_as_fault([&] { return publish(); });
    if (!status) {
      const fault& failure = status.error();
      const bool is_wrong = failure.code == errc::wrong_digest;
      const std::lock_guard<std::mutex> hold(mutex_);
      if (!broken_) {
        broken_ = retry_allocation([&] { return is_wrong ? failure : with_path(failure); });
      }
      changed_.notify_all();
      return *broken_;
    }
  }
}

bool hf_cache_file::begin_anew() {
  std::unique_lock<std::mutex> hold(mutex_);
  // A write in progress compares its bytes with the bytes that are discarded below.
  changed_.wait(hold, [this] { return writing_.empty(); });
  if (broken_ || published_) return false;
  present_ = range_set(bytes_);
  hash_is_stale_ = true;
  // Replaces the old record immediately. The next load must not use the discarded bytes, even if
  // this process is killed.
  if (auto recorded = write_record(false); !recorded) broken_ = with_path(recorded.error());
  changed_.notify_all();
  return std::exchange(resumed_, false);
}

result<void> hf_cache_file::wait_until_published() const {
  std::unique_lock<std::mutex> hold(mutex_);
  changed_.wait(hold, [this] { return published_ || broken_ || !present_.is_complete(); });
  if (published_) return {};
  if (broken_) return *broken_;
  return fault{errc::changed_file, printable_path(partial_), "another load fetches it again"};
}

result<void> hf_cache_file::hash_up_to(std::uint64_t end) {
  std::vector<std::byte> buffer(std::min<std::uint64_t>(hash_buffer_bytes, end - hashed_bytes_));
  while (hashed_bytes_ < end) {
    const auto count =
        static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), end - hashed_bytes_));
    auto status = read_all(fd_.get(), std::span(buffer).first(count), hashed_bytes_);
    if (!status) return status.error();
    hasher_->update(std::span(buffer).first(count));
    hashed_bytes_ += count;
  }
  return {};
}

result<void> hf_cache_file::publish() {
  const std::string computed = hasher_->finish();
  if (computed != place_.file.digest) {
    const std::lock_guard<std::mutex> hold(mutex_);
    remove_partial();
    removed_ = true;
    return fault{errc::wrong_digest, "",
                 "the received bytes have the digest " + computed + ", expected " +
                     place_.file.digest + " from the hub; the bytes are not kept in the cache"};
  }
  // The bytes are flushed before the file gets its name. Therefore, after a power failure, the blob
  // has all its bytes or does not exist.
  if (::fdatasync(fd_.get()) != 0) return fault{system_code(errno), ""};
  {
    const std::lock_guard<std::mutex> hold(mutex_);
    if (broken_) return *broken_;  // A contradiction has removed the file.
    if (::rename(partial_.c_str(), blob_.c_str()) != 0) return fault{system_code(errno), ""};
    ::unlink(record_.c_str());
    published_ = true;
    changed_.notify_all();
  }
  lock_ = unique_fd();
  auto linked = link_snapshot();
  return linked ? write_ref() : linked;
}

result<void> hf_cache_file::link_snapshot() const {
  const fs::path link = fs::path(repository_) / "snapshots" / place_.commit / place_.file.name;
  if (auto created = make_folders(link.parent_path()); !created) return created.error();
  std::string target = "../../blobs/" + place_.file.digest;
  const auto folders = std::ranges::count(place_.file.name, '/');
  for (std::ptrdiff_t i = 0; i < folders; ++i) target.insert(0, "../");
  std::error_code code;
  if (fs::read_symlink(link, code).native() == target) return {};
  return replace_symlink(link.native(), target);
}

result<void> hf_cache_file::write_ref() const {
  if (place_.model.revision == place_.commit) return {};
  const std::string path = repository_ + "/refs/" + place_.model.revision;
  if (read_text(path) == place_.commit) return {};
  if (auto created = make_folders(fs::path(path).parent_path()); !created) return created.error();
  return replace_text(path, place_.commit);
}

// Writes the record. If `flush` is true, or if boot_line_ is empty, first flushes the bytes to the
// drive. The record then stays valid after a restart of the machine.
result<void> hf_cache_file::write_record(bool flush) const {
  const bool is_flushed = (flush || boot_line_.empty()) && ::fdatasync(fd_.get()) == 0;
  return replace_text(record_,
                      (is_flushed ? std::string(flushed_line) : boot_line_) + present_.to_text());
}

void hf_cache_file::remove_partial() const noexcept {
  ::unlink(partial_.c_str());
  ::unlink(record_.c_str());
}

}  // namespace ringload::inline v0::remote_http
