// SPDX-License-Identifier: Apache-2.0
#include "followed_folder.hpp"

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <ringload/delta.hpp>
#include <ringload/error.hpp>
#include <utility>

#include "command_loop.hpp"
#include "interrupts.hpp"
#include "progress_bar.hpp"

namespace ringload::tool {

namespace asio = boost::asio;

namespace {

// The maximum pause after failures, as a multiple of the interval.
constexpr int retry_intervals_max = 64;

asio::awaitable<void> load_version(loader& shared_loader, const std::string& folder,
                                   const version_options& options, model& loaded) {
  version_options copied = options;
  auto version = co_await load_version_async(shared_loader, folder, copied);
  loaded = std::move(version);
}

}  // namespace

std::vector<std::uint64_t> followed_folder::newer_versions() const {
  std::vector<std::uint64_t> newer;
  try {
    for (const version_info& files : list_versions(folder_, extensions_, stop_)) {
      if (!loaded_ || files.version > version_) newer.push_back(files.version);
    }
  } catch (const error&) {
    throw_if_interrupted();  // The signal has cancelled the listing.
    throw;
  }
  return newer;
}

model followed_folder::load(std::optional<std::uint64_t> version) const {
  version_options options;
  options.version = version;
  options.apply.allocation = allocation::per_load;
  options.base = loaded_;
  options.base_version = version_;
  asio::io_context context;
  progress_bar bar("loading", false);
  model loaded;
  run_to_end(context, load_version(*loader_, folder_, options, loaded), bar,
             [] { return progress(); });
  return loaded;
}

// Tries to load all `versions` in ascending order, so that each good delta is applied once. Keeps
// the last version that could be loaded.
bool followed_folder::load_any(const std::vector<std::uint64_t>& versions) {
  bool is_loaded = false;
  for (const std::uint64_t version : versions) {
    try {
      loaded_ = load(version);
      version_ = version;
      is_loaded = true;
    } catch (const error&) {
      // Ignored, because load_newest() reports the failure of the newest version.
    }
  }
  return is_loaded;
}

bool followed_folder::load_newest() {
  if (load_newer()) is_published_ = false;
  return loaded_ && !is_published_;
}

// Returns true if a version was loaded.
bool followed_folder::load_newer() {
  try {
    std::vector<std::uint64_t> newer = newer_versions();
    if (newer.empty() && !loaded_) {
      (void)load(std::nullopt);  // Throws an error that states why the folder has no version.
      newer = newer_versions();  // There was no error, so a version has appeared meanwhile.
    }
    if (newer.empty()) {
      // The folder has no newer version, so the earlier failure is over. The next failure is
      // reported, even if its message is the same.
      clear_failure();
      return false;
    }
    const bool has_newer_failure = failed_version_ < newer.back();
    if (failure_ && !has_newer_failure && std::chrono::steady_clock::now() < retry_time_) {
      return false;
    }
    failed_version_ = newer.back();
    try {
      loaded_ = load(newer.back());
      version_ = newer.back();
      clear_failure();
      return true;
    } catch (const error&) {
      set_failure(std::current_exception());
    }
    newer.pop_back();
    return load_any(newer);
  } catch (const error&) {
    set_failure(std::current_exception());
    return false;
  }
}

void followed_folder::clear_failure() {
  failure_ = nullptr;
  message_.clear();
  pause_ = {};
}

void followed_folder::set_failure(std::exception_ptr failure) {
  failure_ = std::move(failure);
  pause_ = std::clamp(2 * pause_, interval_, retry_intervals_max * interval_);
  retry_time_ = std::chrono::steady_clock::now() + pause_;
}

std::string followed_folder::take_message() {
  if (!failure_) return {};
  std::string text;
  try {
    std::rethrow_exception(failure_);
  } catch (const error& failure) {
    text = failure.what();
  }
  if (text == message_) return {};
  message_ = text;
  return text;
}

}  // namespace ringload::tool
