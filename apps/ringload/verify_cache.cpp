// SPDX-License-Identifier: Apache-2.0
#include "verify_cache.hpp"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <filesystem>
#include <ringload/error.hpp>
#include <span>
#include <system_error>
#include <thread>

#include "interrupts.hpp"
#include "openssl_hasher.hpp"
#include "tensor_hasher.hpp"
#include "worker_threads.hpp"

namespace ringload::tool {

namespace {

namespace asio = boost::asio;
namespace fs = std::filesystem;

constexpr std::size_t buffer_bytes = std::size_t{1} << 20;
constexpr std::size_t sha1_digits = 40;
constexpr std::size_t sha256_digits = 64;

struct file_descriptor {
  int fd;
  explicit file_descriptor(int opened) noexcept : fd(opened) {}
  file_descriptor(const file_descriptor&) = delete;
  file_descriptor& operator=(const file_descriptor&) = delete;
  ~file_descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

bool is_digest(const std::string& name) {
  return (name.size() == sha1_digits || name.size() == sha256_digits) &&
         name.find_first_not_of("0123456789abcdef") == std::string::npos;
}

[[noreturn]] void fail(int code) { throw std::system_error(code, std::generic_category()); }

// Returns the digest. If `stop` is set or a signal was received, returns a wrong digest early.
std::string digest_of(const whole_file& file, const std::atomic<bool>& stop) {
  const file_descriptor opened(::open(file.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (opened.fd < 0) fail(errno);
  struct ::stat status = {};
  if (::fstat(opened.fd, &status) != 0) fail(errno);
  if (!S_ISREG(status.st_mode)) throw error(errc::not_a_regular_file, {}, {});
  ::posix_fadvise(opened.fd, 0, 0, POSIX_FADV_SEQUENTIAL);

  const bool by_git = file.expected.size() == sha1_digits;
  const hasher pass = openssl_hasher(by_git ? ::EVP_sha1() : ::EVP_sha256());
  if (by_git) {
    const std::string begin = "blob " + std::to_string(status.st_size);
    pass.update(std::as_bytes(std::span(begin.c_str(), begin.size() + 1)));
  }
  std::vector<std::byte> buffer(buffer_bytes);
  while (!stop && interrupt_signal() == 0) {
    const ::ssize_t got = ::read(opened.fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(errno);
    if (got == 0) break;
    pass.update(std::span(buffer).first(static_cast<std::size_t>(got)));
  }
  return hex(pass.finish());
}

void hash(whole_file& file, const std::atomic<bool>& stop) noexcept {
  try {
    file.found = digest_of(file, stop);
  } catch (const std::system_error& e) {
    file.problem = e.code().message();
  } catch (const std::exception& e) {
    file.problem = e.what();
  }
}

}  // namespace

whole_file describe_file(const fs::path& path) {
  whole_file file;
  file.path = path;
  std::error_code problem;
  const fs::path blob = fs::canonical(path, problem);
  if (problem) {
    file.problem = problem.message();
    return file;
  }
  const std::string name = blob.filename().native();
  if (blob.parent_path().filename() == "blobs" && is_digest(name)) file.expected = name;
  return file;
}

void hash_files(std::vector<whole_file>& files,
                const std::function<void(const whole_file&)>& report) {
  asio::io_context reports;  // The threads post their reports to this context.
  std::atomic<bool> stop = false;
  worker_threads workers(std::thread::hardware_concurrency());
  for (whole_file& file : files) {
    asio::post(workers.get_executor(), [&, left = asio::make_work_guard(reports)] {
      if (!file.expected.empty()) hash(file, stop);
      asio::post(reports, [&] {
        throw_if_interrupted();
        report(file);
      });
    });
  }
  try {
    reports.run();
  } catch (...) {
    stop = true;
    throw;
  }
}

}  // namespace ringload::tool
