// SPDX-License-Identifier: Apache-2.0

// ringload make: writes a checkpoint of any size, for tests and measurements.

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <new>
#include <ringload/atomic_file.hpp>
#include <ringload/error.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "commands.hpp"
#include "interrupts.hpp"
#include "layout.hpp"
#include "noise.hpp"
#include "progress_bar.hpp"
#include "run_program.hpp"
#include "size.hpp"
#include "text.hpp"

namespace ringload::tool {

namespace {

namespace fs = std::filesystem;

// Each write of tensor bytes, except the last, ends at a multiple of this number in the file.
constexpr std::size_t write_bytes = std::size_t{8} << 20;
// At most twice this number of bytes is dirty at any time.
constexpr std::uint64_t writeback_bytes = std::uint64_t{32} << 20;
constexpr std::uint64_t bytes_per_tensor = std::uint64_t{64} << 20;
constexpr std::uint64_t bytes_max = std::uint64_t{1} << 60;
constexpr std::uint64_t header_bytes_max = 100'000'000;

struct free_memory {
  void operator()(void* memory) const noexcept { std::free(memory); }
};

// A file that is being written. Errors name `place`, the path from the command line.
class written_file {
 public:
  written_file(const fs::path& path, std::string place)
      : place_(std::move(place)), fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666)) {
    if (fd_ < 0) fail(errno);
  }
  written_file(const written_file&) = delete;
  written_file& operator=(const written_file&) = delete;
  ~written_file() { ::close(fd_); }

  // Allocates the space, so that a full disk is reported at the start.
  void reserve(std::uint64_t bytes) {
    if (bytes == 0 || ::fallocate(fd_, FALLOC_FL_KEEP_SIZE, 0, static_cast<::off_t>(bytes)) == 0) {
      return;
    }
    if (errno == ENOSPC || errno == EFBIG || errno == EDQUOT) fail(errno);
  }

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ::ssize_t written = ::write(fd_, bytes.data(), bytes.size());
      if (written < 0 && errno != EINTR) fail(errno);
      if (written <= 0) continue;
      bytes = bytes.subspan(static_cast<std::size_t>(written));
      end_ += static_cast<std::uint64_t>(written);
    }
    push_out();
  }

  void sync() {
    if (::fdatasync(fd_) != 0) fail(errno);
    drop(0, end_);
  }

 private:
  [[noreturn]] void fail(int code) const {
    throw error({code, boost::system::system_category()}, place_, {});
  }

  // Starts the writeback of the last bytes, and waits for the previous writeback. Therefore sync()
  // has few bytes left to write, and Ctrl-C never waits for gigabytes.
  void push_out() {
    if (end_ - started_ < writeback_bytes) return;
    const auto range = [this](std::uint64_t begin, std::uint64_t end, unsigned what) {
      const auto bytes = static_cast<::off64_t>(end - begin);
      // For the kernel, 0 bytes means all bytes up to the end.
      if (bytes == 0 || ::sync_file_range(fd_, static_cast<::off64_t>(begin), bytes, what) == 0) {
        return;
      }
      // The kernel reports a failed write only once, so sync() would not report it again. Any other
      // error means only that the file system does not support the call.
      if (errno == EIO || errno == ENOSPC || errno == EDQUOT) fail(errno);
    };
    range(started_, end_, SYNC_FILE_RANGE_WRITE);
    range(settled_, started_, SYNC_FILE_RANGE_WAIT_BEFORE);
    drop(settled_, started_);
    settled_ = started_;
    started_ = end_;
  }

  // Drops these bytes from the page cache, so that they do not evict other data, and a later load
  // reads from the drive.
  void drop(std::uint64_t begin, std::uint64_t end) noexcept {
    ::posix_fadvise(fd_, static_cast<::off_t>(begin), static_cast<::off_t>(end - begin),
                    POSIX_FADV_DONTNEED);
  }

  std::string place_;
  int fd_;
  std::uint64_t end_ = 0;
  std::uint64_t started_ = 0;  // Writeback was started for the bytes before this offset.
  std::uint64_t settled_ = 0;  // Writeback is complete for the bytes before this offset.
};

// Writes the files of one checkpoint one after another, with one buffer.
class writer {
 public:
  writer(std::uint64_t seed, progress_bar& bar, std::uint64_t bytes_total)
      : seed_(seed), bar_(bar), done_{0, bytes_total} {
    constexpr std::size_t page = 4096;
    buffer_.reset(static_cast<std::byte*>(std::aligned_alloc(page, write_bytes)));
    if (!buffer_) throw std::bad_alloc();
  }

