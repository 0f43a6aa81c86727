// SPDX-License-Identifier: Apache-2.0

// ringload keep: loads models, and serves them to other processes. After SIGHUP, loads the models
// again. Also publishes the new versions of followed folders.

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <exception>
#include <map>
#include <optional>
#include <ringload/error.hpp>
#include <ringload/keeper.hpp>
#include <ringload/loader.hpp>
#include <ringload/metrics.hpp>
#include <string>
#include <utility>
#include <vector>

#include "command_loop.hpp"
#include "commands.hpp"
#include "device.hpp"
#include "followed_folder.hpp"
#include "interrupts.hpp"
#include "metrics_server.hpp"
#include "open_request.hpp"
#include "progress_bar.hpp"
#include "service.hpp"
#include "text.hpp"

namespace ringload::tool {

namespace {

model load(loader& file_loader, load_request request) {
  boost::asio::io_context context;
  progress_bar bar("loading", request.progress);
  running_load s{request, file_loader};
  run_to_end(context, load_all(s), bar, [&s] { return so_far(s); });
  return std::move(s.loaded);
}

// Notifies the service manager. A failure is reported and does not end the keeper, because the
// models are still served.
void notify_or_report(const std::string& lines) {
  try {
    notify_service(lines);
  } catch (const error& failure) {
    std::fprintf(stderr, "ringload: error: %s\n", failure.what());
  }
}

// Returns a line for the service manager about the served models.
std::string status_of(const std::vector<kept_model>& models) {
  std::uint64_t bytes = 0;
  for (const kept_model& each : models) bytes += each.bytes;
  return fmt::format("STATUS=serving {} models, {} bytes", models.size(), bytes);
}

class keep_service {
 public:
  keep_service(const keep_request& request, output& out)
      : request_(request),
        out_(out),
        // Created before the loads, so that nothing is loaded if the socket is in use.
        keeper_(request.socket, options_of(request)),
        extensions_(extensions_for(sources_of(request))),
        loader_(shareable_device_named(request.load.device), request.load.options, extensions_) {
    if (request.metrics.empty()) return;
    metrics_.emplace(
        request.metrics, [this] { return metrics_text(); }, [this] { return is_published(); });
    out_.write("metrics: " + metrics_->url() + "\n");
    out_.flush();
  }

  // Serves the models until a signal ends the keeper. Then throws `interrupted`. The signal may
  // also arrive during a load or a listing.
  void run() {
    try {
      serve();
    } catch (const interrupted&) {
      notify_or_report("STOPPING=1");
      throw;
    }
  }

 private:
  [[noreturn]] void serve() {
    publish_all();
    notify_service("READY=1\n" + status_of(keeper_.models()));
    std::optional<std::chrono::milliseconds> interval;
    if (!followed_.empty()) interval = std::chrono::milliseconds(request_.interval_ms);
    for (;;) {
      wait_for_signal(interval);
      throw_if_interrupted();
      if (take_reload_request()) reload();
      for (auto& [name, folder] : followed_) follow(name, folder);
    }
  }

  static source_request sources_of(const keep_request& request) {
    source_request from = request.load.from;
    for (const kept_source& model : request.models) from.sources.push_back(model.source);
    return from;
  }

  static keeper_options options_of(const keep_request& request) {
    keeper_options options;
    options.mode = request.mode;
    options.users = request.users;
    const std::vector<int> passed = take_passed_sockets();
    if (passed.size() > 1) {
      throw error(errc::invalid_options, "LISTEN_FDS", "expected one socket for attaching");
    }
    if (!passed.empty()) options.listening_socket = passed.front();
    if (passed.empty() == request.socket.empty()) {
      throw error(errc::invalid_options, "--socket",
                  passed.empty() ? "--socket is missing, and the service manager passes no socket"
                                 : "the service manager passes a socket already");
    }
    return options;
  }

  bool is_published() const { return published_.load().time_since_epoch().count() != 0; }

  void publish_all() {
    for (const kept_source& source : request_.models) {
      if (source.is_followed) {
        followed_folder folder(loader_, extensions_, source.source,
                               std::chrono::milliseconds(request_.interval_ms), stop_.token());
        if (!folder.load_newest()) {
          if (folder.failure()) std::rethrow_exception(folder.failure());
          throw error(errc::source_not_found, source.source, "the folder has no version");
        }
        publish_version(source.name, folder);
        report_follow_failure(folder.take_message());
        followed_.insert_or_assign(source.name, std::move(folder));
        continue;
      }
      load_request request = request_.load;
      request.from.sources = {source.source};
      publish(source.name, load(loader_, std::move(request)), "");
    }
    published_ = std::chrono::system_clock::now();
  }

  void publish(const std::string& name, const model& loaded, const std::string& version) {
    keeper_.publish(name, loaded);
    write_line(fmt::format("{}: {}{} tensors, {} bytes\n", printable(name), version, loaded.size(),
                           loaded.catalog().size_bytes()));
  }

