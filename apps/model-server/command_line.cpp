// SPDX-License-Identifier: Apache-2.0
#include "command_line.hpp"

#include <CLI/CLI.hpp>
#include <map>

#include "models.hpp"

namespace ringload::server {

namespace {

constexpr auto about = "Serves tensors over HTTP, and loads them while it serves";
constexpr auto about_end =
    "\nA source is a path beneath a --root, absolute or relative to it, or with --hub-cache\n"
    "owner/model[@revision]. SIGINT or SIGTERM ends the server when the answers that are under\n"
    "way have gone out; a second one ends it at once.\n";

// "ID=SOURCE", or a source alone, whose id is then "main".
std::pair<std::string, std::string> parse_preload(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) return {"main", text};
  std::string id = text.substr(0, equals);
  if (!is_model_id(id)) throw usage_error("--model: '" + id + "' is not an id");
  return {std::move(id), text.substr(equals + 1)};
}

}  // namespace

std::variant<settings, std::string> parse_command_line(int argc, const char* const* argv) {
  settings out;
  unsigned timeout_seconds = static_cast<unsigned>(out.timeout.count());
  std::vector<std::string> preload;

  CLI::App app(about, "model-server");
  app.get_formatter()->column_width(26);
  app.set_version_flag("--version", "model-server " RINGLOAD_VERSION, "Print the version and exit");
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.footer(about_end);
  app.add_option("--root", out.roots, "A folder whose checkpoints may be loaded; more than once")
      ->check(CLI::ExistingDirectory)
      ->type_name("DIR");
  app.add_flag("--hub-cache", out.hub_cache, "Models of the local Hugging Face cache, too");
  app.add_option("--model", preload, "Load this one from the start on; more than once")
      ->type_name("[ID=]SOURCE");
  app.add_option("--model-bytes-max", out.within.arena_bytes_max, "Largest model")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--kept-bytes", out.within.kept_bytes, "Memory of unloaded models to keep")
      ->transform(CLI::AsSizeValue(false));
  // Single values from here on, whose defaults help shows.
  app.option_defaults()->always_capture_default();
  app.add_option("--address", out.address, "The address to listen on");
  app.add_option("--port", out.port, "The port; 0 for any that is free");
  app.add_option("--timeout", timeout_seconds, "Seconds a client may keep us waiting")
      ->check(CLI::Range(1, 3600));
  app.add_option("--models-max", out.models_max, "Models at once")->check(CLI::Range(1, 1000));
  app.add_option("--loads-max", out.loads_max, "Loads at once")->check(CLI::Range(1, 64));
  app.add_option("--load-nice", out.load_nice, "How far loads stand back for requests, as nice(1)")
      ->check(CLI::Range(0, 19));
  app.add_option("--connections-max", out.connections_max, "Clients at once")
      ->check(CLI::Range(1, 10'000));
  app.add_option("--slots", out.within.slots, "Buffers that reads go through");
  app.add_option("--slot-bytes", out.within.slot_bytes, "The size of each")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--bytes-in-flight", out.within.bytes_in_flight,
                 "What the drive has at once, 0: found")
      ->transform(CLI::AsSizeValue(false));
  const std::map<std::string, read_engine> engines = {{"auto", read_engine::automatic},
                                                      {"ring", read_engine::ring},
                                                      {"threads", read_engine::threads}};
  std::string engine = "auto";
  app.add_option("--engine", engine, "What reads: auto, ring or threads")
      ->check([&engines](const std::string& name) {
        return engines.contains(name) ? std::string() : "'" + name + "' is no engine";
      });

  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return app.help();
  } catch (const CLI::CallForVersion& version) {
    return std::string(version.what()) + "\n";
  } catch (const CLI::ParseError& problem) {
    throw usage_error(std::string(problem.what()) + " (see 'model-server --help')");
  }
  if (out.roots.empty() && !out.hub_cache) {
    throw usage_error("nothing could be loaded: give a --root, or --hub-cache");
  }
  out.within.engine = engines.at(engine);
  out.timeout = std::chrono::seconds(timeout_seconds);
  for (const std::string& text : preload) out.preload.push_back(parse_preload(text));
  return out;
}

}  // namespace ringload::server
