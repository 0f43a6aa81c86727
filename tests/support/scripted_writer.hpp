// SPDX-License-Identifier: Apache-2.0
#pragma once

// A loader whose writes follow a script: short writes, errors, and whatever a test does meanwhile.

#include <algorithm>
#include <boost/asio/async_result.hpp>
#include <boost/asio/post.hpp>
#include <climits>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <ringload/loader.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/writers/block_writer.hpp"
#include "runtime/engine.hpp"

namespace ringload::testing {

// Shared by the test and by the writers that it is told to make.
class write_script {
 public:
  static constexpr int as_written = INT_MAX;
  // Asked in the engine thread for each write, with its number, from 0 on. So many bytes of it are
  // written; or none, if it is -errno.
  using rule = std::function<int(const write_request&, std::uint64_t)>;

  explicit write_script(rule how = {}) : rule_(std::move(how)) {}

  // Every write, in the order of starting. Any thread.
  std::vector<write_request> log() const {
    const std::lock_guard lock(mutex_);
    return log_;
  }

  int decide(const write_request& what) {
    std::uint64_t number = 0;
    {
      const std::lock_guard lock(mutex_);
      number = log_.size();
      log_.push_back(what);
    }
    return rule_ ? rule_(what, number) : as_written;
  }

  boost::asio::io_context* loop = nullptr;  // Set before the first write.

 private:
  const rule rule_;
  mutable std::mutex mutex_;
  std::vector<write_request> log_;  // Guarded by the mutex.
};

class scripted_writer final : public block_writer {
 public:
  scripted_writer(write_script& script, std::unique_ptr<block_writer> real)
      : script_(script), real_(std::move(real)) {}

  void start(operation& op) override {
    const int fate = script_.decide(op.request);
    if (fate <= 0) {
      boost::asio::post(*script_.loop, [&op, fate] { op.done(op, fate); });
      return;
    }
    // A direct write of a part of a block would be refused: then none of that block is written.
    const auto most = static_cast<std::uint32_t>(fate);
    if (op.request.direct && most < op.request.bytes && most % 4096 != 0 && most < 4096) {
      boost::asio::post(*script_.loop, [&op, fate] { op.done(op, fate); });
      return;
    }
    if (most < op.request.bytes) op.request.bytes = op.request.direct ? most / 4096 * 4096 : most;
    real_->start(op);
  }

 private:
  write_script& script_;
  const std::unique_ptr<block_writer> real_;
};

class scripted_saver {
 public:
  explicit scripted_saver(write_script& script, const loader_options& within = {},
                          device on = host()) {
    detail::engine::wrappers wrap;
    wrap.of_writer = [&script](std::unique_ptr<block_writer> real) {
      return std::unique_ptr<block_writer>(
          std::make_unique<scripted_writer>(script, std::move(real)));
    };
    engine_ = detail::engine::make({on}, within, wrap);
    script.loop = &engine_->loop;
  }
  scripted_saver(const scripted_saver&) = delete;
  scripted_saver& operator=(const scripted_saver&) = delete;
  ~scripted_saver() { engine_->close(); }

  template <class CompletionToken>
  auto save_async(std::string_view path, std::vector<tensor_ref> tensors, save_options how,
                  CompletionToken&& token) {
    return boost::asio::async_initiate<CompletionToken, detail::save_signature>(
        detail::initiate_save(engine_), token,
        detail::save_request(std::string(path), std::move(tensors), std::move(how)));
  }

 private:
  std::shared_ptr<detail::engine> engine_;
};

}  // namespace ringload::testing
