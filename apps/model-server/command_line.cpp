// SPDX-License-Identifier: Apache-2.0
#include "command_line.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <utility>

#include "loader_options.hpp"
#include "models.hpp"
#include "options.hpp"
#include "run_program.hpp"

namespace ringload::server {

namespace {

constexpr auto about = "Serves tensors over HTTP while it loads models";
constexpr auto about_end =
    "A source is a path beneath a --root, absolute or relative to it. With --hub-cache, it may be\n"
    "owner/model[@revision]. With --allow-host, it may be an address: https://HOST/path. SIGINT "
    "or\n"
    "SIGTERM shuts the server down gracefully; a second signal ends it at once.\n";

using preload = std::pair<std::string, std::string>;

// Parses "ID=SOURCE". If the text has no "=", the text is the source, and the id is "main".
preload parse_preload(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) return {"main", text};
  std::string id = text.substr(0, equals);
  if (!is_model_id(id)) throw tool::usage_error("--model: '" + id + "' is not a valid id");
  return {std::move(id), text.substr(equals + 1)};
}

void add_preload(settings& to, const std::string& text) {
  const preload added = parse_preload(text);
  const auto same = std::ranges::find(to.preload, added.first, &preload::first);
  if (same != to.preload.end()) {
    throw tool::usage_error("--model: '" + same->second + "' and '" + added.second +
                            "' have the same id, '" + added.first + "': write ID=SOURCE");
  }
  to.preload.push_back(added);
}

// Checks that all models of the command line can be loaded at the same time.
void check_room(const settings& of) {
  const std::size_t count = of.preload.size();
  if (count > of.models_max) throw tool::usage_error("--model: more models than --models-max");
  if (count > of.loads_max) throw tool::usage_error("--model: more models than --loads-max");
}

}  // namespace

std::variant<settings, std::string> parse_command_line(int argc, const char* const* argv) {
  settings out;
  unsigned timeout_seconds = static_cast<unsigned>(out.timeout.count());
  std::vector<std::string> preloads;

  CLI::App app(about, "model-server");
  app.get_formatter()->column_width(26);
  app.set_version_flag("--version", "model-server " RINGLOAD_VERSION, "Print the version and exit");
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.footer(std::string(about_end) + "\n" + tool::about_sizes);
  app.add_option("--root", out.roots, "A folder whose checkpoints may be loaded; repeatable")
      ->check(CLI::ExistingDirectory)
      ->type_name("DIR");
  app.add_flag("--hub-cache", out.hub_cache, "Also allow models of the local Hugging Face cache");
  app.add_option("--allow-host", out.allowed_hosts,
                 "A host whose checkpoints may be loaded over HTTP and HTTPS; repeatable.\n"
                 "Without this option, nothing is fetched from the network")
      ->type_name("HOST");
  app.add_option("--save-root", out.save_roots,
                 "A folder that clients may save models to; repeatable. Default: none")
      ->check(CLI::ExistingDirectory)
      ->type_name("DIR");
  app.add_option("--model", preloads, "Load this model at startup; repeatable")
      ->type_name("[ID=]SOURCE");
  app.add_option("--keep", out.keep,
                 "A socket at which other processes of this user attach the models by their\n"
                 "ids without a copy (ringload::attach). Only for --device host")
      ->type_name("PATH");
  tool::add_device(app, out.device);
  tool::add_dtype(app, out.dtype);
  tool::add_engine(app, out.options.engine);
  tool::add_loader_options(app, out.options);
  tool::add_size(app, "--model-bytes-max", out.options.arena_bytes_max,
                 "Maximum memory of one model. Default: no limit");
  tool::add_size(app, "--cached-bytes", out.options.cached_bytes,
                 "Bytes of freed model memory to keep for the next model. Default: " +
                     std::to_string(out.options.cached_bytes));
  // For the options below, CLI11 adds the default to the help text.
  app.option_defaults()->always_capture_default();
  app.add_option("--address", out.address, "The address to listen on");
  app.add_option("--port", out.port, "The port; 0 chooses a free port");
  app.add_option("--timeout", timeout_seconds, "Client timeout in seconds")
      ->check(CLI::Range(1, 3600));
  app.add_option("--models-max", out.models_max, "Maximum number of models")
      ->check(CLI::Range(1, 1000));
  app.add_option("--loads-max", out.loads_max, "Maximum number of loads at once")
      ->check(CLI::Range(1, 64));
  app.add_option("--load-nice", out.load_nice, "The niceness of loading threads, as in nice(1)")
      ->check(CLI::Range(0, 19));
  app.add_option("--connections-max", out.connections_max, "Maximum number of clients at once")
      ->check(CLI::Range(1, 10'000));

  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return app.help();
  } catch (const CLI::CallForVersion& version) {
    return std::string(version.what()) + "\n";
  } catch (const CLI::ParseError& problem) {
    throw tool::usage_error(std::string(problem.what()) + " (see 'model-server --help')");
  }
  if (out.roots.empty() && !out.hub_cache && out.allowed_hosts.empty()) {
    throw tool::usage_error("no source is allowed: give --root, --hub-cache or --allow-host");
  }
  if (!out.keep.empty() && out.device != "host") {
    throw tool::usage_error("--keep: memory of a GPU cannot be attached");
  }
  boost::system::error_code no_address;
  boost::asio::ip::make_address(out.address, no_address);
  if (no_address) throw tool::usage_error("--address: '" + out.address + "' is not an IP address");
  out.timeout = std::chrono::seconds(timeout_seconds);
  for (const std::string& text : preloads) add_preload(out, text);
  check_room(out);
  return out;
}

}  // namespace ringload::server
