// SPDX-License-Identifier: Apache-2.0
#include "keep_options.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "loader_options.hpp"
#include "options.hpp"
#include "writing_options.hpp"

namespace ringload::tool {

namespace {

constexpr const char* about_service =
    "SIGHUP loads all models again and publishes them as new versions: processes that have\n"
    "attached a model keep their version. If standard input is a terminal, SIGHUP ends the "
    "program.\n"
    "Under systemd, the program notifies systemd when all models are published (Type=notify), and\n"
    "accepts a socket (socket activation); the package has the units ringload-keep@.service and "
    ".socket.\n";

// Parses "NAME=SOURCE", or a source alone, which is then also the name.
std::pair<std::string, std::string> named_source(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) return {text, text};
  return {text.substr(0, equals), text.substr(equals + 1)};
}

}  // namespace

void add_keep(CLI::App& root, keep_request& request, const std::string& footer) {
  CLI::App& keep = *root.add_subcommand(
      "keep", "Load models and serve them to other processes of this machine until Ctrl-C");
  const auto take_models = [&request](const std::vector<std::string>& all) {
    for (const std::string& each : all) {
      auto model = named_source(each);
      const auto same = [&](const auto& other) { return other.first == model.first; };
      if (std::ranges::any_of(request.models, same)) {
        refuse("SOURCE", model.first, "is the name of two models");
      }
      request.models.push_back(std::move(model));
    }
  };
  keep.add_option_function<std::vector<std::string>>(
          "SOURCE", take_models, "A checkpoint, or NAME=CHECKPOINT to serve it under another name")
      ->required()
      ->type_name("");
  keep.add_option("--socket", request.socket,
                  "Path of the socket at which other processes attach, at most 107 bytes.\n"
                  "Default: the socket that systemd passes")
      ->type_name("PATH");
  const auto take_mode = [&request](const std::string& text) {
    std::size_t end = 0;
    try {
      request.mode = static_cast<unsigned>(std::stoul(text, &end, 8));
    } catch (const std::logic_error&) {
    }
    if (end != text.size() || request.mode > 0777)
      refuse("--mode", text, "is invalid, expected an octal mode such as 0660");
  };
  keep.add_option_function<std::string>(
          "--mode", take_mode,
          "Mode of the socket: users with write permission may attach.\n"
          "Default: 0600")
      ->type_name("MODE");
  keep.add_option("--user", request.users,
                  "Number of a user who may attach, if --mode allows it; repeatable. Default: all")
      ->type_name("UID");
  keep.add_option("--metrics", request.metrics,
                  "Serve metrics for Prometheus at http://HOST:PORT/metrics. The page /ready\n"
                  "succeeds once all models are published. HOST is an address of this machine.\n"
                  "Port 0 chooses a free port. Default: none")
      ->type_name("HOST:PORT");
  add_device(keep, request.load.device);
  add_engine(keep, request.load.options.engine);
  add_loader_options(keep, request.load.options);
  add_dtype(keep, request.load.how.dtype);
  add_progress(keep, request.load.progress);
  keep.footer(std::string(about_service) + "\n" + footer);
}

}  // namespace ringload::tool
