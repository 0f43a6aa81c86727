// SPDX-License-Identifier: Apache-2.0
#pragma once

// A loader whose reads follow a script.

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/system_executor.hpp>
#include <future>
#include <memory>
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
  auto load_async(source from, load_options options, CompletionToken&& token) {
    return initiate<model, &detail::begin_load>(token, std::move(from), std::move(options));
  }
  template <class CompletionToken>
  auto start_async(source from, load_options options, CompletionToken&& token) {
    return initiate<load_operation, &detail::begin_start>(token, std::move(from),
                                                          std::move(options));
  }
  template <class CompletionToken>
  auto stream_async(source from, std::uint64_t window_bytes, CompletionToken&& token) {
    return initiate<tensor_stream, &detail::begin_stream>(token, std::move(from), load_options(),
                                                          window_bytes);
  }
  template <class CompletionToken>
  auto copy_async(tensor from, tensor_copy_options options, CompletionToken&& token) {
    return initiate<tensor, &detail::begin_copy>(token, std::move(from), options);
  }
  // The checkpoint is opened by another loader.
  template <class CompletionToken>
  auto fill_async(const checkpoint& file, std::vector<destination> into, load_options options,
                  CompletionToken&& token) {
    fill_options rules;
    rules.load = std::move(options);
    return initiate<fill_result, &detail::begin_fill, detail::cancel_with_effects>(
        token, source(file), std::move(into), std::move(rules));
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

  const std::shared_ptr<detail::engine>& loader_engine() const noexcept { return engine_; }

  // What the destructor of a loader does, without releasing held reads first.
  void close(std::chrono::milliseconds most = detail::engine::drain_max) { engine_->close(most); }

 private:
  template <class T, auto Begin,
            boost::asio::cancellation_type Cancellations = detail::cancel_by_any,
            class CompletionToken, class... Arguments>
  auto initiate(CompletionToken& token, Arguments... arguments) {
    return detail::initiate<T, Begin, Cancellations>(token, boost::asio::system_executor(), engine_,
                                                     std::move(arguments)...);
  }

  read_script& script_;
  const std::shared_ptr<detail::engine> engine_;
};

}  // namespace ringload::testing
