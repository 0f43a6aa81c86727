// SPDX-License-Identifier: Apache-2.0
#include "command_line.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <limits>
#include <sstream>
#include <system_error>

#include "loader_options.hpp"
#include "net.hpp"
#include "options.hpp"
#include "run.hpp"
#include "run_program.hpp"

namespace ringload::bench {

namespace {

using tool::add_choice;
using tool::add_number;
using tool::add_size;
using tool::choices;

constexpr const char* about =
    "Measures the throughput of a drive, the page cache and the loader, and what limits it.\n"
    "It opens its target read-only.";

constexpr const char* about_targets =
    "TARGET is a file, a folder whose files are read one after the other, or a block device.\n";

constexpr const char* about_checkpoint_targets =
    "If TARGET is a checkpoint and time is left, whole loads confirm the gain of the drive.\n";

constexpr const char* about_sources =
    "SOURCE is a .safetensors file; a folder that holds a checkpoint; a shard index\n"
    "(model.safetensors.index.json); or owner/model[@revision] in the local Hugging Face cache.\n";

constexpr const char* about_network_targets =
    "TARGET is https://host/file, s3://bucket/key, or hf://owner/model, whose first tensor file "
    "is\n"
    "read. The local cache is not used, and the received bytes are dropped. The server's owner "
    "may\n"
    "charge for them.\n";

constexpr const char* about_places =
    "PATH is a file or a block device, which is only read, or a folder. In a folder the probe\n"
    "reads a temporary file of 8 MiB without a name, which disappears when the probe ends.\n";

constexpr double seconds_max = 86'400;
constexpr double tune_seconds_min = 1;
constexpr std::uint64_t most = std::numeric_limits<std::uint32_t>::max();

const choices<page_kind> page_kinds = {
    {"4k", page_kind::small}, {"thp", page_kind::transparent}, {"hugetlb", page_kind::hugetlb}};

void add_seconds(CLI::App& app, const std::string& option, double& target, const std::string& help,
                 double least = 0.001) {
  const auto take = [&target, option, least](const std::string& text) {
    const char* const end = text.data() + text.size();
    double seconds = 0;
    const auto [stopped, problem] = std::from_chars(text.data(), end, seconds);
    // The comparison is false for NaN, too.
    const bool is_valid = seconds >= least && seconds <= seconds_max;
    if (problem != std::errc() || stopped != end || !is_valid) {
      tool::refuse(
          option, text,
          fmt::format("is invalid, expected a number of seconds from {} to 86,400", least));
    }
    target = seconds;
  };
  app.add_option_function<std::string>(option, take, help)->type_name("S");
}

void add_runs(CLI::App& app, std::uint32_t& runs, const std::string& help) {
  app.add_option("--runs", runs, help)->type_name("N")->check(CLI::Range(1, 100'000));
}

// Parses a list such as "1M,2M,4M". `take` parses one item.
template <class Item, class Take>
void add_list(CLI::App& app, const std::string& option, std::vector<Item>& target, Take take,
              const std::string& type, const std::string& help) {
  const auto split = [&target, take](const std::string& text) {
    target.clear();
    std::istringstream items(text);
    for (std::string item; std::getline(items, item, ',');) target.push_back(take(item));
  };
  app.add_option_function<std::string>(option, split, help)->type_name(type);
}

void add_sizes(CLI::App& app, const std::string& option, std::vector<std::uint64_t>& target,
               const std::string& help) {
  const auto take = [option](const std::string& text) {
    const auto size = tool::parse_size(text);
    if (!size || *size == 0)
      tool::refuse(option, text, "is invalid, expected a size such as 512K or 2M");
    return *size;
  };
  add_list(app, option, target, take, "SIZE,...", help);
}

constexpr const char* about_fio_jobs =
    "\nfio runs one job for each thread. More than one job is refused for cold buffered\n"
    "reads, and if --bytes is less than one block for each job";

// The group of option names of fio, for users who have a job file.
const char* const fio_names = "Option names of fio";

void add_fio_names(CLI::App& app, cell& config) {
  add_choice<pattern>(app, "--rw", config.order,
                      {{"read", pattern::sequential}, {"randread", pattern::random}},
                      "read: as --pattern seq. randread: as --pattern rand. Nothing is written")
      ->excludes(app.get_option("--pattern"))
      ->group(fio_names);
  add_choice<route>(app, "--direct", config.by, {{"1", route::direct}, {"0", route::buffered}},
                    "1: as --route direct. 0: as --route buffered")
      ->excludes(app.get_option("--route"))
      ->group(fio_names);
}

// Adds the options that have the same value in all cells of a sweep.
void add_common(CLI::App& app, cell& config) {
  add_choice<pattern>(
      app, "--pattern", config.order, {{"seq", pattern::sequential}, {"rand", pattern::random}},
      "seq: read in order. rand: read each block once in random order. Default: seq");
  add_choice<method>(
      app, "--engine", config.with,
      {{"ring", method::ring}, {"threads", method::threads}, {"mmap", method::mmap}},
      "ring: io_uring. threads: pread. mmap: copy from a mapping of the file.\nDefault: ring");
  add_choice<route>(app, "--route", config.by,
                    {{"direct", route::direct}, {"buffered", route::buffered}},
                    "direct: bypass the page cache (O_DIRECT). buffered: use it. Default: direct");
  add_choice<destination>(
      app, "--into", config.into,
      {{"slots", destination::slots},
       {"fresh", destination::fresh},
       {"populated", destination::populated}},
      "slots: a few reused buffers, as fio does.\n"
      "fresh: memory of the target's size, allocated during the measurement.\n"
      "populated: the same, but populated before the measurement. Default: slots");
  add_choice<cache_state>(
      app, "--state", config.state,
      {{"cold", cache_state::cold}, {"warm", cache_state::warm}, {"as-is", cache_state::as_is}},
      "State of the page cache before each run. cold, warm: set up, then verified\n"
      "with cachestat. A cold block device may have up to 1 % in the page cache.\n"
      "as-is: neither set up nor verified. Default: cold");
  add_number(app, "--rings", config.rings, most, "Number of rings in each thread. Default: 1");
  add_number(app, "--threads,--numjobs", config.threads, most,
             "Number of threads with rings. Default: 1");
  app.add_flag("--registered-buffers", config.registered_buffers,
               "Register the memory with the ring");
  app.add_flag("--registered-files", config.registered_files, "Register the files with the ring");
  app.add_flag("--sqpoll", config.sqpoll,
               "Let a kernel thread submit the reads, without system calls");
  app.add_flag("--iopoll", config.iopoll, "Poll the drive for completions; needs polled queues");
  add_size(app, "--bytes", config.bytes_max, "End after this many bytes. Default: no limit");
  add_number(app, "--seed", config.seed, std::numeric_limits<std::uint64_t>::max(),
             "Seed of the random order. Default: 0");
}

void add_target(CLI::App& app, std::string& path, const char* more_about) {
  app.add_option("TARGET", path, "What to read: see below")->required()->type_name("");
  app.footer(std::string(about_targets) + "\n" + more_about);
}

struct run_extras {
  std::uint64_t bytes_in_flight = 0;
};

void add_run(CLI::App& root, run_request& request, run_extras& extras) {
  CLI::App& run = *root.add_subcommand("run", "Measure one way of reading");
  add_target(run, request.path, tool::about_sizes);
  add_size(run, "--block,--bs", request.config.block_bytes, "Bytes of one read. Default: 2M");
  auto* depth = add_number(run, "--depth,--iodepth", request.config.depth, most,
                           "The queue depth of each ring, or the number of threads. Default: 8");
  add_size(run, "--bytes-in-flight", extras.bytes_in_flight,
           "Set --depth so that all rings together read this many bytes at once")
      ->excludes(depth);
  add_choice(run, "--pages", request.config.pages, page_kinds,
             "Page size of the memory. 4k: small. thp: transparent huge. hugetlb: reserved\n"
             "huge. Default: thp");
  add_common(run, request.config);
  add_fio_names(run, request.config);
  add_seconds(run, "--seconds,--runtime", request.config.seconds,
              "Maximum time of a run. Default: 5");
  add_runs(run, request.runs, "Number of runs. The median is reported. Default: 1");
  run.add_flag("--with-fio", request.with_fio,
               std::string("Measure the same with fio, alternating, and report the ratio.") +
                   about_fio_jobs);
  run.add_flag("--json", request.json, "Print one JSON object");
}

void add_sweep(CLI::App& root, sweep_request& request) {
  CLI::App& sweep =
      *root.add_subcommand("sweep", "Measure block x bytes in flight x page kind, in random order");
  add_target(sweep, request.path, tool::about_sizes);
  request.blocks = {512U << 10, 1U << 20, 2U << 20, 4U << 20, 8U << 20};
  request.bytes_in_flight = {2U << 20, 4U << 20, 8U << 20, 16U << 20, 32U << 20, 64U << 20};
  request.base.seconds = 0.5;
  add_sizes(sweep, "--blocks", request.blocks, "Bytes of one read. Default: 512K,1M,2M,4M,8M");
  add_sizes(sweep, "--bytes-in-flight", request.bytes_in_flight,
            "Bytes that are read at once, at least one block.\nDefault: 2M,4M,8M,16M,32M,64M");
  add_list(
      sweep, "--pages", request.pages,
      [](const std::string& text) { return tool::chosen("--pages", text, page_kinds); }, "KIND,...",
      "Page sizes of the memory. Default: 4k,thp, and hugetlb if enough are free");
  add_common(sweep, request.base);
  add_seconds(sweep, "--seconds", request.base.seconds, "The time of each run. Default: 0.5");
  add_runs(sweep, request.runs, "Number of runs of each cell. Default: 5");
  sweep.add_flag(
      "--with-fio", request.with_fio,
      std::string("Measure each cell also with fio, alternating, and report the ratio.") +
          about_fio_jobs);
  sweep.add_flag("--json", request.json, "Print one JSON object");
  sweep
      .add_option("--html", request.html,
                  "Write an HTML page of heat maps and curves. An existing file is replaced")
      ->type_name("FILE");
}

void add_stages(CLI::App& root, stages_request& request) {
  CLI::App& stages = *root.add_subcommand(
      "stages", "Find the bottleneck: drive, device copies, both, and the loader, in turn");
  stages.add_option("SOURCE", request.source, "A checkpoint: see below")->required()->type_name("");
  stages.footer(std::string(about_sources) + "\n" + tool::about_sizes);
  tool::add_device(stages, request.device);
  tool::add_loader_options(stages, request.options);
  add_runs(stages, request.runs, "Number of runs of each stage. Default: 7");
  stages.add_flag("--with-fio", request.with_fio,
                  "Measure the drive alone also with fio, and report the ratios");
  stages.add_flag("--json", request.json, "Print one JSON object");
}

void add_probe(CLI::App& root, probe_request& request) {
  CLI::App& probe =
      *root.add_subcommand("probe", "Probe what this machine supports, and how to enable the rest");
  probe.add_option("PATH", request.path, "A path on the drive to probe: see below. Default: .")
      ->type_name("");
  probe.footer(about_places);
  probe.add_flag("--json", request.json, "Print one JSON object");
}

void add_tune(CLI::App& root, tune_request& request) {
  CLI::App& tune = *root.add_subcommand(
      "tune", "Find good limits in under a minute, and their gain over the defaults");
  add_target(tune, request.path, about_checkpoint_targets);
  add_seconds(tune, "--seconds", request.seconds,
              "Maximum time of all measurements, at least 1. Default: 50", tune_seconds_min);
  tune.add_flag("--json", request.json, "Print one JSON object");
}

std::uint32_t connections_of(const std::string& text) {
  const auto number = tool::parse_number(text);
  if (!number || *number < 1 || *number > 1024) {
    tool::refuse("--connections", text, "is invalid, expected 1 to 1,024");
  }
  return static_cast<std::uint32_t>(*number);
}

std::uint64_t chunk_of(const std::string& text) {
  const auto size = tool::parse_size(text);
  if (!size || *size < 64 << 10 || *size > 1 << 30) {
    tool::refuse("--chunks", text, "is invalid, expected a size from 64K to 1G");
  }
  return *size;
}

void add_net(CLI::App& root, net_request& request) {
  CLI::App& net = *root.add_subcommand(
      "net",
      "Find the best number of connections, the best range size and the bottleneck of a server");
  net.add_option("TARGET", request.target, "What to read: see below")->required()->type_name("");
  net.footer(about_network_targets);
  request.connections = {1, 2, 4, 8, 16, 32};
  request.chunks = {1U << 20, 4U << 20};
  add_list(net, "--connections", request.connections, connections_of, "N,...",
           "Numbers of connections to measure. Default: 1,2,4,8,16,32");
  add_list(net, "--chunks", request.chunks, chunk_of, "SIZE,...",
           "Sizes of one range to measure. Default: 1M,4M");
  add_seconds(net, "--seconds", request.seconds, "The time of each run. Default: 1");
  add_runs(net, request.runs, "Number of runs of each cell. Default: 3");
  net.add_option("--endpoint", request.remote.endpoint,
                 "Address of the hub, or of the store for s3:// addresses")
      ->type_name("URL");
  net.add_option("--ca-file", request.remote.ca_file,
                 "File of certificates (PEM) to trust in addition to those of the system")
      ->type_name("FILE");
  net.add_option("--proxy", request.remote.proxy, "The proxy for HTTP and HTTPS. Default: none")
      ->type_name("http://HOST:PORT");
  net.add_flag("--anonymous", request.remote.anonymous,
               "Send no token and no key, even if they are configured");
  net.add_flag("--json", request.json, "Print one JSON object");
}

void set_depth(run_request& request, const run_extras& extras) {
  if (extras.bytes_in_flight == 0) return;
  cell& config = request.config;
  const std::uint64_t each =
      config.block_bytes * (config.with == method::ring ? config.rings * config.threads : 1);
  if (each == 0) return;  // check() reports the error.
  const std::uint64_t depth = std::max<std::uint64_t>(1, extras.bytes_in_flight / each);
  config.depth = static_cast<std::uint32_t>(std::min<std::uint64_t>(depth, most));
}

// The definitions of the command line, and the requests that the parser fills.
struct command_line {
  CLI::App root{about, "uring-bench"};
  run_request run;
  run_extras extras;
  sweep_request sweep;
  stages_request stages;
  probe_request probe;
  tune_request tune;
  net_request net;

  command_line() {
    root.get_formatter()->column_width(28);
    root.set_version_flag("--version", "uring-bench " RINGLOAD_VERSION,
                          "Print the version and exit");
    root.set_help_flag("-h,--help", "Print this help and exit");
    root.require_subcommand(1);
    add_run(root, run, extras);
    add_sweep(root, sweep);
    add_stages(root, stages);
    add_probe(root, probe);
    add_net(root, net);
    add_tune(root, tune);
  }
  command_line(const command_line&) = delete;  // The definitions refer to the requests.

  any_request chosen() {
    const std::string name = root.get_subcommands().front()->get_name();
    if (name == "run") {
      set_depth(run, extras);
      check(run.config);
      return run;
    }
    if (name == "sweep") return sweep;
    if (name == "stages") return stages;
    if (name == "probe") return probe;
    if (name == "tune") return tune;
    if (cells_of(net).empty()) throw tool::usage_error("an empty list leaves nothing to measure");
    return net;
  }
};

}  // namespace

any_request parse_command_line(int argc, const char* const* argv) {
  command_line line;
  try {
    line.root.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return text_request{line.root.help()};
  } catch (const CLI::CallForVersion& version) {
    return text_request{std::string(version.what()) + "\n"};
  } catch (const CLI::ParseError& problem) {
    std::string command = "uring-bench";
    for (const CLI::App* parsed : line.root.get_subcommands()) command += " " + parsed->get_name();
    throw tool::usage_error(std::string(problem.what()) + " (see '" + command + " --help')");
  }
  return line.chosen();
}

void describe_command_line(const std::function<void(const CLI::App&)>& visit) {
  visit(command_line().root);
}

}  // namespace ringload::bench
