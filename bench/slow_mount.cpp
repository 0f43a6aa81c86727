// SPDX-License-Identifier: Apache-2.0

// slow_mount FOLDER MOUNTPOINT: serves the files of a folder, read-only, through FUSE, as a distant
// file system would: with latency, bandwidth, jitter, stalls, short answers and errors.
//
// Each read request waits for the latency, then for its turn on a link of the bandwidth. A stalled
// request also waits for the stall, without occupying the link. The kernel divides reads into
// requests of at most 1 MiB. Use --short only with direct reads: for the page cache, a short answer
// is the end of the file.
//
// Prints one line when the mount can be used. Ends when the folder is unmounted.

#define FUSE_USE_VERSION 35

#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <queue>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

using clock = std::chrono::steady_clock;

struct mount_options {
  std::string folder;
  std::string target;
  double latency_ms = 0;
  double jitter_ms = 0;        // Added to the latency, uniformly distributed from 0.
  double megabytes_per_s = 0;  // 0: no limit.
  double stalled = 0;          // Fraction of the read requests.
  double stall_ms = 500;
  double short_answers = 0;  // Fraction that is answered with half of the bytes.
  double errors = 0;         // Fraction that fails with EIO.
  std::uint64_t seed = 1;
};

struct answer {
  clock::time_point due;
  fuse_req_t request;
  const char* data;
  std::size_t bytes;
  bool fails;
  bool operator<(const answer& other) const { return due > other.due; }  // The top is the earliest.
};

// Sends answers when they are due.
class answer_queue {
 public:
  explicit answer_queue(unsigned threads) {
    for (unsigned i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
  }
  ~answer_queue() { close(); }

  // Sends the remaining answers at once.
  void close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  void add(const answer& added) {
    {
      const std::lock_guard lock(mutex_);
      answers_.push(added);
    }
    changed_.notify_one();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (answers_.empty()) {
        if (closed_) return;
        changed_.wait(lock);
        continue;
      }
      const answer first = answers_.top();
      if (!closed_ && first.due > clock::now()) {
        changed_.wait_until(lock, first.due);
        continue;
      }
      answers_.pop();
      lock.unlock();
      send(first);
      lock.lock();
    }
  }

  static void send(const answer& ready) {
    if (ready.fails) {
      fuse_reply_err(ready.request, EIO);
    } else {
      fuse_reply_buf(ready.request, ready.data, ready.bytes);
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::priority_queue<answer> answers_;
  bool closed_ = false;
  std::vector<std::thread> threads_;
};

// The files of the folder. Inode 1 is the folder, and inode n + 2 is file n. The files are mapped,
// so that an answer is copied only once. Otherwise the processors would limit a mount of 1 GB/s.
struct served_file {
  std::string name;
  const char* data;
  struct ::stat status;
};

// Returns null if the file cannot be mapped. An empty file has no bytes, so any address is valid.
const char* map_file(const std::string& path, struct ::stat& status) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return nullptr;
  const char* data = nullptr;
  if (::fstat(fd, &status) == 0 && status.st_size == 0) data = "";
  if (data == nullptr && status.st_size > 0) {
    void* const mapped = ::mmap(nullptr, static_cast<std::size_t>(status.st_size), PROT_READ,
                                MAP_SHARED | MAP_POPULATE, fd, 0);
    if (mapped != MAP_FAILED) data = static_cast<const char*>(mapped);
  }
  ::close(fd);
  return data;
}

class mounted_folder {
 public:
  explicit mounted_folder(const mount_options& options)
      : options_(options), random_(options.seed), answers_(2) {
    for (const auto& entry : std::filesystem::directory_iterator(options.folder)) {
      if (!entry.is_regular_file()) continue;
      served_file file = {entry.path().filename().string(), nullptr, {}};
      file.data = map_file(entry.path().string(), file.status);
      if (file.data == nullptr) continue;
      file.status.st_ino = files_.size() + 2;
      files_.push_back(file);
    }
  }

  const served_file* find(fuse_ino_t inode) const {
    return inode >= 2 && inode - 2 < files_.size() ? &files_[inode - 2] : nullptr;
  }
  const served_file* find(const char* name) const {
    for (const served_file& file : files_) {
      if (file.name == name) return &file;
    }
    return nullptr;
  }
  const std::vector<served_file>& files() const { return files_; }
  // No request may be answered after the session is destroyed.
  void close() { answers_.close(); }

  void read(fuse_req_t request, const served_file& file, std::size_t bytes, ::off_t offset) {
    const ::off_t left = std::max<::off_t>(0, file.status.st_size - offset);
    bytes = std::min(bytes, static_cast<std::size_t>(left));
    const auto now = clock::now();
    const auto chance = [this] { return std::uniform_real_distribution<>(0, 1)(random_); };
    const bool is_stalled = chance() < options_.stalled;
    const bool fails = chance() < options_.errors;
    if (chance() < options_.short_answers && bytes > 4096) bytes = bytes / 2 / 4096 * 4096;
    const double wait_ms = options_.latency_ms + options_.jitter_ms * chance();
    auto due = std::max(now + milliseconds(wait_ms), link_free_);
    if (options_.megabytes_per_s > 0) {
      due += milliseconds(static_cast<double>(bytes) / options_.megabytes_per_s * 1e-3);
      link_free_ = due;
    }
    if (is_stalled) due += milliseconds(options_.stall_ms);
    answers_.add({due, request, file.data + (file.status.st_size - left), bytes, fails});
  }

 private:
  static clock::duration milliseconds(double count) {
    return std::chrono::duration_cast<clock::duration>(
        std::chrono::duration<double, std::milli>(count));
  }

