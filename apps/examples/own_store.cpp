// SPDX-License-Identifier: Apache-2.0

// Implements a custom store, from which a loader reads as it reads from files. The store has the
// objects of a cache service. The client of the service blocks, so threads of the program call the
// client. In this example, a folder represents the service.

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_future.hpp>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <ringload/byte_source.hpp>
#include <ringload/ringload.hpp>
#include <string>
#include <utility>

namespace asio = boost::asio;
namespace fs = std::filesystem;

constexpr std::string_view scheme = "cache://";

class cached_object final : public ringload::byte_source {
 public:
  cached_object(fs::path path, asio::thread_pool& threads)
      : path_(std::move(path)), bytes_(fs::file_size(path_)), threads_(threads) {}

  std::uint64_t bytes() const noexcept override { return bytes_; }

  std::string identity() const override {
    return std::to_string(fs::last_write_time(path_).time_since_epoch().count());
  }

  void read_async(const ringload::source_read& what, read_handler done) override {
    asio::post(threads_, [this, what, done = std::move(done)]() mutable {
      std::move(done)(what.stop.stop_requested() ? nullptr : read(what));
    });
  }

 private:
  std::exception_ptr read(const ringload::source_read& what) const {
    std::ifstream in(path_, std::ios::binary);
    in.seekg(static_cast<std::streamoff>(what.offset));
    in.read(reinterpret_cast<char*>(what.into.data()),
            static_cast<std::streamsize>(what.into.size()));
    if (in) return nullptr;
    return std::make_exception_ptr(
        ringload::error(ringload::errc::truncated_file, "", "the cache has lost a part of it"));
  }

  const fs::path path_;
  const std::uint64_t bytes_;
  asio::thread_pool& threads_;
};

class cached_folder final : public ringload::byte_folder {
 public:
  cached_folder(fs::path path, asio::thread_pool& threads)
      : path_(std::move(path)), threads_(threads) {}

  std::vector<std::string> names(const std::stop_token&) override {
    std::vector<std::string> out;
    for (const auto& each : fs::directory_iterator(path_)) out.push_back(each.path().filename());
    return out;
  }

  std::shared_ptr<ringload::byte_source> open(const std::string& name,
                                              const std::stop_token&) override {
    if (!fs::exists(path_ / name)) {
      throw ringload::error(ringload::errc::source_not_found, "", "the cache does not have it");
    }
    return std::make_shared<cached_object>(path_ / name, threads_);
  }

  std::string path_of(const std::string& name) const override {
    return std::string(scheme) + (path_ / name).string();
  }

 private:
  const fs::path path_;
  asio::thread_pool& threads_;
};

class cache_store final : public ringload::byte_store {
 public:
  explicit cache_store(asio::thread_pool& threads) : threads_(threads) {}

  bool has_name(std::string_view source) const noexcept override {
    return source.starts_with(scheme);
  }

  ringload::found_source find(std::string_view source, const std::stop_token&) override {
    const fs::path path(source.substr(scheme.size()));
    ringload::found_source out;
    out.folder = std::make_shared<cached_folder>(path.parent_path(), threads_);
    out.file = path.filename();
    return out;
  }

 private:
  asio::thread_pool& threads_;
};

int main(int argc, char** argv) try {
  if (argc != 2) {
    std::cerr << "usage: own_store FILE\n";
    return 2;
  }
  asio::thread_pool threads(4);
  {
    ringload::loader loader(ringload::host(), {},
                            {ringload::extension(std::make_shared<cache_store>(threads))});
    const std::string name = std::string(scheme) + fs::absolute(argv[1]).string();
    const ringload::model model =
        loader.load_async(name, ringload::as_exception(asio::use_future)).get();
    std::cout << model.size() << " tensors, " << model.stats().bytes << " bytes from "
              << model.catalog().files.front().path << '\n';
  }
  threads.join();
} catch (const std::exception& e) {
  std::cerr << e.what() << '\n';
  return 1;
}
