// SPDX-License-Identifier: Apache-2.0
#include "resource_usage.hpp"

#include <dirent.h>
#include <linux/perf_event.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

namespace ringload::bench {

namespace {

double seconds_of(const ::timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

double seconds_of_ticks(std::uint64_t ticks) {
  return static_cast<double>(ticks) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

struct folder_closer {
  void operator()(::DIR* one) const noexcept { ::closedir(one); }
};
using folder = std::unique_ptr<::DIR, folder_closer>;

// Returns the fields of /proc/PID/stat after the name, which may contain blanks and brackets.
std::istringstream fields_after_name(const std::string& line) {
  const auto end = line.rfind(')');
  return std::istringstream(end == std::string::npos ? "" : line.substr(end + 1));
}

std::uint64_t kernel_thread_ticks() {
  constexpr unsigned long kernel_thread = 0x00200000;  // PF_KTHREAD.
  std::uint64_t ticks = 0;
  const folder processes(::opendir("/proc"));
  if (!processes) return 0;
  while (const ::dirent* entry = ::readdir(processes.get())) {
    if (std::isdigit(static_cast<unsigned char>(entry->d_name[0])) == 0) continue;
    std::ifstream file("/proc/" + std::string(entry->d_name) + "/stat");
    std::string line;
    if (!std::getline(file, line)) continue;  // The process has ended.
    std::istringstream fields = fields_after_name(line);
    char state = 0;
    std::int64_t skipped = 0;
    unsigned long flags = 0;
    fields >> state;
    for (int i = 0; i < 5; ++i) fields >> skipped;  // ppid, pgrp, session, tty_nr, tpgid
    fields >> flags;
    if ((flags & kernel_thread) == 0) continue;
    for (int i = 0; i < 4; ++i) fields >> skipped;  // Page faults.
    std::uint64_t user = 0;
    std::uint64_t system = 0;
    fields >> user >> system;
    ticks += user + system;
  }
  return ticks;
}

double own_seconds() {
  struct ::rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

// Returns the current times. The times of kernel threads are not included, because their scan takes
// long.
cpu_times times_now() {
  std::ifstream stat("/proc/stat");
  std::string name;
  std::array<std::uint64_t, 8> ticks = {};  // user nice system idle iowait irq softirq steal
  stat >> name;
  for (std::uint64_t& one : ticks) stat >> one;
  const std::uint64_t interrupts = ticks[5] + ticks[6];
  cpu_times now;
  now.own = own_seconds();
  now.kernel = seconds_of_ticks(interrupts);
  now.busy = seconds_of_ticks(ticks[0] + ticks[1] + ticks[2] + interrupts);
  return now;
}

}  // namespace

// The constructor scans the kernel threads before it reads the times. The end of the interval scans
// them after it has read the times. Therefore the processor time of the scans is in neither `own`
// nor `busy`.
cpu_account::cpu_account() {
  const double kernel_threads = seconds_of_ticks(kernel_thread_ticks());
  before_ = times_now();
  before_.kernel += kernel_threads;
}

cpu_times cpu_account::spent() const {
  cpu_times now = times_now();
  now.kernel += seconds_of_ticks(kernel_thread_ticks());
  return {now.own - before_.own, now.kernel - before_.kernel, now.busy - before_.busy};
}

double foreign_processors(const cpu_times& spent, double seconds) {
  constexpr std::uint64_t ticks_min = 5;
  if (seconds < seconds_of_ticks(ticks_min)) return 0;
  const double processors = std::max(1.0, static_cast<double>(::sysconf(_SC_NPROCESSORS_ONLN)));
  return std::clamp((spent.busy - spent.own - spent.kernel) / seconds, 0.0, processors);
}

std::optional<drive_counts> drive_now(::dev_t drive) {
  std::ifstream stat("/sys/dev/block/" + std::to_string(major(drive)) + ":" +
                     std::to_string(minor(drive)) + "/stat");
  std::uint64_t reads = 0;
  std::uint64_t merged = 0;
  std::uint64_t sectors = 0;
  if (!(stat >> reads >> merged >> sectors)) return std::nullopt;
  return drive_counts{reads, sectors * 512};  // The unit is 512 bytes on every drive.
}

std::uint32_t threads_named(std::string_view beginning) {
  std::uint32_t count = 0;
  const folder threads(::opendir("/proc/self/task"));
  if (!threads) return 0;
  while (const ::dirent* entry = ::readdir(threads.get())) {
    std::ifstream file("/proc/self/task/" + std::string(entry->d_name) + "/comm");
    std::string name;
    if (std::getline(file, name) && name.starts_with(beginning)) ++count;
  }
  return count;
}

punt_counter::punt_counter() {
  for (const char* root : {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"}) {
    std::ifstream id_file(std::string(root) + "/events/io_uring/io_uring_queue_async_work/id");
    std::uint64_t id = 0;
    if (!(id_file >> id)) continue;
    ::perf_event_attr attributes = {};
    attributes.type = PERF_TYPE_TRACEPOINT;
    attributes.size = sizeof attributes;
    attributes.config = id;
    attributes.inherit = 1;
    events_ = unique_fd(static_cast<int>(
        ::syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC)));
    return;
  }
}

std::optional<std::uint64_t> punt_counter::count() const {
  std::uint64_t events = 0;
  if (!events_ || ::read(events_.get(), &events, sizeof events) != sizeof events) {
    return std::nullopt;
  }
  return events;
}

}  // namespace ringload::bench