  const mount_options options_;
  std::mt19937_64 random_;
  clock::time_point link_free_;
  std::vector<served_file> files_;
  answer_queue answers_;
};

constexpr double attributes_seconds = 3600;

mounted_folder& folder_of(fuse_req_t request) {
  return *static_cast<mounted_folder*>(fuse_req_userdata(request));
}

struct ::stat folder_status() {
  struct ::stat status = {};
  status.st_ino = FUSE_ROOT_ID;
  status.st_mode = S_IFDIR | 0555;
  status.st_nlink = 2;
  return status;
}

void initialise(void*, fuse_conn_info* connection) {
  connection->max_background = 1024;
  connection->congestion_threshold = 1024;
  connection->max_readahead = 1 << 20;
  connection->want |= FUSE_CAP_ASYNC_READ | FUSE_CAP_ASYNC_DIO;
}

void look_up(fuse_req_t request, fuse_ino_t parent, const char* name) {
  const served_file* const file = parent == FUSE_ROOT_ID ? folder_of(request).find(name) : nullptr;
  if (file == nullptr) {
    fuse_reply_err(request, ENOENT);
    return;
  }
  fuse_entry_param entry = {};
  entry.ino = file->status.st_ino;
  entry.attr = file->status;
  entry.attr_timeout = entry.entry_timeout = attributes_seconds;
  fuse_reply_entry(request, &entry);
}

void get_attributes(fuse_req_t request, fuse_ino_t inode, fuse_file_info*) {
  const served_file* const file = folder_of(request).find(inode);
  if (file == nullptr && inode != FUSE_ROOT_ID) {
    fuse_reply_err(request, ENOENT);
    return;
  }
  const struct ::stat status = file ? file->status : folder_status();
  fuse_reply_attr(request, &status, attributes_seconds);
}

void read_folder(fuse_req_t request, fuse_ino_t, std::size_t bytes, ::off_t offset,
                 fuse_file_info*) {
  std::vector<char> text(bytes);
  std::size_t used = 0;
  const auto& files = folder_of(request).files();
  for (auto i = static_cast<std::size_t>(offset); i < files.size(); ++i) {
    const std::size_t size =
        fuse_add_direntry(request, text.data() + used, bytes - used, files[i].name.c_str(),
                          &files[i].status, static_cast<::off_t>(i + 1));
    if (size > bytes - used) break;
    used += size;
  }
  fuse_reply_buf(request, text.data(), used);
}

void open_file(fuse_req_t request, fuse_ino_t inode, fuse_file_info* opened) {
  if (folder_of(request).find(inode) == nullptr) {
    fuse_reply_err(request, ENOENT);
  } else if ((opened->flags & O_ACCMODE) != O_RDONLY) {
    fuse_reply_err(request, EROFS);
  } else {
    fuse_reply_open(request, opened);
  }
}

void read_file(fuse_req_t request, fuse_ino_t inode, std::size_t bytes, ::off_t offset,
               fuse_file_info*) {
  mounted_folder& folder = folder_of(request);
  const served_file* const file = folder.find(inode);
  if (file == nullptr) {
    fuse_reply_err(request, ENOENT);
  } else {
    folder.read(request, *file, bytes, offset);
  }
}

fuse_lowlevel_ops operations() {
  fuse_lowlevel_ops ops = {};
  ops.init = initialise;
  ops.lookup = look_up;
  ops.getattr = get_attributes;
  ops.readdir = read_folder;
  ops.open = open_file;
  ops.read = read_file;
  return ops;
}

int serve(const mount_options& options) {
  mounted_folder folder(options);
  std::string program = "slow_mount";
  std::string flag = "-o";
  std::string flags = "ro,default_permissions,fsname=slow_mount";
  char* arguments[] = {program.data(), flag.data(), flags.data(), nullptr};
  fuse_args args = FUSE_ARGS_INIT(3, arguments);
  const fuse_lowlevel_ops ops = operations();
  fuse_session* const session = fuse_session_new(&args, &ops, sizeof ops, &folder);
  if (session == nullptr) return 1;
  int status = 1;
  if (fuse_set_signal_handlers(session) == 0) {
    if (fuse_session_mount(session, options.target.c_str()) == 0) {
      std::puts("mounted");
      std::fflush(stdout);
      status = fuse_session_loop(session) == 0 ? 0 : 1;
      folder.close();
      fuse_session_unmount(session);
    }
    fuse_remove_signal_handlers(session);
  }
  fuse_session_destroy(session);
  fuse_opt_free_args(&args);
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  mount_options options;
  CLI::App app("Serves a folder through FUSE as a distant file system would.", "slow_mount");
  app.add_option("FOLDER", options.folder)->required()->check(CLI::ExistingDirectory);
  app.add_option("MOUNTPOINT", options.target)->required()->check(CLI::ExistingDirectory);
  app.add_option("--latency", options.latency_ms, "Milliseconds of each read request");
  app.add_option("--jitter", options.jitter_ms,
                 "Most milliseconds that are added to the latency, at random");
  app.add_option("--bandwidth", options.megabytes_per_s, "10^6 bytes per second; 0: no limit");
  app.add_option("--stalled", options.stalled, "Fraction of the read requests that stall");
  app.add_option("--stall", options.stall_ms, "Milliseconds of a stall. Default: 500");
  app.add_option("--short", options.short_answers, "Fraction answered with half of the bytes");
  app.add_option("--errors", options.errors, "Fraction that fails with EIO");
  app.add_option("--seed", options.seed, "Seed of the random numbers. Default: 1");
  CLI11_PARSE(app, argc, argv);
  return serve(options);
}
