// SPDX-License-Identifier: Apache-2.0
#include "command_line.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>
#include <sstream>

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
    "If it is a checkpoint, and time is left, loads of it must confirm the drive's gain.\n";

constexpr const char* about_sources =
    "SOURCE is a .safetensors file; a folder that holds a checkpoint; a shard index\n"
    "(model.safetensors.index.json); or owner/model[@revision] in the local Hugging Face cache.\n";

constexpr const char* about_network_targets =
    "TARGET is https://host/file, hf://owner/model, of which the first file of tensors is read, "
    "or\n"
    "s3://bucket/key. The local cache is not looked at. All that is read is dropped: it costs "
    "what\n"
    "the server's owner charges for it.\n";

constexpr const char* about_places =
    "PATH is a file or a block device, which is only read, or a folder. In a folder the probe\n"
    "reads a temporary file of 8 MiB without a name, which disappears when the probe ends.\n";

constexpr std::uint64_t most = std::numeric_limits<std::uint32_t>::max();

const choices<page_kind> page_kinds = {
    {"4k", page_kind::small}, {"thp", page_kind::transparent}, {"hugetlb", page_kind::hugetlb}};

void add_seconds(CLI::App& to, const std::string& option, double& target, const std::string& help) {
  to.add_option(option, target, help)->type_name("S")->check(CLI::Range(0.001, 86'400.0));
}

void add_runs(CLI::App& to, std::uint32_t& runs, const std::string& help) {
  to.add_option("--runs", runs, help)->type_name("N")->check(CLI::Range(1, 100'000));
}

// "1M,2M,4M": any list of what `take` makes of one.
template <class Item, class Take>
void add_list(CLI::App& to, const std::string& option, std::vector<Item>& target, Take take,
              const std::string& type, const std::string& help) {
  const auto split = [&target, take](const std::string& text) {
    target.clear();
    std::istringstream items(text);
    for (std::string item; std::getline(items, item, ',');) target.push_back(take(item));
  };
  to.add_option_function<std::string>(option, split, help)->type_name(type);
}

void add_sizes(CLI::App& to, const std::string& option, std::vector<std::uint64_t>& target,
               const std::string& help) {
  const auto take = [option](const std::string& text) {
    const auto size = tool::parse_size(text);
    if (!size || *size == 0) tool::refuse(option, text, "is not a size, as 512K or 2M are");
    return *size;
  };
  add_list(to, option, target, take, "SIZE,...", help);
}

// What a cell has that a sweep does not vary.
void add_common(CLI::App& to, cell& what) {
  add_choice<pattern>(to, "--pattern", what.order,
                      {{"seq", pattern::sequential}, {"rand", pattern::random}},
                      "In order, or each block once in random order. Default: seq");
  add_choice<method>(
      to, "--engine", what.with,
      {{"ring", method::ring}, {"threads", method::threads}, {"mmap", method::mmap}},
      "ring: io_uring. threads: pread. mmap: copies out of a mapping.\nDefault: ring");
  add_choice<route>(to, "--route", what.by,
                    {{"direct", route::direct}, {"buffered", route::buffered}},
                    "Past the page cache (O_DIRECT), or through it. Default: direct");
  add_choice<destination>(to, "--into", what.into,
                          {{"slots", destination::slots},
                           {"fresh", destination::fresh},
                           {"populated", destination::populated}},
                          "slots: a few reused buffers, as fio does.\n"
                          "fresh: memory of the target's size, allocated while the clock runs.\n"
                          "populated: the same, populated before it starts. Default: slots");
  add_choice<cache_state>(
      to, "--state", what.state,
      {{"cold", cache_state::cold}, {"warm", cache_state::warm}, {"as-is", cache_state::as_is}},
      "The state of the page cache before each run: set up, then verified with\n"
      "cachestat. as-is: left alone and not verified. Default: cold");
  add_number(to, "--rings", what.rings, most, "Rings in each thread. Default: 1");
  add_number(to, "--threads", what.threads, most, "Threads that have rings. Default: 1");
  to.add_flag("--registered-buffers", what.registered_buffers, "Register the memory with the ring");
  to.add_flag("--registered-files", what.registered_files, "Register the files with the ring");
  to.add_flag("--sqpoll", what.sqpoll, "A kernel thread submits the reads, without system calls");
  to.add_flag("--iopoll", what.iopoll, "Poll the drive for completions; needs polled queues");
  add_size(to, "--bytes", what.bytes_max, "End after this many bytes. Default: no limit");
  add_number(to, "--seed", what.seed, std::numeric_limits<std::uint64_t>::max(),
             "The seed of the random order. Default: 0");
}

void add_target(CLI::App& to, std::string& path, const char* more_about) {
  to.add_option("TARGET", path, "What to read, see below")->required()->type_name("");
  to.footer(std::string(about_targets) + "\n" + more_about);
}

struct run_extras {
  std::uint64_t bytes_in_flight = 0;
};

CLI::App& add_run(CLI::App& root, run_request& request, run_extras& extras) {
  CLI::App& run = *root.add_subcommand("run", "Measure one way of reading");
  add_target(run, request.path, tool::about_sizes);
  add_size(run, "--block", request.what.block_bytes, "Bytes of one read. Default: 2M");
  auto* depth = add_number(run, "--depth", request.what.depth, most,
                           "The queue depth of each ring, or the number of threads. Default: 8");
  add_size(run, "--bytes-in-flight", extras.bytes_in_flight,
           "Sets --depth to this many bytes in all rings together")
      ->excludes(depth);
  add_choice(run, "--pages", request.what.pages, page_kinds,
             "The pages of the memory: small, transparent huge, or reserved huge ones.\n"
             "Default: thp");
  add_common(run, request.what);
  add_seconds(run, "--seconds", request.what.seconds, "The longest time of a run. Default: 5");
  add_runs(run, request.runs, "Runs, of which the median is reported. Default: 1");
  run.add_flag("--with-fio", request.with_fio,
               "Measure the same with fio, in turn, and report the ratio");
  run.add_flag("--json", request.json, "Print one JSON object");
  return run;
}

CLI::App& add_sweep(CLI::App& root, sweep_request& request) {
  CLI::App& sweep =
      *root.add_subcommand("sweep", "Measure block x bytes in flight x page kind, in random order");
  add_target(sweep, request.path, tool::about_sizes);
  request.blocks = {512U << 10, 1U << 20, 2U << 20, 4U << 20, 8U << 20};
  request.bytes_in_flight = {2U << 20, 4U << 20, 8U << 20, 16U << 20, 32U << 20, 64U << 20};
  request.base.seconds = 0.5;
  add_sizes(sweep, "--blocks", request.blocks, "Default: 512K,1M,2M,4M,8M");
  add_sizes(sweep, "--bytes-in-flight", request.bytes_in_flight,
            "Default: 2M,4M,8M,16M,32M,64M. Less than a block is one block");
  add_list(
      sweep, "--pages", request.pages,
      [](const std::string& text) { return tool::chosen("--pages", text, page_kinds); }, "KIND,...",
      "Default: 4k,thp, and hugetlb where there are enough such pages");
  add_common(sweep, request.base);
  add_seconds(sweep, "--seconds", request.base.seconds, "The time of each run. Default: 0.5");
  add_runs(sweep, request.runs, "Runs of each cell. Default: 5");
  sweep.add_flag("--with-fio", request.with_fio,
                 "Measure each cell with fio too, in turn, and report the ratio");
  sweep.add_flag("--json", request.json, "Print one JSON object");
  sweep
      .add_option("--html", request.html,
                  "Write an HTML page of heat maps and curves, replacing the file")
      ->type_name("FILE");
  return sweep;
}

CLI::App& add_stages(CLI::App& root, stages_request& request) {
  CLI::App& stages = *root.add_subcommand(
      "stages", "Find the bottleneck: drive, device copies, both, and the loader, in turn");
  stages.add_option("SOURCE", request.source, "A checkpoint, see below")->required()->type_name("");
  stages.footer(std::string(about_sources) + "\n" + tool::about_sizes);
  tool::add_device(stages, request.device);
  tool::add_loader_options(stages, request.within);
  add_runs(stages, request.runs, "Runs of each. Default: 7");
  stages.add_flag("--with-fio", request.with_fio,
                  "Measure the drive alone with fio too, and report the ratios");
  stages.add_flag("--json", request.json, "Print one JSON object");
  return stages;
}

CLI::App& add_probe(CLI::App& root, probe_request& request) {
  CLI::App& probe =
      *root.add_subcommand("probe", "Probe what this machine supports, and how to enable the rest");
  probe.add_option("PATH", request.path, "A path on the drive to probe, see below. Default: .")
      ->type_name("");
  probe.footer(about_places);
  probe.add_flag("--json", request.json, "Print one JSON object");
  return probe;
}

CLI::App& add_tune(CLI::App& root, tune_request& request) {
  CLI::App& tune = *root.add_subcommand(
      "tune", "Find good limits in under a minute, and their gain over the defaults");
  add_target(tune, request.path, about_checkpoint_targets);
  add_seconds(tune, "--seconds", request.seconds, "The longest time in all. Default: 50");
  tune.add_flag("--json", request.json, "Print one JSON object");
  return tune;
}

std::uint32_t connections_of(const std::string& text) {
  const auto number = tool::parse_number(text);
  if (!number || *number < 1 || *number > 1024) {
    tool::refuse("--connections", text, "is not a number from 1 to 1,024");
  }
  return static_cast<std::uint32_t>(*number);
}

std::uint64_t chunk_of(const std::string& text) {
  const auto size = tool::parse_size(text);
  if (!size || *size < 64 << 10 || *size > 1 << 30) {
    tool::refuse("--chunks", text, "is not a size from 64K to 1G");
  }
  return *size;
}

CLI::App& add_net(CLI::App& root, net_request& request) {
  CLI::App& net = *root.add_subcommand(
      "net", "Find how many connections and which ranges a server is best read with, and the wall");
  net.add_option("TARGET", request.target, "What to read, see below")->required()->type_name("");
  net.footer(about_network_targets);
  request.connections = {1, 2, 4, 8, 16, 32};
  request.chunks = {1U << 20, 4U << 20};
  add_list(net, "--connections", request.connections, connections_of, "N,...",
           "Default: 1,2,4,8,16,32");
  add_list(net, "--chunks", request.chunks, chunk_of, "SIZE,...",
           "The length of one range. Default: 1M,4M");
  add_seconds(net, "--seconds", request.seconds, "The time of each run. Default: 1");
  add_runs(net, request.runs, "Runs of each cell. Default: 3");
  net.add_option("--endpoint", request.from.endpoint,
                 "Where the hub is, or the store of s3:// addresses")
      ->type_name("URL");
  net.add_option("--ca-file", request.from.ca_file,
                 "Certificates (PEM) that are trusted beside those of the system")
      ->type_name("FILE");
  net.add_option("--proxy", request.from.proxy, "The proxy for HTTP and HTTPS. Default: none")
      ->type_name("http://HOST:PORT");
  net.add_flag("--anonymous", request.from.anonymous, "Send no token and no key");
  net.add_flag("--json", request.json, "Print one JSON object");
  return net;
}

void set_depth(run_request& request, const run_extras& extras) {
  if (extras.bytes_in_flight == 0) return;
  cell& what = request.what;
  const std::uint64_t each =
      what.block_bytes * (what.with == method::ring ? what.rings * what.threads : 1);
  if (each == 0) return;  // check() says why.
  const std::uint64_t depth = std::max<std::uint64_t>(1, extras.bytes_in_flight / each);
  what.depth = static_cast<std::uint32_t>(std::min<std::uint64_t>(depth, most));
}

}  // namespace

any_request parse_command_line(int argc, const char* const* argv) {
  CLI::App root(about, "uring-bench");
  root.get_formatter()->column_width(28);
  root.set_version_flag("--version", "uring-bench " RINGLOAD_VERSION, "Print the version and exit");
  root.set_help_flag("-h,--help", "Print this help and exit");
  root.require_subcommand(1);

  run_request run;
  run_extras extras;
  sweep_request sweep;
  stages_request stages;
  probe_request probe;
  tune_request tune;
  net_request net;
  const CLI::App& run_command = add_run(root, run, extras);
  const CLI::App& sweep_command = add_sweep(root, sweep);
  const CLI::App& stages_command = add_stages(root, stages);
  const CLI::App& probe_command = add_probe(root, probe);
  const CLI::App& net_command = add_net(root, net);
  add_tune(root, tune);

  try {
    root.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return text_request{root.help()};
  } catch (const CLI::CallForVersion& version) {
    return text_request{std::string(version.what()) + "\n"};
  } catch (const CLI::ParseError& problem) {
    std::string command = "uring-bench";
    for (const CLI::App* chosen : root.get_subcommands()) command += " " + chosen->get_name();
    throw tool::usage_error(std::string(problem.what()) + " (see '" + command + " --help')");
  }

  if (run_command.parsed()) {
    set_depth(run, extras);
    check(run.what);
    return run;
  }
  if (sweep_command.parsed()) return sweep;
  if (stages_command.parsed()) return stages;
  if (probe_command.parsed()) return probe;
  if (net_command.parsed()) {
    if (cells_of(net).empty()) throw tool::usage_error("an empty list leaves nothing to measure");
    return net;
  }
  return tune;
}

}  // namespace ringload::bench
