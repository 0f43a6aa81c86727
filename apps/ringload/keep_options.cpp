// SPDX-License-Identifier: Apache-2.0
#include "keep_options.hpp"

#include <algorithm>
#include <charconv>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "loader_options.hpp"
#include "options.hpp"
#include "remote_options.hpp"
#include "writing_options.hpp"

namespace ringload::tool {

namespace {

constexpr const char* about_service =
    "SIGHUP loads all models again and publishes them as new versions: processes that have\n"
    "attached a model keep their version. With --follow, each new version of the folder is "
    "published\n"
    "too, from the version in memory and the delta. If a version is missing, damaged or wrong, "
    "the\n"
    "error is printed, and the last good version is still served. If standard input is a terminal, "
    "SIGHUP ends the "
    "program.\n"
    "Under systemd, the program notifies systemd when all models are published (Type=notify), and\n"
    "accepts a socket (socket activation); the package has the units ringload-keep@.service and "
    ".socket.\n";

// Parses "NAME=SOURCE". If the text has no "=", the text is both the name and the source.
kept_source named_source(const std::string& text, bool is_followed) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) return {text, text, is_followed};
  return {text.substr(0, equals), text.substr(equals + 1), is_followed};
}

// Adds models to the request. An error names `option`.
void add_models(keep_request& request, const char* option, const std::vector<std::string>& texts,
                bool is_followed) {
  for (const std::string& text : texts) {
    kept_source added = named_source(text, is_followed);
    const auto is_same = [&](const kept_source& other) { return other.name == added.name; };
    if (std::ranges::any_of(request.models, is_same)) {
      refuse(option, added.name, "is the name of two models");
    }
    request.models.push_back(std::move(added));
  }
}

bool is_followed(const keep_request& request) {
  return std::ranges::any_of(request.models, &kept_source::is_followed);
}

}  // namespace

void add_keep(CLI::App& root, keep_request& request, const std::string& footer) {
  CLI::App& keep = *root.add_subcommand(
      "keep", "Load models and serve them to other processes of this machine until Ctrl-C");
  keep.add_option_function<std::vector<std::string>>(
          "SOURCE", [&request](const auto& texts) { add_models(request, "SOURCE", texts, false); },
          "A checkpoint, or NAME=CHECKPOINT to serve it under another name")
      ->type_name("");
  keep.add_option_function<std::vector<std::string>>(
          "--follow",
          [&request](const auto& texts) { add_models(request, "--follow", texts, true); },
          "A folder of versions, or NAME=FOLDER: serve its newest version, and publish each new\n"
          "version; repeatable. A local folder, s3://BUCKET/PREFIX/, or a repository of the hub")
      ->allow_extra_args(false)
      ->type_name("FOLDER");
  keep.add_option("--interval", request.interval_ms,
                  "Milliseconds between two checks of the folders of --follow. Default: 1000")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{3'600'000}))
      ->type_name("MS");
  keep.add_option("--socket", request.socket,
                  "Path of the socket at which other processes attach, at most 107 bytes.\n"
                  "Default: the socket that systemd passes")
      ->type_name("PATH");
  const auto take_mode = [&request](const std::string& text) {
    unsigned mode = 0;
    const char* const end = text.data() + text.size();
    const auto [stopped, problem] = std::from_chars(text.data(), end, mode, 8);
    if (problem != std::errc() || stopped != end || mode > 0777)
      refuse("--mode", text, "is invalid, expected an octal mode such as 0660");
    request.mode = mode;
  };
  keep.add_option_function<std::string>(
          "--mode", take_mode,
          "Mode of the socket: users with write permission may attach.\n"
          "Default: 0600")
      ->type_name("MODE");
  keep.add_option("--user", request.users,
                  "Number of a user who may attach, if --mode allows it; repeatable. Default: all")
      ->allow_extra_args(false)
      ->type_name("UID");
  keep.add_option("--metrics", request.metrics,
                  "Serve metrics for Prometheus at http://HOST:PORT/metrics. The page /ready\n"
                  "succeeds once all models are published. HOST is an address of this machine.\n"
                  "Port 0 chooses a free port. Default: none")
      ->type_name("HOST:PORT");
  add_device(keep, request.load.device);
  add_engine(keep, request.load.options.engine);
  add_loader_options(keep, request.load.options);
  add_remote(keep, request.load.from.remote);
  add_dtype(keep, request.load.how.dtype);
  add_progress(keep, request.load.progress);
  keep.callback([&request] {
    if (request.models.empty()) throw CLI::RequiredError("SOURCE or --follow");
    if (is_followed(request) && request.load.how.dtype) {
      refuse("--dtype", "", "has no effect on --follow, because deltas refer to stored tensors");
    }
  });
  keep.footer(std::string(about_service) + "\n" + footer);
}

}  // namespace ringload::tool
