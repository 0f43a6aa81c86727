// SPDX-License-Identifier: Apache-2.0
#pragma once

// A store in memory, "memory://folder/file", whose reads follow a script.

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <ringload/byte_source.hpp>
#include <ringload/error.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/fault.hpp"

#include "support/waiting.hpp"

namespace ringload::testing {

struct object_fate {
  enum class kind {
    read,
    fails,   // With `failure`.
    held,    // Until a stop is requested.
    throws,  // read_async throws.
  };
  kind what = kind::read;
  error failure = error(system_code(EIO), "", "the store is on fire");
};

// The state that the test and its objects share.
class memory_script {
 public:
  using rule = std::function<object_fate(const source_read&, std::uint64_t)>;

  explicit memory_script(rule how = {}) : rule_(std::move(how)) {}
  ~memory_script() { threads_.join(); }

  void follow(rule how) {
    const std::lock_guard lock(mutex_);
    rule_ = std::move(how);
    reads_ = 0;
  }
  std::uint64_t reads() const {
    const std::lock_guard lock(mutex_);
    return reads_;
  }
  bool wait_until_held(std::size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience, [&] { return held_ >= count; });
  }
  std::size_t held() const {
    const std::lock_guard lock(mutex_);
    return held_;
  }
  std::atomic<int> objects = 0;  // Alive.

 private:
  friend class memory_object;

  object_fate next(const source_read& what) {
    rule how;
    std::uint64_t number = 0;
    {
      const std::lock_guard lock(mutex_);
      number = reads_++;
      how = rule_;
    }
    return how ? how(what, number) : object_fate();
  }
  void count_held(int more) {
    const std::lock_guard lock(mutex_);
    held_ += static_cast<std::size_t>(more);
    changed_.notify_all();
  }

  boost::asio::thread_pool threads_{2};
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by the mutex.
  rule rule_;
  std::uint64_t reads_ = 0;
  std::size_t held_ = 0;
};

class memory_object final : public byte_source {
 public:
  memory_object(std::shared_ptr<const std::string> text, memory_script& script,
                const std::atomic<int>& version)
      : text_(std::move(text)), script_(script), version_(version) {
    ++script_.objects;
  }
  memory_object(const memory_object&) = delete;
  memory_object& operator=(const memory_object&) = delete;
  ~memory_object() override { --script_.objects; }

  std::uint64_t bytes() const noexcept override { return text_->size(); }
  std::string identity() const override { return "v" + std::to_string(version_); }

  void read_async(const source_read& what, read_handler done) override {
    const object_fate fate = script_.next(what);
    if (what.offset + what.into.size() > text_->size()) std::abort();  // A bug of the engine.
    if (what.counts) ++what.counts->requests;
    switch (fate.what) {
      case object_fate::kind::throws: throw error(fate.failure);
      case object_fate::kind::held: return hold(what, std::move(done));
      case object_fate::kind::fails:
        std::memset(what.into.data(), 0xEE, what.into.size());
        return end(std::move(done), std::make_exception_ptr(error(fate.failure)));
      case object_fate::kind::read:
        boost::asio::post(
            script_.threads_, [this, what, keep = std::make_shared<read_handler>(std::move(done))] {
              std::memcpy(what.into.data(), text_->data() + what.offset, what.into.size());
              std::move (*keep)(nullptr);
            });
    }
  }

 private:
  struct held_read;
  using callback = std::stop_callback<std::function<void()>>;
  struct held_read {
    read_handler done;
    std::optional<callback> stop;
  };

  void end(read_handler done, std::exception_ptr failed) {
    boost::asio::post(script_.threads_, [keep = std::make_shared<read_handler>(std::move(done)),
                                         failed] { std::move (*keep)(failed); });
  }

  void hold(const source_read& what, read_handler done) {
    auto one = std::make_shared<held_read>(std::move(done), std::nullopt);
    one->stop.emplace(what.stop, [one, this] {
      boost::asio::post(script_.threads_, [one, this] {
        one->stop.reset();
        script_.count_held(-1);
        std::move(one->done)(std::make_exception_ptr(error(system_code(ECANCELED), "", "")));
      });
    });
    script_.count_held(1);
  }

  const std::shared_ptr<const std::string> text_;
  memory_script& script_;
  const std::atomic<int>& version_;
};

// The script must outlive the store and its objects.
class memory_store final : public byte_store, public std::enable_shared_from_this<memory_store> {
 public:
  explicit memory_store(memory_script& script) : script_(script) {}

  // "folder/model.safetensors"
  void put(const std::string& path, std::string text) {
    texts_[path] = std::make_shared<const std::string>(std::move(text));
  }
  std::atomic<int> version = 1;  // Of all objects.
  std::vector<std::string> expected;
  bool lists = true;

  bool has_name(std::string_view source) const noexcept override {
    return source.starts_with("memory://") || source == "owner/in-memory";
  }
  found_source find(std::string_view source, const std::stop_token&) override {
    std::string path(source.substr(source.find("//") + 2));
    if (source == "owner/in-memory") path = "owner";
    if (path == "nothing") throw error(errc::source_not_found, "memory", "there is nothing");
    const auto slash = path.rfind('/');
    const bool whole = slash == path.npos;
    found_source out;
    out.folder = std::make_shared<folder>(shared_from_this(), path.substr(0, slash));
    if (!whole) out.file = path.substr(slash + 1);
    return out;
  }

 private:
  class folder final : public byte_folder {
   public:
    folder(std::shared_ptr<memory_store> of, std::string name)
        : of_(std::move(of)), name_(std::move(name)) {}

    std::vector<std::string> names(const std::stop_token&) override {
      if (!of_->lists) throw error(errc::unsupported_feature, path_of(""), "it cannot be listed");
      std::vector<std::string> out;
      for (const auto& [path, text] : of_->texts_) {
        if (path.starts_with(name_ + "/")) out.insert(out.begin(), path.substr(name_.size() + 1));
      }
      return out;
    }
    std::shared_ptr<byte_source> open(const std::string& name, const std::stop_token&) override {
      const auto at = of_->texts_.find(name_ + "/" + name);
      if (at == of_->texts_.end()) throw error(errc::source_not_found, "", "there is none");
      return std::make_shared<memory_object>(at->second, of_->script_, of_->version);
    }
    void expect(std::span<const std::string> names, const std::stop_token&) override {
      of_->expected.assign(names.begin(), names.end());
    }
    std::string path_of(const std::string& name) const override {
      return "memory://" + name_ + (name.empty() ? "" : "/" + name);
    }

   private:
    const std::shared_ptr<memory_store> of_;
    const std::string name_;
  };

  memory_script& script_;
  std::map<std::string, std::shared_ptr<const std::string>> texts_;
};

}  // namespace ringload::testing
