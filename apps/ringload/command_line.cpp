// SPDX-License-Identifier: Apache-2.0
#include "command_line.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>
#include <stdexcept>

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
    ".bin, ONNX, zTensor's .zt, HDF5), told by its content; several such files; a folder that "
    "holds\n"
    "a checkpoint; a shard index (model.safetensors.index.json); or, in the local Hugging Face\n"
    "cache or else on the hub, owner/model[@revision], hf://owner/model[@revision][/FILE] or\n"
    "https://huggingface.co/owner/model; or https://host/file, s3://bucket/key, "
    "s3://bucket/prefix.\n";

constexpr const char* about_globs =
    "In a GLOB * stands for any text, also with dots in it, ? for one byte, [a-c] and [!a-c] for\n"
    "one byte of a set.\n";

constexpr const char* about_exit =
    "Exit code: 0; 1 with one line on standard error; 2 when the command line is wrong; 128 and\n"
    "the signal's number (130 after Ctrl-C) when interrupted. A second Ctrl-C does not wait.";

// NumPy's arrays of ml_dtypes, whose type the file does not name.
void add_nameless(CLI::App& to, unnamed_dtypes& nameless) {
  const auto take = [&nameless](const std::string& text) {
    const auto type = dtype_named(text);
    if (type && bits(*type) == 8) {
      nameless.one_byte = type;
    } else if (type && bits(*type) == 16) {
      nameless.two_bytes = type;
    } else {
      refuse("--nameless", text, "is no dtype of 8 or 16 bits");
    }
  };
  add_repeatable(to, "--nameless", "DTYPE", take,
                 "What NumPy arrays are whose type has no name in the file, as ml_dtypes\n"
                 "writes them: BF16, F8_E4M3, ... Once for 8 and once for 16 bits");
}

void add_source(CLI::App& to, source_request& from) {
  to.add_option("SOURCE", from.sources, "The checkpoint, or several files, see below")
      ->required()
      ->type_name("");
  to.footer(std::string(about_sources) + "\n" + about_globs);
  to.add_flag("--independent-files", from.how.independent_files,
              "SOURCE is a folder, and every checkpoint file in it is taken for itself:\n"
              "indices and series are ignored");
  add_choice<strictness>(to, "--profile", from.how.strictness,
                         {{"strict", strictness::strict}, {"reference", strictness::reference}},
                         "strict: also refuse what only the format's text forbids.\n"
                         "reference: accept exactly what the safetensors crate accepts.\n"
                         "Default: strict");
  add_nameless(to, from.how.nameless);
  add_remote(to, from.remote);
}

// How the files of a load are read.
void add_reading(CLI::App& to, load_request& request) {
  add_engine(to, request.within.engine);
  add_choice<read_route>(to, "--route", request.how.route,
                         {{"auto", read_route::automatic},
                          {"direct", read_route::direct},
                          {"buffered", read_route::buffered}},
                         "direct: past the page cache (O_DIRECT). buffered: through it.\n"
                         "auto: buffered for what it already has, else direct. Default: auto");
  add_loader_options(to, request.within);
}

// How a checkpoint is loaded, but for the type that its tensors become.
void add_loading(CLI::App& to, load_request& request) {
  add_device(to, request.device);
  add_reading(to, request);
}