  void write_shard(const std::vector<planned_tensor>& tensors, std::uint64_t number,
                   const fs::path& path, const std::string& place) {
    const std::string header = header_of(tensors);
    if (header.size() - 8 > header_bytes_max) {
      throw error(errc::header_too_large, place,
                  fmt::format("the header of {} tensors would have {} bytes, the limit is {}; "
                              "use more shards",
                              grouped(tensors.size()), grouped(header.size() - 8),
                              grouped(header_bytes_max)));
    }
    const std::uint64_t bytes = bytes_of(tensors);
    written_file file(path, place);
    file.reserve(header.size() + bytes);
    file.write(std::as_bytes(std::span(header)));

    const std::uint64_t stream = noise(seed_, number);
    for (std::uint64_t at = 0; at < bytes;) {
      throw_if_interrupted();
      // write_bytes and header.size() are multiples of 8, so each step begins with a whole word.
      const std::uint64_t room = write_bytes - (header.size() + at) % write_bytes;
      const std::size_t step = static_cast<std::size_t>(std::min(room, bytes - at));
      const std::span<std::byte> part(buffer_.get(), step);
      fill_with_noise(part, stream, at / 8);
      file.write(part);
      at += step;
      done_.bytes += step;
      bar_.show(done_);
    }
    file.sync();
  }

  void write_text(std::string_view text, const fs::path& path, const std::string& place) {
    written_file file(path, place);
    file.write(std::as_bytes(std::span(text)));
    file.sync();
  }

 private:
  std::uint64_t seed_;
  progress_bar& bar_;
  progress done_;
  std::unique_ptr<std::byte, free_memory> buffer_;
};

std::vector<planned_tensor> tensors_of(const make_request& request) {
  if (request.bytes > bytes_max) throw usage_error("--bytes: too many bytes for any file system");
  if (request.shapes == tensor_shapes::llama) {
    if (request.bytes < llama_bytes_min) {
      throw usage_error("--bytes: a Llama has at least " + grouped(llama_bytes_min) + " bytes");
    }
    return llama_tensors(request.bytes);
  }
  const std::uint64_t usual = std::max<std::uint64_t>(16, request.bytes / bytes_per_tensor);
  const std::uint64_t count =
      request.tensors.value_or(static_cast<std::uint32_t>(std::min<std::uint64_t>(usual, 100'000)));
  if (count == 0 && request.bytes > 0) throw usage_error("--tensors: 0 cannot hold any bytes");
  return mixed_tensors(request.bytes, static_cast<std::uint32_t>(count), request.seed);
}

std::vector<std::vector<planned_tensor>> shards_of(const make_request& request) {
  if (request.shards == 0) throw usage_error("--shards: 0 files cannot be written");
  std::vector<planned_tensor> tensors = tensors_of(request);
  if (request.shards > 1 && request.shards > tensors.size()) {
    throw usage_error(fmt::format("--shards: {} files for {} tensors would leave some files empty",
                                  request.shards, tensors.size()));
  }
  auto shards = into_shards(std::move(tensors), request.shards);
  for (auto& shard : shards) {
    if (request.order == tensor_order::dtype) {
      sort_by_dtype(shard);
    } else {
      sort_by_name(shard);
    }
  }
  return shards;
}

std::uint64_t write_all(const make_request& request,
                        const std::vector<std::vector<planned_tensor>>& shards) {
  std::uint64_t bytes = 0;
  for (const auto& shard : shards) bytes += bytes_of(shard);

  std::error_code ignored;  // `atomic_file` will report an error of the path.
  if (!request.force && fs::exists(fs::symlink_status(request.path, ignored))) {
    throw error({EEXIST, boost::system::system_category()}, printable(request.path),
                "the path exists already (--force replaces it)");
  }
  const bool one_file = shards.size() == 1 && request.path.ends_with(".safetensors");
  atomic_file made(request.path, one_file ? entry_kind::file : entry_kind::folder, request.force);
  const fs::path temporary = made.path();
  progress_bar bar("writing", request.progress);
  writer to(request.seed, bar, bytes);
  const std::string place = printable(request.path);
  if (one_file) {
    to.write_shard(shards.front(), 0, temporary, place);
  } else {
    const auto count = static_cast<std::uint32_t>(shards.size());
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::string name = shard_name(i, count);
      to.write_shard(shards[i], i, temporary / name, place + "/" + name);
    }
    // A single file needs no index, and common writers write none.
    const std::string index = "model.safetensors.index.json";
    if (count > 1) to.write_text(index_of(shards), temporary / index, place + "/" + index);
  }
  throw_if_interrupted();
  made.publish();
  return bytes;
}

}  // namespace

void make_checkpoint(const make_request& request, output& out) {
  const auto before = std::chrono::steady_clock::now();
  const auto shards = shards_of(request);
  watch_for_interrupts();
  const std::uint64_t bytes = write_all(request, shards);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - before;

  std::size_t tensors = 0;
  for (const auto& shard : shards) tensors += shard.size();
  out.write(fmt::format("{}: {} of {} in {}, {:.2f} s, {:.2f} GB/s\n", printable(request.path),
                        counted(tensors, "tensor"), both_sizes(bytes),
                        counted(shards.size(), "file"), took.count(),
                        static_cast<double>(bytes) / took.count() / 1e9));
  out.flush();
}

}  // namespace ringload::tool