  void publish_version(const std::string& name, followed_folder& folder) {
    publish(name, folder.loaded(), fmt::format("version {}, ", folder.version()));
    folder.mark_published();
    publish_failures_.erase(name);
  }

  // Writes to standard output. After the first publication, a failure is reported and does not end
  // the keeper, because the models are served.
  void write_line(const std::string& line) {
    try {
      out_.write(line);
      out_.flush();
      has_output_failed_ = false;
    } catch (const reader_gone&) {
      if (!is_published()) throw;
      report_output_failure(
          error({EPIPE, boost::system::system_category()}, "standard output", {}));
    } catch (const error& failure) {
      if (!is_published()) throw;
      report_output_failure(failure);
    }
  }

  // Reports the first of several failures in succession.
  void report_output_failure(const error& failure) {
    if (std::exchange(has_output_failed_, true)) return;
    std::fprintf(stderr, "ringload: error: %s\n", failure.what());
  }

  // Publishes the new version of a folder, if there is one. If it cannot be loaded or published,
  // the old version stays published. A publication is tried again by the next call, a load after a
  // pause. The same failure is reported once.
  void follow(const std::string& name, followed_folder& folder) {
    try {
      if (folder.load_newest()) {
        publish_version(name, folder);
        published_ = std::chrono::system_clock::now();
        notify_or_report(status_of(keeper_.models()));
      }
    } catch (const error& failure) {
      std::string& reported = publish_failures_[name];
      if (std::exchange(reported, failure.what()) != failure.what()) {
        report_follow_failure(failure.what());
      }
    }
    if (folder.failure()) report_follow_failure(folder.take_message());
  }

  void report_follow_failure(const std::string& message) {
    if (message.empty()) return;
    ++follow_failures_;
    std::fprintf(stderr, "ringload: error: follow: %s\n", message.c_str());
  }

  // If a model cannot be loaded again, the old model stays published.
  void reload() {
    notify_or_report("RELOADING=1\n" + monotonic_microseconds() + "\nSTATUS=loading again");
    std::string status;
    try {
      publish_all();
      ++reloads_;
      status = status_of(keeper_.models());
    } catch (const error& failure) {
      ++reload_failures_;
      std::fprintf(stderr, "ringload: error: reload: %s\n", failure.what());
      status = std::string("STATUS=reload failed: ") + failure.what();
    }
    notify_or_report("READY=1\n" + status);
  }

  std::string metrics_text() const {
    const double published =
        std::chrono::duration<double>(published_.load().time_since_epoch()).count();
    return keeper_metrics(keeper_.models()) + loader_metrics(loader_.stats(), loader_.memory()) +
           fmt::format(
               "# HELP ringload_keeper_published_timestamp_seconds Time when all models were "
               "published "
               "last. 0: not yet.\n"
               "# TYPE ringload_keeper_published_timestamp_seconds gauge\n"
               "ringload_keeper_published_timestamp_seconds {:.3f}\n"
               "# HELP ringload_keeper_reloads_total Reloads that succeeded.\n"
               "# TYPE ringload_keeper_reloads_total counter\n"
               "ringload_keeper_reloads_total {}\n"
               "# HELP ringload_keeper_reload_failures_total Reloads that failed.\n"
               "# TYPE ringload_keeper_reload_failures_total counter\n"
               "ringload_keeper_reload_failures_total {}\n"
               "# HELP ringload_keeper_follow_failures_total Reported failures of followed "
               "folders.\n"
               "# TYPE ringload_keeper_follow_failures_total counter\n"
               "ringload_keeper_follow_failures_total {}\n",
               published, reloads_.load(), reload_failures_.load(), follow_failures_.load());
  }

  const keep_request& request_;
  output& out_;
  keeper keeper_;
  const std::vector<extension> extensions_;
  loader loader_;
  std::map<std::string, followed_folder> followed_;      // By the name of the model.
  std::map<std::string, std::string> publish_failures_;  // The last message, by the same name.
  const interrupt_stop stop_;                            // Cancels listings of followed folders.
  bool has_output_failed_ = false;

  // Read by the thread of the metrics server.
  std::atomic<std::chrono::system_clock::time_point> published_{};
  std::atomic<std::uint64_t> reloads_ = 0;
  std::atomic<std::uint64_t> reload_failures_ = 0;
  std::atomic<std::uint64_t> follow_failures_ = 0;

  std::optional<metrics_server> metrics_;  // Last member: its thread uses the members above.
};

}  // namespace

void keep_models(const keep_request& request, output& out) {
  watch_for_interrupts();
  // If standard input is not a terminal, SIGHUP requests a reload. On a terminal, SIGHUP ends the
  // program.
  if (::isatty(STDIN_FILENO) == 0) watch_for_reloads();
  keep_service(request, out).run();
}

}  // namespace ringload::tool
