// SPDX-License-Identifier: Apache-2.0

// Probes a file or folder and its drive: direct reads, the page cache, the queue.

#include <fcntl.h>
#include <fmt/format.h>
#include <liburing.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

#include "base/mapping.hpp"
#include "base/unique_fd.hpp"
#include "failure.hpp"
#include "io/direct_file.hpp"
#include "io/residency.hpp"
#include "io/ring/setup.hpp"
#include "machine.hpp"
#include "probe_report.hpp"
#include "resource_usage.hpp"
#include "size.hpp"

namespace ringload::bench {

namespace {

namespace fs = std::filesystem;

struct probed_file {
  std::string path;
  unique_fd fd;
  std::uint64_t bytes = 0;
};

// Opens `path`, or an unnamed file in the folder `path` (O_TMPFILE), which disappears when its
// descriptor is closed.
probed_file file_to_probe(const std::string& path, findings& results) {
  constexpr std::uint64_t sample_bytes = std::uint64_t{8} << 20;
  struct ::stat status = {};
  if (::stat(path.c_str(), &status) != 0) fail(errno, path);
  if (!S_ISDIR(status.st_mode)) {
    probed_file file{path, unique_fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)), 0};
    if (!file.fd) fail(errno, path);
    if (S_ISREG(status.st_mode)) file.bytes = static_cast<std::uint64_t>(status.st_size);
    return file;
  }
  probed_file file{"a file without a name in " + path,
                   unique_fd(::open(path.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)), 0};
  constexpr const char* instead = "name a file on that file system instead";
  if (!file.fd) {
    results.push_back({"path", "a file to try", verdict::note,
                       "none without a name (O_TMPFILE) can be made in this folder: " +
                           system_code(errno).message(),
                       instead});
    return file;
  }
  const std::vector<std::byte> zeros(sample_bytes);
  if (::write(file.fd.get(), zeros.data(), zeros.size()) == static_cast<::ssize_t>(zeros.size()) &&
      ::fdatasync(file.fd.get()) == 0) {
    file.bytes = sample_bytes;
  } else {
    results.push_back({"path", "a file to try", verdict::note,
                       tool::binary_size(sample_bytes) + " cannot be written in this folder",
                       instead});
  }
  return file;
}

void probe_alignment(const probed_file& file, findings& results) {
#ifdef STATX_DIOALIGN
  constexpr unsigned alignment_mask = STATX_DIOALIGN;
#else
  constexpr unsigned alignment_mask = 0x00002000U;
#endif
  // Reads fields of Linux 6.1 by their offset, because the libc of Debian 12 has no names for them.
  struct ::statx status = {};
  if (::statx(file.fd.get(), "", AT_EMPTY_PATH, alignment_mask, &status) != 0 ||
      (status.stx_mask & alignment_mask) == 0) {
    results.push_back({"path", "alignment by statx", verdict::note,
                       "not told (Linux before 6.1, or this file system does not say)"});
    return;
  }
  const auto* fields =
      reinterpret_cast<const std::uint32_t*>(reinterpret_cast<const std::byte*>(&status) + 0x98);
  if (fields[0] == 0) {
    results.push_back({"path", "alignment by statx", verdict::bad,
                       "0: direct reads would go through the page cache",
                       "keep checkpoints on ext4 or xfs, without data=journal and encryption"});
  } else {
    results.push_back({"path", "alignment by statx", verdict::good,
                       fmt::format("memory {}, offset {}", fields[0], fields[1])});
  }
}

