// SPDX-License-Identifier: Apache-2.0
#include "fio.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <boost/json/value_to.hpp>
#include <cstdlib>

#include "failure.hpp"
#include "interrupts.hpp"
#include "run_program.hpp"
#include "size.hpp"

namespace ringload::bench {

namespace {

namespace json = boost::json;

constexpr double ramp_seconds = 0.25;

struct child_output {
  std::string out;
  std::string err;
  int status = 0;
};

std::string read_all(int fd) {
  std::string text;
  std::array<char, 65536> some;
  for (;;) {
    const ::ssize_t got = ::read(fd, some.data(), some.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(some.data(), static_cast<std::size_t>(got));
  }
}

// fio allocates its buffers with malloc. A setting of malloc selects huge pages. A setting of the
// process forbids huge pages.
void choose_pages(page_kind pages) {
  if (pages == page_kind::small) ::prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
  if (pages == page_kind::transparent) ::setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1", 1);
}

child_output run_child(const std::vector<std::string>& arguments, page_kind pages) {
  std::array<int, 2> out = {};
  if (::pipe2(out.data(), O_CLOEXEC) != 0) fail(errno, "fio");
  const unique_fd reading(out[0]);
  unique_fd writing(out[1]);
  // The standard error of fio is an unnamed file. With a pipe, each side could block on the other.
  const unique_fd err(::open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  std::vector<char*> argv;
  for (const std::string& one : arguments) argv.push_back(const_cast<char*>(one.c_str()));
  argv.push_back(nullptr);
  const ::pid_t child = ::fork();
  if (child < 0) fail(errno, "fio");
  if (child == 0) {
    ::dup2(writing.get(), STDOUT_FILENO);
    if (err) ::dup2(err.get(), STDERR_FILENO);
    choose_pages(pages);
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  writing = unique_fd();
  child_output result;
  result.out = read_all(reading.get());
  while (::waitpid(child, &result.status, 0) < 0 && errno == EINTR) {
  }
  if (err) {
    ::lseek(err.get(), 0, SEEK_SET);
    result.err = read_all(err.get());
  }
  tool::throw_if_interrupted();
  return result;
}

double number(const json::value& document, const char* pointer) {
  return document.at_pointer(pointer).to_number<double>();
}

std::string first_line_of(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

std::string fio_version() {
  const child_output said = run_child({"fio", "--version"}, page_kind::small);
  return said.status == 0 ? first_line_of(said.out) : "";
}

cell comparable(cell config) {
  if (!config.cold_once() && config.bytes_max == 0) config.ramp_seconds = ramp_seconds;
  return config;
}

std::vector<std::string> fio_arguments(const target& source, const cell& config) {
  if (config.into != destination::slots) {
    throw tool::usage_error("--with-fio: fio reads into slots, so compare with --into slots");
  }
  if (config.rings != 1) throw tool::usage_error("--with-fio: fio has one ring in each thread");
  const bool rings = config.with == method::ring;
  const std::uint64_t jobs = rings ? config.threads : config.depth;
  if (config.cold_once() && jobs > 1) {
    throw tool::usage_error(
        "--with-fio: each of several jobs of fio reads the same bytes, which are cold only for the "
        "first job; compare with --route direct, --state warm, or one thread");
  }
  if (config.bytes_max > 0 && jobs > 1 && config.bytes_max / jobs < config.block_bytes) {
    throw tool::usage_error(fmt::format(
        "--with-fio: --bytes {} is less than a block for each of {} jobs of fio, "
        "expected at least {}",
        tool::grouped(config.bytes_max), jobs, tool::grouped(jobs * config.block_bytes)));
  }
  std::string names;
  for (const target::file& one : source.files()) {
    if (!names.empty()) names += ':';
    for (const char c : one.path) {  // fio uses ':' as a separator of names.
      if (c == ':' || c == '\\') names += '\\';
      names += c;
    }
  }
  std::vector<std::string> arguments = {
      "fio",
      "--name=cell",
      "--readonly",
      "--filename=" + names,
      std::string("--rw=") + (config.order == pattern::random ? "randread" : "read"),
      fmt::format("--bs={}", config.block_bytes),
      std::string("--ioengine=") + (rings                            ? "io_uring"
                                    : config.with == method::threads ? "psync"
                                                                     : "mmap"),
      fmt::format("--iodepth={}", rings ? config.depth : 1),
      fmt::format("--numjobs={}", jobs),
      "--thread",
      "--group_reporting",
      fmt::format("--direct={}", config.by == route::direct ? 1 : 0),
      "--invalidate=0",
      "--allow_file_create=0",
      fmt::format("--randseed={}", config.seed + 1),
      std::string("--mem=") + (config.pages == page_kind::hugetlb ? "mmaphuge" : "malloc"),
      "--iomem_align=2M",
      "--output-format=json",
  };
  if (config.registered_buffers) arguments.emplace_back("--fixedbufs");
  if (config.registered_files) arguments.emplace_back("--registerfiles");
  if (config.sqpoll) arguments.emplace_back("--sqthread_poll");
  if (config.iopoll) arguments.emplace_back("--hipri");
  if (config.bytes_max > 0) {
    arguments.push_back(fmt::format("--io_size={}", config.bytes_max / jobs));
  }
  arguments.push_back(
      fmt::format("--runtime={}ms", static_cast<std::uint64_t>(config.seconds * 1e3)));
  // With this option, fio reads the files again until the time is over.
  if (!config.cold_once() && config.bytes_max == 0) arguments.emplace_back("--time_based");
  if (config.ramp_seconds > 0) {
    arguments.push_back(
        fmt::format("--ramp_time={}ms", static_cast<std::uint64_t>(config.ramp_seconds * 1e3)));
  }
  return arguments;
}

measurement parse_fio(const std::string& text) {
  // fio may print warnings before the JSON object.
  const auto begin = text.find('{');
  boost::system::error_code failed;
  const json::value all =
      json::parse(begin == std::string::npos ? "" : json::string_view(text).substr(begin), failed);
  if (failed) fail("fio", "its report is not JSON: " + first_line_of(text));
  measurement m;
  try {
    const json::value& job = all.at_pointer("/jobs/0");
    m.bytes = static_cast<std::uint64_t>(number(job, "/read/io_bytes"));
    m.reads = static_cast<std::uint64_t>(number(job, "/read/total_ios"));
    m.seconds = number(job, "/read/runtime") * 1e-3;
    const double busy = (number(job, "/usr_cpu") + number(job, "/sys_cpu")) * 1e-2;
    // The shares are relative to `job_runtime`, so the product is the processor time of all jobs.
    m.cpu_seconds = busy * number(job, "/job_runtime") * 1e-3;
  } catch (const boost::system::system_error&) {
    fail("fio", "its report has no read results");
  }
  return m;
}

measurement run_fio(const target& source, const cell& config) {
  const auto share = source.establish(config.state);
  const child_output said = run_child(fio_arguments(source, config), config.pages);
  if (said.status != 0) {
    const std::string why = first_line_of(said.err.empty() ? said.out : said.err);
    fail("fio", why.empty() ? "it failed" : why);
  }
  measurement m = parse_fio(said.out);
  m.cached_share_before = share;
  return m;
}

}  // namespace ringload::bench