// What a command that reads tensors prints, and where.
void add_reporting(CLI::App& to, load_request& request) {
  to.add_flag("--json", request.json, "Print one JSON object");
  to.add_flag_callback(
      "--no-progress", [&request] { request.progress = false; },
      "Draw no progress bar. There is none anyway if standard error is not a\n"
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

CLI::App& add_ls(CLI::App& root, ls_request& request) {
  CLI::App& ls =
      *root.add_subcommand("ls", "List the tensors of a checkpoint without reading them");
  add_source(ls, request.from);
  add_globs(ls, request.from.wanted);
  add_ranges(ls, request.from.wanted);
  ls.add_flag("--json", request.json, "Print one JSON object, with offsets from the file's start");
  ls.callback([&request] { check_source(request.from); });
  return ls;
}

CLI::App& add_load(CLI::App& root, load_request& request) {
  CLI::App& load = *root.add_subcommand("load", "Load a checkpoint and report statistics");
  add_source(load, request.from);
  add_globs(load, request.from.wanted);
  add_ranges(load, request.from.wanted);
  add_devices(load, request.device);
  add_places(load, request.from.wanted);
  add_reading(load, request);
  add_dtype(load, request.how.dtype);
  add_memory(load, request.how);
  add_window(load, request.how.window_bytes, "and drop each");
  load.add_option("--verify", request.verify,
                  "Check each tensor against this manifest, as 'sum --manifest' writes it.\n"
                  "The load fails at the first that differs")
      ->type_name("FILE");
  add_choice<embedded_digests>(
      load, "--digests", request.how.verify.stored,
      {{"none", embedded_digests::none},
       {"if-present", embedded_digests::if_present},
       {"require", embedded_digests::require}},
      "Check tensors against the digests that the file itself holds, as .zt may.\n"
      "if-present: those that have one. require: all must have one. Default: none");
  load.add_option("--trace", request.trace,
                  "Write the steps of the load to this file, in Chrome's trace event format,\n"
                  "which Perfetto shows. If the load succeeds it replaces an existing file")
      ->type_name("FILE");
  load.add_option("--allocation-log", request.allocation_log,
                  "Write each allocation and release of memory for tensors and slots to this\n"
                  "file, as CSV, while they happen. It replaces an existing file")
      ->type_name("FILE");
  add_reporting(load, request);
  load.callback([&request] { check_source(request.from); });
  return load;
}

// Nothing is loaded, so what is said of loads means nothing, but for the device to attach on.
void check_attached(const CLI::App& sum, const source_request& from) {
  if (from.sources.size() > 1) throw CLI::ValidationError("--attach", "takes one name");
  for (const CLI::Option* each : sum.get_options()) {
    const std::string name = each->get_name();
    const bool means_something = name == "SOURCE" || name == "--attach" || name == "--algorithm" ||
                                 name == "--no-progress" || name == "--device";
    if (each->count() > 0 && !means_something) {
      throw CLI::ValidationError(name, "not with --attach, where nothing is loaded");
    }
  }
}

CLI::App& add_sum(CLI::App& root, sum_request& request) {
  CLI::App& sum = *root.add_subcommand(
      "sum", "Load a checkpoint and print the digest of each tensor, sorted by name");
  add_source(sum, request.load.from);
  add_globs(sum, request.load.from.wanted);
  add_ranges(sum, request.load.from.wanted);
  add_loading(sum, request.load);
  add_dtype(sum, request.load.how.dtype);
  add_memory(sum, request.load.how);
  add_window(sum, request.load.how.window_bytes, "and drop each once it is hashed");
  add_choice<digest_algorithm>(
      sum, "--algorithm", request.algorithm,
      {{"sha256", digest_algorithm::sha256}, {"crc32c", digest_algorithm::crc32c}},
      "crc32c is faster, but detects only accidental corruption. Default: sha256");
  sum.add_option("--manifest", request.manifest,
                 "Write the digests to this file instead of standard output, for\n"
                 "'load --verify' and 'verify'. On success it replaces an existing file")
      ->type_name("FILE");
  sum.add_option("--attach", request.attach,
                 "SOURCE is the name of a model that a keeper has at this socket")
      ->type_name("SOCKET");
  add_reporting(sum, request.load);
  sum.callback([&sum, &request] {
    check_source(request.load.from);
    if (!request.attach.empty()) check_attached(sum, request.load.from);
    if (request.manifest.empty()) return;
    if (request.load.how.dtype) {
      throw CLI::ValidationError(
          "--dtype", "not with --manifest, whose digests are of the bytes that the files hold");
    }
    if (!request.load.from.wanted.everything()) {
      throw CLI::ValidationError(
          "--manifest", "not with a selection: a manifest lists all tensors of a checkpoint");
    }
  });
  return sum;
}

CLI::App& add_verify(CLI::App& root, verify_request& request) {
  CLI::App& verify = *root.add_subcommand(
      "verify", "Check the digest of each tensor, or of each file of a Hugging Face cache");
  add_loading(verify, request.load);
  add_globs(verify, request.load.from.wanted);
  const CLI::Option* help = verify.get_help_ptr();
  const auto loading = verify.get_options([help](const CLI::Option* o) { return o != help; });
  add_source(verify, request.load.from);
  auto* manifest =
      verify
          .add_option("--manifest", request.manifest,
                      "Check tensors against this manifest. Without it, check whole files of\n"
                      "a Hugging Face cache against the digests in their blobs' names")
          ->type_name("FILE");
  // Whole files are not loaded: there these would be taken and not obeyed.
  for (CLI::Option* option : loading) option->needs(manifest)->group("With --manifest");
  add_reporting(verify, request.load);
  verify.callback([&request] { check_source(request.load.from); });
  return verify;
}

CLI::App& add_make(CLI::App& root, make_request& request) {
  CLI::App& make = *root.add_subcommand("make", "Write a checkpoint of pseudo-random bytes");
  make.add_option(
          "PATH", request.path,
          "The file to write, if it ends in .safetensors and --shards is 1; else the folder.\n"
          "It is renamed to PATH once it is complete")
      ->required()
      ->type_name("");
  add_size(make, "--bytes", request.bytes, "Total bytes of all tensors");
  make.get_option("--bytes")->required();

  auto* tensors =
      add_number(make, "--tensors", request.tensors, 10'000'000,
                 "How many tensors, of many types and sizes. Default: one for each 64 MiB,\n"
                 "but at least 16");
  add_choice<tensor_shapes>(make, "--shape", request.shapes, {{"llama", tensor_shapes::llama}},
                            "The names and shapes of a Llama, in BF16, as large as --bytes allows")
      ->excludes(tensors);
  add_number(make, "--shards", request.shards, 99'999, "Number of files. Default: 1");
  add_choice<tensor_order>(make, "--order", request.order,
                           {{"dtype", tensor_order::dtype}, {"name", tensor_order::name}},
                           "dtype: wide types first, so that each is aligned, as most writers do.\n"
                           "name: by name alone, so that many are not. Default: dtype");
  add_number(make, "--seed", request.seed, std::numeric_limits<std::uint64_t>::max(),
             "The seed of the pseudo-random bytes. Default: 0");
  make.add_flag("--force", request.force,
                "Replace an existing PATH: a file, or a folder that holds only a checkpoint");
  make.add_flag_callback(
      "--no-progress", [&request] { request.progress = false; }, "Draw no progress bar");
  make.footer(about_sizes);
  return make;
}

CLI::App& add_convert(CLI::App& root, convert_request& request) {
  CLI::App& convert = *root.add_subcommand(
      "convert", "Write a checkpoint of any format as safetensors or .zt, in bounded memory");
  add_source(convert, request.load.from);
  convert.get_option("SOURCE")->description(
      "The checkpoint, or several files; and last what to write");
  add_globs(convert, request.load.from.wanted);
  add_ranges(convert, request.load.from.wanted);
  add_engine(convert, request.load.within.engine);
  add_loader_options(convert, request.load.within);
  add_dtype(convert, request.load.how.dtype);
  add_convert_options(convert, request);
  add_progress(convert, request.load.progress);
  convert.footer(std::string(about_destination) + "\n" + about_sources + "\n" + about_globs + "\n" +
                 about_sizes);
  convert.callback([&request] {
    take_destination(request);
    check_source(request.load.from);
  });
  return convert;
}

// "NAME=SOURCE", or a source alone, which then is the name as well.
std::pair<std::string, std::string> named_source(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) return {text, text};
  return {text.substr(0, equals), text.substr(equals + 1)};
}

CLI::App& add_keep(CLI::App& root, keep_request& request) {
  CLI::App& keep = *root.add_subcommand(
      "keep", "Load models, and hold them for other processes to attach, until Ctrl-C");
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
          "SOURCE", take_models, "A checkpoint, and before it NAME= if its name is to be another")
      ->required()
      ->type_name("");
  keep.add_option("--socket", request.socket, "Where others attach: a path of at most 107 bytes")
      ->required()
      ->type_name("PATH");
  const auto take_mode = [&request](const std::string& text) {
    std::size_t end = 0;
    try {
      request.mode = static_cast<unsigned>(std::stoul(text, &end, 8));
    } catch (const std::logic_error&) {
    }
    if (end != text.size() || request.mode > 0777) refuse("--mode", text, "is no mode, as 0660 is");
  };
  keep.add_option_function<std::string>("--mode", take_mode,
                                        "The socket's mode: who may write to it may attach.\n"
                                        "Default: 0600")
      ->type_name("MODE");
  keep.add_option("--user", request.users,
                  "Of those, the numbers of the users that may; repeatable. Default: all")
      ->type_name("UID");
  add_device(keep, request.load.device);
  add_engine(keep, request.load.within.engine);
  add_loader_options(keep, request.load.within);
  add_dtype(keep, request.load.how.dtype);
  add_progress(keep, request.load.progress);
  keep.footer(std::string(about_sources) + "\n" + about_sizes);
  return keep;
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
  convert_request convert;
  rewrite_request rewrite;
  keep_request keep;
  const CLI::App& ls_command = add_ls(root, ls);
  const CLI::App& load_command = add_load(root, load);
  const CLI::App& sum_command = add_sum(root, sum);
  const CLI::App& verify_command = add_verify(root, verify);
  add_make(root, make);
  const CLI::App& convert_command = add_convert(root, convert);
  const CLI::App& keep_command = add_keep(root, keep);
  add_rewriting(root, rewrite);

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
  if (convert_command.parsed()) return convert;
  if (keep_command.parsed()) return keep;
  if (root.got_subcommand("make")) return make;
  return rewrite;
}

}  // namespace ringload::tool