void probe_reads(const probed_file& file, findings& results) {
  const auto counts = count_pages(file.fd.get(), 0, file.bytes);
  if (counts) {
    results.push_back({"path", "page cache by cachestat", verdict::good,
                       fmt::format("told: {:.0f} % of {}",
                                   counts->pages > 0 ? 100.0 * static_cast<double>(counts->cached) /
                                                           static_cast<double>(counts->pages)
                                                     : 0.0,
                                   file.path)});
  } else {
    results.push_back(
        {"path", "page cache by cachestat", verdict::note,
         "refused: Linux before 6.5, or the file is not yours and not writable",
         "loads then read directly what the cache may have; let the service own its files"});
  }
  if (file.bytes == 0) return;
  direct_files files;
  const auto opened = files.open(file.fd.get(), file.path, file.bytes);
  if (!opened) {
    results.push_back({"path", "a direct read", verdict::bad, message_of(opened.error())});
    return;
  }
  if (!opened->fd) {
    results.push_back({"path", "a direct read", verdict::bad, opened->refusal,
                       "loads read through the page cache here"});
    return;
  }
  results.push_back({"path", "a direct read", verdict::good, "was made, and was right"});

  ::io_uring ring = {};
  if (!set_up(ring, 8)) return;
  constexpr std::uint32_t bytes = 1U << 20;
  auto memory = mapping::make(huge_page_bytes, page_kind::transparent);
  const punt_counter punts;
  for (unsigned i = 0; memory && i < 4; ++i) {
    ::io_uring_sqe* sqe = ::io_uring_get_sqe(&ring);
    ::io_uring_prep_read(sqe, opened->fd.get(), memory->data(), bytes, 0);
    ::io_uring_submit_and_wait(&ring, 1);
    ::io_uring_cqe* cqe = nullptr;
    if (::io_uring_peek_cqe(&ring, &cqe) == 0) ::io_uring_cqe_seen(&ring, cqe);
  }
  const auto counted = punts.count();
  const std::uint32_t workers = threads_named("iou-wrk");
  ::io_uring_queue_exit(&ring);
  const bool punted = counted.value_or(0) > 0 || workers > 0;
  results.push_back(
      {"path", "reads handed to kernel workers", punted ? verdict::note : verdict::good,
       counted
           ? fmt::format("{} of 4", *counted)
           : fmt::format("{} were there after 4 reads", tool::counted(workers, "kernel worker")),
       punted ? "this file system (as overlay, btrfs, tmpfs) cannot read without waiting: "
                "some bandwidth less, more processor time"
              : ""});
}

}  // namespace

void probe_path(const std::string& path, findings& results) {
  results.push_back({"path", "file system", verdict::good, file_system_of(path)});
  const probed_file file = file_to_probe(path, results);
  if (!file.fd) return;
  probe_alignment(file, results);
  probe_reads(file, results);
}

void probe_drive(const std::string& path, findings& results) {
  struct ::stat status = {};
  if (::stat(path.c_str(), &status) != 0) fail(errno, path);
  const ::dev_t drive = S_ISBLK(status.st_mode) ? status.st_rdev : status.st_dev;
  const std::string queue = queue_folder(drive);
  if (queue.empty()) {
    results.push_back({"drive", "queue", verdict::note,
                       "no block device of its own: memory, a network, or several drives",
                       "its limits are those of what lies below"});
    return;
  }
  const auto setting = [&](const char* name) { return first_line(queue + "/" + name); };
  const std::string now = setting("max_sectors_kb");
  const std::string most = setting("max_hw_sectors_kb");
  const bool less = !now.empty() && !most.empty() && std::atol(now.c_str()) < 2048 &&
                    std::atol(now.c_str()) < std::atol(most.c_str());
  results.push_back({"drive", "largest request", less ? verdict::note : verdict::good,
                     fmt::format("max_sectors_kb {}, max_hw_sectors_kb {}", now, most),
                     less ? fmt::format("as root: echo {} > {}/max_sectors_kb",
                                        std::min(4096L, std::atol(most.c_str())), queue)
                          : ""});
  results.push_back({"drive", "segments of a request", verdict::good,
                     setting("max_segments") + "; on 4 KiB pages each page is one"});
  results.push_back(
      {"drive", "requests at once", verdict::good, "nr_requests " + setting("nr_requests")});
  results.push_back({"drive", "scheduler", verdict::good, setting("scheduler")});
  const bool polled = setting("io_poll") == "1";
  results.push_back(
      {"drive", "polled queues", polled ? verdict::good : verdict::note,
       "io_poll " + setting("io_poll"),
       polled ? "" : "only --iopoll needs them; for NVMe: nvme.poll_queues=N at boot"});
  results.push_back({"drive", "kind", verdict::good,
                     setting("rotational") == "1"
                         ? "says that it rotates, as many virtual drives do"
                         : "does not rotate"});
}

}  // namespace ringload::bench
