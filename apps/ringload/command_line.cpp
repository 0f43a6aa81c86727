// SPDX-License-Identifier: Apache-2.0
#include "command_line.hpp"

#include <CLI/CLI.hpp>
#include <limits>

#include "device.hpp"
#include "options.hpp"
#include "run_program.hpp"

namespace ringload::tool {

namespace {

constexpr const char* about =
    "Loads tensor checkpoints (safetensors) from disk into memory, through io_uring.";

constexpr const char* about_sources =
    "SOURCE is a .safetensors file; a folder that holds a checkpoint; a shard index\n"
    "(model.safetensors.index.json); or owner/model[@revision] in the local Hugging Face cache.\n";

constexpr const char* about_exit =
    "Exit code: 0; 1 with one line on standard error; 2 when the command line is wrong; 128 and\n"
    "the signal's number (130 after Ctrl-C) when interrupted. A second Ctrl-C does not wait.";

void add_source(CLI::App& to, std::string& source, profile& strictness) {
  to.add_option("SOURCE", source, "The checkpoint, see below")->required()->type_name("");
  to.footer(about_sources);
  add_choice<profile>(to, "--profile", strictness,
                      {{"strict", profile::strict}, {"reference", profile::reference}},
                      "strict: refuse what the format's text forbids.\n"
                      "reference: accept just what the safetensors crate accepts.\n"
                      "Default: strict");
}

void add_engine_options(CLI::App& to, limits& within, load_options& how) {
  add_choice<read_engine>(to, "--engine", within.engine,
                          {{"auto", read_engine::automatic},
                           {"ring", read_engine::ring},
                           {"threads", read_engine::threads}},
                          "What reads: ring is io_uring, threads a pool that calls preadv.\n"
                          "auto: io_uring if this machine lets us. The others are orders: what\n"
                          "cannot be had is an error. Default: auto");
  add_choice<read_route>(to, "--route", how.route,
                         {{"auto", read_route::automatic},
                          {"direct", read_route::direct},
                          {"buffered", read_route::buffered}},
                         "direct: past the page cache (O_DIRECT). buffered: through it.\n"
                         "auto: buffered for what it already has, else direct. The others are\n"
                         "orders. Default: auto");
}

void add_limits(CLI::App& to, limits& within) {
  constexpr std::uint64_t most = std::numeric_limits<std::uint32_t>::max();
  add_number(to, "--slots", within.slots, most,
             "Pinned buffers, each with one read at a time: 1 to 1024. Default: 16");
  add_size(to, "--slot-bytes", within.slot_bytes,
           "Size of each, a power of two from 64K to 64M. Default: 4M");
  add_size(to, "--bytes-in-flight", within.bytes_in_flight,
           "Bytes that the drive works on at once. Default: 0, found while\nit works");
  add_number(to, "--copy-threads", within.copy_threads, most,
             "Threads that copy out of the page cache: 1 to 64. Default: 3");
  add_number(to, "--reader-threads", within.reader_threads, most,
             "Threads that read where there is no io_uring: 1 to 64. Default: 8");
}

void add_load_options(CLI::App& to, load_request& request) {
  add_source(to, request.source, request.how.strictness);
  const auto take_device = [&request](const std::string& text) {
    if (!is_device_name(text)) refuse("--device", text, "is none of host, auto, cuda, cuda:N");
    request.device = text;
  };
  to.add_option_function<std::string>("--device", take_device,
                                      "Where the tensors go: host, or cuda:N where this build has\n"
                                      "CUDA. auto: what is there. Default: host")
      ->type_name("DEVICE");
  add_choice<dtype>(to, "--dtype", request.how.dtype,
                    {{"f32", dtype::f32}, {"f16", dtype::f16}, {"bf16", dtype::bf16}},
                    "Convert tensors of F32, F16, BF16, F8_E4M3 and F8_E5M2 to this as they\n"
                    "land. Default: leave them as they are");
  add_engine_options(to, request.within, request.how);
  add_limits(to, request.within);
  to.add_flag("--json", request.json, "Print one JSON object");
  to.add_flag_callback(
      "--no-progress", [&request] { request.progress = false; },
      "Draw no progress bar. There is none anyway where standard error is no\n"
      "terminal");
  to.footer(std::string(about_sources) + "\n" + about_sizes);
}

CLI::App& add_ls(CLI::App& root, ls_request& request) {
  CLI::App& ls = *root.add_subcommand("ls", "List the tensors of a checkpoint, reading none");
  add_source(ls, request.source, request.strictness);
  ls.add_flag("--json", request.json,
              "Print one JSON object, offsets counted from the file's start");
  return ls;
}

CLI::App& add_make(CLI::App& root, make_request& request) {
  CLI::App& make = *root.add_subcommand("make", "Write a checkpoint of pseudo-random bytes");
  make.add_option(
          "PATH", request.path,
          "The file to write, if it ends in .safetensors and --shards is 1; else the folder.\n"
          "It appears when it is complete, and not before")
      ->required()
      ->type_name("");
  add_size(make, "--bytes", request.bytes, "Bytes of all tensors together");
  make.get_option("--bytes")->required();

  auto* tensors =
      add_number(make, "--tensors", request.tensors, 10'000'000,
                 "How many, of many types and sizes. Default: one for each 64 MiB, but\n"
                 "at least 16");
  add_choice<tensor_shapes>(make, "--shape", request.shapes, {{"llama", tensor_shapes::llama}},
                            "The names and shapes of a Llama, in BF16, as large as --bytes allows")
      ->excludes(tensors);
  add_number(make, "--shards", request.shards, 99'999, "Files to spread them over. Default: 1");
  add_choice<tensor_order>(make, "--order", request.order,
                           {{"dtype", tensor_order::dtype}, {"name", tensor_order::name}},
                           "dtype: wide types first, so that each is aligned, as most writers do.\n"
                           "name: by name alone, so that many are not. Default: dtype");
  add_number(make, "--seed", request.seed, std::numeric_limits<std::uint64_t>::max(),
             "Other bytes for each seed, the same bytes for the same. Default: 0");
  make.add_flag("--force", request.force,
                "Replace what is at PATH: a file, or a folder with nothing in it but a\n"
                "checkpoint");
  make.add_flag_callback(
      "--no-progress", [&request] { request.progress = false; }, "Draw no progress bar");
  make.footer(about_sizes);
  return make;
}

}  // namespace

any_request parse_command_line(int argc, const char* const* argv) {
  CLI::App root(about, "ringload");
  root.get_formatter()->column_width(26);
  root.set_version_flag("--version", "ringload " RINGLOAD_VERSION, "Print the version and exit");
  root.set_help_flag("-h,--help", "Print this help and exit");
  root.require_subcommand(1);
  root.footer(std::string(about_sources) + "\n" + about_sizes + "\n" + about_exit);

  ls_request ls;
  load_request load;
  sum_request sum;
  verify_request verify;
  make_request make;
  const CLI::App& ls_command = add_ls(root, ls);
  CLI::App& load_command = *root.add_subcommand("load", "Load a checkpoint, and say how it went");
  add_load_options(load_command, load);
  load_command
      .add_option("--verify", load.verify,
                  "Check each tensor against this manifest, as 'sum --manifest' writes it.\n"
                  "The load fails at the first that differs")
      ->type_name("FILE");
  CLI::App& sum_command = *root.add_subcommand(
      "sum", "Load a checkpoint, and print the digest of each tensor, sorted by name");
  add_load_options(sum_command, sum.load);
  add_choice<digest_algorithm>(
      sum_command, "--algorithm", sum.algorithm,
      {{"sha256", digest_algorithm::sha256}, {"crc32c", digest_algorithm::crc32c}},
      "crc32c costs less, and finds accidents only. Default: sha256");
  sum_command
      .add_option("--manifest", sum.manifest,
                  "Write the digests there and not to standard output, for 'load --verify' and\n"
                  "'verify'. What is there is replaced, when all is well")
      ->type_name("FILE");
  CLI::App& verify_command = *root.add_subcommand(
      "verify", "Say of each tensor, or file of a Hugging Face cache, whether its bytes are right");
  add_load_options(verify_command, verify.load);
  verify_command
      .add_option("--manifest", verify.manifest,
                  "Check tensors against this. Without it whole files are checked, against the\n"
                  "names of their blobs; only files of a Hugging Face cache have such")
      ->type_name("FILE");
  add_make(root, make);

  try {
    root.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return text_request{root.help()};
  } catch (const CLI::CallForVersion& version) {
    return text_request{std::string(version.what()) + "\n"};
  } catch (const CLI::ParseError& problem) {
    std::string command = "ringload";
    for (const CLI::App* chosen : root.get_subcommands()) command += " " + chosen->get_name();
    throw usage_error(std::string(problem.what()) + " (see '" + command + " --help')");
  }

  if (ls_command.parsed()) return ls;
  if (load_command.parsed()) return load;
  if (sum_command.parsed()) return sum;
  if (verify_command.parsed()) return verify;
  return make;
}

}  // namespace ringload::tool
