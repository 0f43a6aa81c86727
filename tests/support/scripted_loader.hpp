// SPDX-License-Identifier: Apache-2.0
#pragma once

// A loader whose reads follow a script.

#include <boost/asio/async_result.hpp>
#include <future>
#include <memory>
#include <optional>
#include <ringload/loader.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/scripted_reader.hpp"
#include "support/waiting.hpp"

namespace ringload::testing {

class scripted_loader {
 public:
  explicit scripted_loader(read_script& script, const loader_options& within = {},
                           device on = host())
      : scripted_loader(script, within, std::vector{on}) {}
  scripted_loader(read_script& script, const loader_options& within, std::vector<device> on)
      : script_(script), engine_(detail::engine::make(std::move(on), within, script.wrapper())) {
    script.runs_in(engine_->loop);
  }
  scripted_loader(const scripted_loader&) = delete;
  scripted_loader& operator=(const scripted_loader&) = delete;
  // Releases reads that a failed test still holds, so that it fails instead of hanging.
  ~scripted_loader() {
    script_.release_all();
    engine_->close();
  }

  template <class CompletionToken>
  auto load_async(std::string_view source, load_options options, CompletionToken&& token) {
    return boost::asio::async_initiate<CompletionToken, detail::model_signature>(
        detail::initiate_load(engine_), token,
        detail::load_request(detail::source_name(std::string(source)), {}, options));
  }
  template <class CompletionToken>
  auto load_async(std::string_view source, selection wanted, load_options options,
                  CompletionToken&& token) {
    return boost::asio::async_initiate<CompletionToken, detail::model_signature>(
        detail::initiate_load(engine_), token,
        detail::load_request(detail::source_name(std::string(source)), std::move(wanted), options));
  }
  template <class CompletionToken>
  auto start_async(std::string_view source, load_options options, CompletionToken&& token) {
    return boost::asio::async_initiate<CompletionToken, detail::load_operation_signature>(
        detail::initiate_start(engine_), token,
        detail::load_request(detail::source_name(std::string(source)), {}, options));
  }
  template <class CompletionToken>
  auto start_async(const checkpoint& file, load_options options, CompletionToken&& token) {
    return boost::asio::async_initiate<CompletionToken, detail::load_operation_signature>(
        detail::initiate_start(engine_), token, detail::load_request(file, {}, options));
  }
  template <class CompletionToken>
  auto copy_async(const tensor& from, device to, std::optional<dtype> as, CompletionToken&& token) {
    return boost::asio::async_initiate<CompletionToken, detail::tensor_signature>(
        detail::initiate_copy(engine_), token, detail::copy_request(from, to, as));
  }
  // The checkpoint is opened by another loader.
  template <class CompletionToken>
  auto fill_async(const checkpoint& file, std::vector<destination> into, load_options options,
                  CompletionToken&& token) {
    return boost::asio::async_initiate<CompletionToken, detail::fill_signature>(
        detail::initiate_fill(engine_), token,
        detail::load_request(file, detail::fill_request(std::move(into), {}), {}, options));
  }

  load_stats stats() const {
    load_stats s;
    engine_->fill_stats(s);
    return s;
  }

  // Returns when the engine has run all commands posted before.
  void settle() {
    const auto heard = std::make_shared<std::promise<void>>();
    if (engine_->post([heard] { heard->set_value(); })) get(heard->get_future());
  }

  // What the destructor of a loader does, without releasing held reads first.
  void close(std::chrono::milliseconds most = detail::engine::drain_max) { engine_->close(most); }

 private:
  read_script& script_;
  const std::shared_ptr<detail::engine> engine_;
};

}  // namespace ringload::testing
