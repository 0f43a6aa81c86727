// SPDX-License-Identifier: Apache-2.0

// uring-bench probe: tries what this machine supports, and advises how to enable the rest.

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <liburing.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <ringload/limits.hpp>
#include <vector>

#include "accounts.hpp"
#include "commands.hpp"
#include "core/checked.hpp"
#include "core/mapping.hpp"
#include "core/unique_fd.hpp"
#include "failure.hpp"
#include "json.hpp"
#include "machine.hpp"
#include "readers/direct_file.hpp"
#include "readers/residency.hpp"
#include "ring/setup.hpp"
#include "size.hpp"
#include "text.hpp"

namespace ringload::bench {

namespace {

namespace fs = std::filesystem;

enum class verdict : std::uint8_t { good, note, bad };

struct finding {
  std::string topic;
  std::string item;
  verdict how = verdict::good;
  std::string what;
  std::string advice = {};  // What to do; empty: nothing needs to be done.
};

using findings = std::vector<finding>;

// The bytes of a loader's slots by default, which are registered all at once.
constexpr std::uint64_t slots_bytes = limits().slots * limits().slot_bytes;

std::string_view name(verdict how) noexcept {
  switch (how) {
    case verdict::good: return "ok";
    case verdict::note: return "note";
    case verdict::bad: return "no";
  }
  return "no";
}

// --- io_uring

struct setup_flag {
  const char* name;
  unsigned flags;
  const char* since;
};

constexpr std::array<setup_flag, 8> setup_flags = {{
    {"IOPOLL", 1U << 0, "5.1"},
    {"SQPOLL", 1U << 1, "5.1; without privilege 5.11"},
    {"CLAMP", 1U << 4, "5.6"},
    {"SUBMIT_ALL", 1U << 7, "5.18"},
    {"COOP_TASKRUN", 1U << 8, "5.19"},
    {"SINGLE_ISSUER", 1U << 12, "6.0"},
    {"SINGLE_ISSUER, DEFER_TASKRUN", (1U << 12) | (1U << 13), "6.1"},
    {"NO_SQARRAY", 1U << 16, "6.6"},
}};

void probe_ring(findings& to) {
  ::io_uring ring = {};
  const auto made = set_up(ring, 8);
  if (!made) {
    const std::string why = message_of(made.error());
    const bool by_setting = why.find("io_uring_disabled") != std::string::npos;
    to.push_back({"io_uring", "a ring", verdict::bad, why,
                  by_setting ? "as root: sysctl kernel.io_uring_disabled=0. Until then loads use "
                               "threads, which reach a drive's rate too, at more processor time"
                             : "in a container: allow io_uring_setup, io_uring_enter and "
                               "io_uring_register in its seccomp profile. Until then loads use "
                               "threads"});
    return;
  }
  ::io_uring_queue_exit(&ring);
  to.push_back({"io_uring", "a ring", verdict::good, "the loader would use " + made->flags});
  for (const setup_flag& one : setup_flags) {
    ::io_uring_params params = {};
    params.flags = one.flags;
    const int failed = ::io_uring_queue_init_params(8, &ring, &params);
    if (failed == 0) {
      ::io_uring_queue_exit(&ring);
      to.push_back({"io_uring", one.name, verdict::good, "accepted"});
    } else {
      to.push_back({"io_uring", one.name, verdict::note,
                    fmt::format("refused: {}; in Linux since {}", system_code(-failed).message(),
                                one.since)});
    }
  }
}

std::string limit_text(::rlim_t value) {
  return value == RLIM_INFINITY ? "unlimited" : tool::both_sizes(value);
}

// Registers larger and larger regions until one is refused.
void probe_registration(findings& to) {
  ::io_uring ring = {};
  if (!set_up(ring, 8)) return;
  constexpr std::uint64_t largest = std::uint64_t{256} << 20;
  std::uint64_t accepted = 0;
  int refused = 0;
  for (std::uint64_t bytes = std::uint64_t{1} << 20; bytes <= largest; bytes *= 4) {
    auto memory = mapping::make(bytes, page_kind::transparent);
    if (!memory) break;
    const ::iovec all = {memory->data(), bytes};
    refused = -::io_uring_register_buffers(&ring, &all, 1);
    if (refused != 0) break;
    accepted = bytes;
    ::io_uring_unregister_buffers(&ring);
  }
  ::io_uring_queue_exit(&ring);
  ::rlimit limit = {};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  const std::string most = "RLIMIT_MEMLOCK is " + limit_text(limit.rlim_cur);
  if (accepted >= slots_bytes) {
    to.push_back({"io_uring", "registered buffers", verdict::good,
                  tool::binary_size(accepted) + " were accepted; " + most});
  } else {
    to.push_back({"io_uring", "registered buffers", verdict::note,
                  fmt::format("more than {} is refused: {}; {}", tool::binary_size(accepted),
                              system_code(refused).message(), most),
                  fmt::format("raise it (ulimit -l, LimitMEMLOCK=, --ulimit memlock=): registering "
                              "{} of slots saves processor time, not seconds",
                              tool::binary_size(slots_bytes))});
  }
}

// --- Memory

void probe_reserved_pages(findings& to) {
  const std::string folder =
      fmt::format("/sys/kernel/mm/hugepages/hugepages-{}kB/", huge_page_bytes >> 10);
  const auto reserved = tool::parse_number(first_line(folder + "nr_hugepages"));
  if (!reserved) {
    to.push_back({"memory", "hugetlb pages", verdict::note, "this kernel has none"});
    return;
  }
  constexpr std::uint64_t needed = round_up(slots_bytes, huge_page_bytes) / huge_page_bytes;
  const std::uint64_t free_pages =
      tool::parse_number(first_line(folder + "free_hugepages")).value_or(0);
  const bool enough = free_pages >= needed;
  to.push_back({"memory", "hugetlb pages", enough ? verdict::good : verdict::note,
                fmt::format("{} of {} reserved are free; with --huge-pages reserved the loader's "
                            "slots take {} or none",
                            free_pages, *reserved, needed),
                enough ? ""
                       : fmt::format("not needed where transparent ones are to be had; as root: "
                                     "sysctl vm.nr_hugepages={} for the loader's slots",
                                     *reserved - free_pages + needed)});
}

void probe_memory(findings& to) {
  probe_reserved_pages(to);
  const std::string mode = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
  auto memory = mapping::make(slots_bytes, page_kind::transparent);
  const bool huge =
      memory && !populate(memory->span()) && kind_of(memory->span()) == page_kind::transparent;
  to.push_back({"memory", "transparent huge pages", huge ? verdict::good : verdict::bad,
                fmt::format("{} {} them; mode {}", tool::binary_size(slots_bytes),
                            huge ? "got" : "did not get", mode),
                huge ? ""
                     : "as root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled; small "
                       "pages cost direct reads up to 2.6 times the bandwidth"});
}

// --- The path

struct probed_file {
  std::string path;
  unique_fd fd;
  std::uint64_t bytes = 0;
};

// `path` itself, or for a folder an unnamed file in it (O_TMPFILE), which disappears with its
// descriptor however the probe ends.
probed_file file_to_probe(const std::string& path, findings& to) {
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
    to.push_back({"path", "a file to try", verdict::note,
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
    to.push_back({"path", "a file to try", verdict::note,
                  tool::binary_size(sample_bytes) + " cannot be written in this folder", instead});
  }
  return file;
}

void probe_alignment(const probed_file& file, findings& to) {
#ifdef STATX_DIOALIGN
  constexpr unsigned wanted = STATX_DIOALIGN;
#else
  constexpr unsigned wanted = 0x00002000U;
#endif
  // As in <linux/stat.h> since 6.1; Debian 12's libc has no names for the two fields.
  struct ::statx found = {};
  if (::statx(file.fd.get(), "", AT_EMPTY_PATH, wanted, &found) != 0 ||
      (found.stx_mask & wanted) == 0) {
    to.push_back({"path", "alignment by statx", verdict::note,
                  "not told (Linux before 6.1, or this file system does not say)"});
    return;
  }
  const auto* fields =
      reinterpret_cast<const std::uint32_t*>(reinterpret_cast<const std::byte*>(&found) + 0x98);
  if (fields[0] == 0) {
    to.push_back({"path", "alignment by statx", verdict::bad,
                  "0: direct reads would go through the page cache",
                  "keep checkpoints on ext4 or xfs, without data=journal and encryption"});
  } else {
    to.push_back({"path", "alignment by statx", verdict::good,
                  fmt::format("memory {}, offset {}", fields[0], fields[1])});
  }
}

void probe_reads(const probed_file& file, findings& to) {
  const auto counts = cached_pages(file.fd.get(), 0, file.bytes);
  if (counts) {
    to.push_back({"path", "page cache by cachestat", verdict::good,
                  fmt::format("told: {:.0f} % of {}",
                              counts->pages > 0 ? 100.0 * static_cast<double>(counts->cached) /
                                                      static_cast<double>(counts->pages)
                                                : 0.0,
                              file.path)});
  } else {
    to.push_back(
        {"path", "page cache by cachestat", verdict::note,
         "refused: Linux before 6.5, or the file is not yours and not writable",
         "loads then read directly what the cache may have; let the service own its files"});
  }
  if (file.bytes == 0) return;
  direct_files files;
  const auto opened = files.open(file.fd.get(), file.path, file.bytes);
  if (!opened) {
    to.push_back({"path", "a direct read", verdict::bad, message_of(opened.error())});
    return;
  }
  if (!opened->fd) {
    to.push_back({"path", "a direct read", verdict::bad, opened->refusal,
                  "loads read through the page cache here"});
    return;
  }
  to.push_back({"path", "a direct read", verdict::good, "was made, and was right"});

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
  to.push_back({"path", "reads handed to kernel workers", punted ? verdict::note : verdict::good,
                counted ? fmt::format("{} of 4", *counted)
                        : fmt::format("{} were there after 4 reads",
                                      tool::counted(workers, "kernel worker")),
                punted ? "this file system (as overlay, btrfs, tmpfs) cannot read without waiting: "
                         "some bandwidth less, more processor time"
                       : ""});
}

void probe_path(const std::string& path, findings& to) {
  to.push_back({"path", "file system", verdict::good, file_system_of(path)});
  const probed_file file = file_to_probe(path, to);
  if (!file.fd) return;
  probe_alignment(file, to);
  probe_reads(file, to);
}

// --- The drive

void probe_drive(const std::string& path, findings& to) {
  struct ::stat status = {};
  if (::stat(path.c_str(), &status) != 0) fail(errno, path);
  const ::dev_t drive = S_ISBLK(status.st_mode) ? status.st_rdev : status.st_dev;
  const std::string queue = queue_folder(drive);
  if (queue.empty()) {
    to.push_back({"drive", "queue", verdict::note,
                  "no block device of its own: memory, a network, or several drives",
                  "its limits are those of what lies below"});
    return;
  }
  const auto setting = [&](const char* name) { return first_line(queue + "/" + name); };
  const std::string now = setting("max_sectors_kb");
  const std::string most = setting("max_hw_sectors_kb");
  const bool less = !now.empty() && !most.empty() && std::atol(now.c_str()) < 2048 &&
                    std::atol(now.c_str()) < std::atol(most.c_str());
  to.push_back({"drive", "largest request", less ? verdict::note : verdict::good,
                fmt::format("max_sectors_kb {}, max_hw_sectors_kb {}", now, most),
                less ? fmt::format("as root: echo {} > {}/max_sectors_kb",
                                   std::min(4096L, std::atol(most.c_str())), queue)
                     : ""});
  to.push_back({"drive", "segments of a request", verdict::good,
                setting("max_segments") + "; on 4 KiB pages each page is one"});
  to.push_back(
      {"drive", "requests at once", verdict::good, "nr_requests " + setting("nr_requests")});
  to.push_back({"drive", "scheduler", verdict::good, setting("scheduler")});
  const bool polled = setting("io_poll") == "1";
  to.push_back({"drive", "polled queues", polled ? verdict::good : verdict::note,
                "io_poll " + setting("io_poll"),
                polled ? "" : "only --iopoll needs them; for NVMe: nvme.poll_queues=N at boot"});
  to.push_back({"drive", "kind", verdict::good,
                setting("rotational") == "1" ? "says that it rotates, as many virtual drives do"
                                             : "does not rotate"});
}

// --- The GPU

void probe_gpu(findings& to) {
  std::error_code failed;
  const std::string version = first_line("/proc/driver/nvidia/version");
  std::size_t cards = 0;
  for (fs::directory_iterator at("/proc/driver/nvidia/gpus", failed), end; !failed && at != end;
       at.increment(failed)) {
    const fs::path information = at->path() / "information";
    const std::string model = first_line(information.string());
    to.push_back({"gpu", at->path().filename().string(), verdict::good, model});
    ++cards;
  }
  // The library that the runtime would load: a container may lack it though the driver is loaded.
  void* library = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  const bool usable = library != nullptr;
  if (usable) ::dlclose(library);
  if (version.empty() && cards == 0 && !usable) {
    to.push_back(
        {"gpu", "driver", verdict::note, "no NVIDIA driver here", "loads go into host memory"});
    return;
  }
  to.push_back({"gpu", "driver", usable ? verdict::good : verdict::bad,
                version.empty() ? "its version is not told" : version,
                usable ? ""
                       : "libcuda.so.1 cannot be loaded: in a container, run it with the GPU "
                         "(--gpus all)"});
}

std::string text_of(const findings& all) {
  std::string text;
  std::string topic;
  for (const finding& one : all) {
    if (one.topic != topic) text += (topic.empty() ? "" : "\n") + one.topic + "\n";
    topic = one.topic;
    text += fmt::format("  {:<4}  {:<30} {}\n", name(one.how), one.item, tool::printable(one.what));
    if (!one.advice.empty()) text += fmt::format("        {:<30} -> {}\n", "", one.advice);
  }
  return text;
}

void append(std::string& to, const findings& all) {
  to += "{\"findings\": [";
  const char* before = "\n";
  for (const finding& one : all) {
    to += before;
    tool::json_object(to)
        .field("topic", one.topic)
        .field("item", one.item)
        .field("verdict", name(one.how))
        .field("what", one.what)
        .field("advice", one.advice)
        .close();
    before = ",\n";
  }
  to += "]}";
}

}  // namespace

void probe(const probe_request& request, tool::output& out) {
  findings all;
  for (const auto& [item, value] : machine_facts(request.path)) {
    all.push_back({"machine", item, verdict::good, value});
  }
  probe_ring(all);
  probe_registration(all);
  probe_memory(all);
  probe_path(request.path, all);
  probe_drive(request.path, all);
  probe_gpu(all);
  std::string text;
  if (request.json) {
    append(text, all);
    text += '\n';
  } else {
    text = text_of(all);
  }
  out.write(text);
  out.flush();
}

}  // namespace ringload::bench
