// SPDX-License-Identifier: Apache-2.0
#include "command_line.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>
#include <stdexcept>

#include "keep_options.hpp"
#include "loader_options.hpp"
#include "options.hpp"
#include "remote_options.hpp"
#include "run_program.hpp"
#include "selection_options.hpp"
#include "writing_options.hpp"

namespace ringload::tool {

namespace {

constexpr const char* about = "Loads tensor checkpoints from disk into memory, through io_uring.";

constexpr const char* about_sources =
    "SOURCE is a file of tensors (safetensors, GGUF, NumPy's .npy and .npz, PyTorch's .pt, .pth "
    "and\n"
    ".bin, ONNX, zTensor's .zt, HDF5), recognised by its content; or several such files; or a\n"
    "folder with a checkpoint, also of torch.distributed.checkpoint; or a shard index\n"
    "(model.safetensors.index.json); or a model of the local Hugging Face cache or of the hub:\n"
    "owner/model[@revision], hf://owner/model[@revision][/FILE] or\n"
    "https://huggingface.co/owner/model; or https://host/file, s3://bucket/key,\n"
    "s3://bucket/prefix, gs://bucket/key or az://account/container/file.\n";

constexpr const char* about_globs =
    "In a GLOB, * matches any text, dots included, ? matches one byte, [a-c] matches one byte of\n"
    "a set, and [!a-c] matches one byte outside of the set.\n";

constexpr const char* about_exit =
    "Exit code: 0 on success; 1 on failure, with one line on standard error; 2 if the command "
    "line\n"
    "is wrong; 128 plus the signal's number (130 after Ctrl-C) if interrupted. A second Ctrl-C\n"
    "ends the program at once.";

// Adds an option for NumPy arrays of ml_dtypes, whose files do not state the dtype.
void add_nameless(CLI::App& to, unnamed_dtypes& nameless) {
  const auto take = [&nameless](const std::string& text) {
    const auto type = dtype_named(text);
    if (type && bits(*type) == 8) {
      nameless.one_byte = type;
    } else if (type && bits(*type) == 16) {
      nameless.two_bytes = type;
    } else {
      refuse("--nameless", text, "is invalid, expected a dtype of 8 or 16 bits, such as BF16");
    }
  };
  add_repeatable(to, "--nameless", "DTYPE", take,
                 "The dtype of NumPy arrays whose file does not name it, as ml_dtypes writes\n"
                 "them: BF16, F8_E4M3, ... May be given once for 8 and once for 16 bits");
}

void add_source(CLI::App& to, source_request& from) {
  to.add_option("SOURCE", from.sources, "The checkpoint, or several files: see below")
      ->required()
      ->type_name("");
  to.footer(std::string(about_sources) + "\n" + about_globs);
  to.add_flag("--independent-files", from.how.independent_files,
              "Load every checkpoint file of the folder SOURCE by itself, without regard\n"
              "to shard indices and numbered series");
  add_choice<strictness>(to, "--profile", from.how.strictness,
                         {{"strict", strictness::strict}, {"reference", strictness::reference}},
                         "strict: refuse files that violate the text of the format, or whose\n"
                         "names and metadata need more memory than 64 MiB and their own size.\n"
                         "reference: accept exactly the files that the safetensors crate accepts.\n"
                         "Default: strict");
  add_nameless(to, from.how.nameless);
  add_remote(to, from.remote);
}

// Adds options for reading the files of a load.
void add_reading(CLI::App& to, load_request& request) {
  add_engine(to, request.options.engine);
  add_choice<read_route>(to, "--route", request.how.route,
                         {{"auto", read_route::automatic},
                          {"direct", read_route::direct},
                          {"buffered", read_route::buffered}},
                         "direct: bypass the page cache (O_DIRECT). buffered: read through it.\n"
                         "auto: buffered for cached ranges, else direct. Default: auto");
  add_loader_options(to, request.options);
}

// Adds the options of a load, except --dtype.
void add_loading(CLI::App& to, load_request& request) {
  add_device(to, request.device);
  add_reading(to, request);
}

// Adds the output options of commands that read tensors.
void add_reporting(CLI::App& to, load_request& request) {
  to.add_flag("--json", request.json, "Print one JSON object");
  to.add_flag_callback(
      "--no-progress", [&request] { request.progress = false; },
      "Draw no progress bar. No bar is drawn either if standard error is not a\n"
      "terminal");
  to.footer(std::string(about_sources) + "\n" + about_globs + "\n" + about_sizes);
}

void check_source(const source_request& from) {
  if (from.how.independent_files && from.sources.size() > 1) {
    throw CLI::ValidationError("--independent-files", "takes one folder, not several sources");
  }
  try {
    check_complete(from.wanted, "--");
  } catch (const std::invalid_argument& wrong) {
    throw CLI::ValidationError(wrong.what());
  }
}

void add_ls(CLI::App& root, ls_request& request) {
  CLI::App& ls =
      *root.add_subcommand("ls", "List the tensors of a checkpoint without reading them");
  add_source(ls, request.from);
  add_globs(ls, request.from.wanted);
  add_ranges(ls, request.from.wanted);
  ls.add_flag("--json", request.json, "Print one JSON object, with offsets from the file's start");
  ls.callback([&request] { check_source(request.from); });
}

void add_load(CLI::App& root, load_request& request) {
  CLI::App& load = *root.add_subcommand("load", "Load a checkpoint and report statistics");
  add_source(load, request.from);
  add_globs(load, request.from.wanted);
  add_ranges(load, request.from.wanted);
  add_devices(load, request.device);
  add_places(load, request.from.wanted);
  add_reading(load, request);
  add_dtype(load, request.how.dtype);
  add_memory(load, request.how);
  add_window(load, request.window_bytes, "and release each tensor");
  load.add_option("--verify", request.verify,
                  "Check each tensor against this checksum list of 'sum --checksums'.\n"
                  "The load fails at the first tensor that differs")
      ->type_name("FILE");
  add_choice<embedded_digests>(
      load, "--digests", request.how.verify.stored,
      {{"none", embedded_digests::none},
       {"if-present", embedded_digests::if_present},
       {"require", embedded_digests::require}},
      "Check tensors against digests in the checkpoint's own files (.zt).\n"
      "if-present: check each tensor that has a digest. require: also fail if a\n"
      "tensor has none. Default: none");
  load.add_option("--trace", request.trace,
                  "Write the steps of the load to this file, in Chrome's trace event format,\n"
                  "for Perfetto. An existing file is replaced if the load succeeds")
      ->type_name("FILE");
  load.add_option("--allocation-log", request.allocation_log,
                  "Write each allocation and release of memory for tensors and slots to this\n"
                  "file, as CSV, during the load. An existing file is replaced")
      ->type_name("FILE");
  add_reporting(load, request);
  load.callback([&request] { check_source(request.from); });
}

// Refuses the options of loads, except --device, because --attach loads nothing.
void check_attached(const CLI::App& sum, const source_request& from) {
  if (from.sources.size() > 1) throw CLI::ValidationError("--attach", "takes one name");
  for (const CLI::Option* each : sum.get_options()) {
    const std::string name = each->get_name();
    const bool means_something = name == "SOURCE" || name == "--attach" || name == "--algorithm" ||
                                 name == "--no-progress" || name == "--device";
    if (each->count() > 0 && !means_something) {
      throw CLI::ValidationError(name, "cannot be used with --attach, because nothing is loaded");
    }
  }
}

void add_sum(CLI::App& root, sum_request& request) {
  CLI::App& sum = *root.add_subcommand(
      "sum", "Load a checkpoint and print the digest of each tensor, sorted by name");
  add_source(sum, request.load.from);
  add_globs(sum, request.load.from.wanted);
  add_ranges(sum, request.load.from.wanted);
  add_loading(sum, request.load);
  add_dtype(sum, request.load.how.dtype);
  add_memory(sum, request.load.how);
  add_window(sum, request.load.window_bytes, "and release each tensor once it is hashed");
  add_choice<digest_algorithm>(
      sum, "--algorithm", request.algorithm,
      {{"sha256", digest_algorithm::sha256}, {"crc32c", digest_algorithm::crc32c}},
      "crc32c is faster, but detects only accidental corruption. Default: sha256");
  sum.add_option("--checksums", request.checksums,
                 "Write the digests to this file instead of standard output, for\n"
                 "'load --verify' and 'verify'. An existing file is replaced on success")
      ->type_name("FILE");
  sum.add_option("--attach", request.attach,
                 "Attach a model of the keeper at this socket. SOURCE is the model's name")
      ->type_name("SOCKET");
  add_reporting(sum, request.load);
  sum.callback([&sum, &request] {
    check_source(request.load.from);
    if (!request.attach.empty()) check_attached(sum, request.load.from);
    if (request.checksums.empty()) return;
    if (request.load.how.dtype) {
      throw CLI::ValidationError(
          "--dtype",
          "cannot be used with --checksums, which lists digests of the unconverted bytes");
    }
    if (!request.load.from.wanted.everything()) {
      throw CLI::ValidationError(
          "--checksums",
          "cannot be used with a selection: a checksum list has all tensors of a checkpoint");
    }
  });
}

void add_verify(CLI::App& root, verify_request& request) {
  CLI::App& verify = *root.add_subcommand(
      "verify", "Check the digest of each tensor, or of each file of a Hugging Face cache");
  add_loading(verify, request.load);
  add_globs(verify, request.load.from.wanted);
  const CLI::Option* help = verify.get_help_ptr();
  const auto loading = verify.get_options([help](const CLI::Option* o) { return o != help; });
  add_source(verify, request.load.from);
  auto* list =
      verify
          .add_option("--checksums", request.checksums,
                      "Check tensors against this checksum list. Without it, check whole files of\n"
                      "a Hugging Face cache against the digests in the names of their blobs")
          ->type_name("FILE");
  // These options need a load. Without --checksums, there is no load, and the options would be
  // ignored silently.
  for (CLI::Option* option : loading) option->needs(list)->group("With --checksums");
  add_reporting(verify, request.load);
  verify.callback([&request] { check_source(request.load.from); });
}

void add_make(CLI::App& root, make_request& request) {
  CLI::App& make = *root.add_subcommand("make", "Write a checkpoint of pseudo-random bytes");
  make.add_option(
          "PATH", request.path,
          "The file to write if PATH ends in .safetensors and --shards is 1, else the folder\n"
          "to write. It appears under this name when it is complete")
      ->required()
      ->type_name("");
  add_size(make, "--bytes", request.bytes, "Total bytes of all tensors");
  make.get_option("--bytes")->required();

  auto* tensors =
      add_number(make, "--tensors", request.tensors, 10'000'000,
                 "Number of tensors. Their types and sizes vary. Default: one for each\n"
                 "64 MiB, but at least 16");
  add_choice<tensor_shapes>(
      make, "--shape", request.shapes, {{"llama", tensor_shapes::llama}},
      "Use the names and shapes of a Llama model in BF16, as large as --bytes allows")
      ->excludes(tensors);
  add_number(make, "--shards", request.shards, 99'999, "Number of files. Default: 1");
  add_choice<tensor_order>(
      make, "--order", request.order,
      {{"dtype", tensor_order::dtype}, {"name", tensor_order::name}},
      "dtype: wide types first, so that every tensor is aligned, as most writers do.\n"
      "name: by name only, so that many tensors are misaligned. Default: dtype");
  add_number(make, "--seed", request.seed, std::numeric_limits<std::uint64_t>::max(),
             "Seed of the pseudo-random bytes. Default: 0");
  make.add_flag("--force", request.force,
                "Replace an existing PATH: a file, or a folder that holds only a checkpoint");
  make.add_flag_callback(
      "--no-progress", [&request] { request.progress = false; }, "Draw no progress bar");
  make.footer(about_sizes);
}

void add_convert(CLI::App& root, convert_request& request) {
  CLI::App& convert = *root.add_subcommand(
      "convert", "Write a checkpoint of any format as safetensors or .zt, in bounded memory");
  add_source(convert, request.load.from);
  convert.get_option("SOURCE")->description(
      "The checkpoint or several files, followed by the file or folder to write");
  add_globs(convert, request.load.from.wanted);
  add_ranges(convert, request.load.from.wanted);
  add_engine(convert, request.load.options.engine);
  add_loader_options(convert, request.load.options);
  add_dtype(convert, request.load.how.dtype);
  add_convert_options(convert, request);
  add_progress(convert, request.load.progress);
  convert.footer(std::string(about_destination) + "\n" + about_sources + "\n" + about_globs + "\n" +
                 about_sizes);
  convert.callback([&request] {
    take_destination(request);
    check_source(request.load.from);
  });
}

// The definitions of the command line, and the requests that the parser fills.
struct command_line {
  CLI::App root{about, "ringload"};
  ls_request ls;
  load_request load;
  sum_request sum;
  verify_request verify;
  make_request make;
  convert_request convert;
  rewrite_request rewrite;
  delta_request delta;
  apply_request apply;
  keep_request keep;

  command_line() {
    root.get_formatter()->column_width(26);
    root.set_version_flag("--version", "ringload " RINGLOAD_VERSION, "Print the version and exit");
    root.set_help_flag("-h,--help", "Print this help and exit");
    root.require_subcommand(1);
    root.footer(std::string(about_sources) + "\n" + about_globs + "\n" + about_sizes + "\n" +
                about_exit);
    add_ls(root, ls);
    add_load(root, load);
    add_sum(root, sum);
    add_verify(root, verify);
    add_make(root, make);
    add_convert(root, convert);
    add_keep(root, keep, std::string(about_sources) + "\n" + about_sizes);
    add_delta(root, delta);
    add_apply(root, apply);
    add_rewriting(root, rewrite);
  }
  command_line(const command_line&) = delete;  // The definitions refer to the requests.

  any_request chosen() const {
    const std::string name = root.get_subcommands().front()->get_name();
    if (name == "ls") return ls;
    if (name == "load") return load;
    if (name == "sum") return sum;
    if (name == "verify") return verify;
    if (name == "make") return make;
    if (name == "convert") return convert;
    if (name == "delta") return delta;
    if (name == "apply") return apply;
    if (name == "keep") return keep;
    return rewrite;
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
    std::string command = "ringload";
    for (const CLI::App* parsed : line.root.get_subcommands()) command += " " + parsed->get_name();
    throw usage_error(std::string(problem.what()) + " (see '" + command + " --help')");
  }
  return line.chosen();
}

void describe_command_line(const std::function<void(const CLI::App&)>& visit) {
  visit(command_line().root);
}

}  // namespace ringload::tool
