// SPDX-License-Identifier: Apache-2.0
#pragma once

// A version folder whose new versions are loaded when they appear. If a version is missing, damaged
// or wrong, the error is reported, and the last good version stays in use.

#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>
#include <ringload/extension.hpp>
#include <ringload/loader.hpp>
#include <ringload/model.hpp>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

namespace ringload::tool {

class followed_folder {
 public:
  /// `extensions` must be the extensions of the loader. `interval` is the time between two calls of
  /// load_newest(). After a stop request, load_newest() does not wait for a listing.
  followed_folder(loader& shared_loader, std::vector<extension> extensions, std::string folder,
                  std::chrono::milliseconds interval, std::stop_token stop)
      : loader_(&shared_loader),
        extensions_(std::move(extensions)),
        folder_(std::move(folder)),
        interval_(interval),
        stop_(std::move(stop)) {}

  /// Loads the newest version that can be loaded, if it is newer than version(). Uses the last
  /// loaded version and the later deltas, if possible. After a failure, tries again only after a
  /// pause or if the folder has a newer version. Each further failure doubles the pause. Returns
  /// true if loaded() must be published. Throws `interrupted` after a signal.
  bool load_newest();
  /// Must be called after the publication of loaded(). Until then, load_newest() returns true.
  void mark_published() noexcept { is_published_ = true; }

  /// Returns the last loaded version. Must be called after load_newest() has returned true.
  const model& loaded() const { return *loaded_; }
  std::uint64_t version() const { return version_; }
  /// Returns the failure of the last call of load_newest(), or null.
  std::exception_ptr failure() const { return failure_; }
  /// Returns the message of the failure, if this function has not just returned the same message.
  /// Otherwise returns an empty string.
  std::string take_message();

 private:
  std::vector<std::uint64_t> newer_versions() const;
  model load(std::optional<std::uint64_t> version) const;
  bool load_newer();
  bool load_any(const std::vector<std::uint64_t>& versions);
  void clear_failure();
  void set_failure(std::exception_ptr failure);

  loader* loader_;
  std::vector<extension> extensions_;
  std::string folder_;
  std::chrono::milliseconds interval_;
  std::stop_token stop_;
  std::optional<model> loaded_;  // Empty until a version is loaded.
  std::uint64_t version_ = 0;    // The number of loaded_.
  bool is_published_ = false;    // True if loaded_ is published.

  std::exception_ptr failure_;
  std::string message_;                   // The last message that take_message() returned.
  std::uint64_t failed_version_ = 0;      // The newest version at the last failure.
  std::chrono::milliseconds pause_ = {};  // The time between the last failure and retry_time_.
  std::chrono::steady_clock::time_point retry_time_ = {};
};

}  // namespace ringload::tool
