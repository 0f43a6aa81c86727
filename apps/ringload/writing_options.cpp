// SPDX-License-Identifier: Apache-2.0
#include "writing_options.hpp"

#include <string>

#include "options.hpp"

namespace ringload::tool {

namespace {

using verb = rewrite_request::verb;

constexpr std::uint64_t level_max = 22;
constexpr std::uint64_t alignment_max = std::uint64_t{2} << 20;

void add_digest(CLI::App& to, std::optional<digest_algorithm>& digest, const std::string& kept) {
  add_choice<digest_algorithm>(
      to, "--digest", digest,
      {{"crc32c", digest_algorithm::crc32c}, {"sha256", digest_algorithm::sha256}},
      "Write digests of the stored bytes into the .zt file. Default: " + kept);
}

template <class Level>
CLI::Option* add_level(CLI::App& to, const std::string& option, Level& level,
                       const std::string& help) {
  const auto take = [&level, option](const std::string& text) {
    const auto number = parse_number(text);
    if (!number || *number < 1 || *number > level_max)
      refuse(option, text, "is invalid, expected 1 to 22");
    level = static_cast<int>(*number);
  };
  return to.add_option_function<std::string>(option, take, help)->type_name("LEVEL");
}

CLI::App& add_verb(CLI::App& root, const char* name, const char* help, verb what,
                   rewrite_request& request) {
  CLI::App& one = *root.add_subcommand(name, help);
  add_progress(one, request.progress);
  one.callback([&request, what] { request.what = what; });
  return one;
}

void add_input(CLI::App& to, rewrite_request& request) {
  const auto take = [&request](const std::string& text) { request.from = {text}; };
  to.add_option_function<std::string>("IN", take, "The .zt file")->required()->type_name("");
}

// Throws an error if the path of a new .zt file does not end in .zt. The command `convert` chooses
// the format by this ending, so another ending would be misleading.
void require_zt(const std::string& option, const std::string& path) {
  if (!path.ends_with(".zt")) refuse(option, path, "is invalid, expected a name that ends in .zt");
}

void add_output(CLI::App& to, const std::string& option, const char* type, std::string& path) {
  const auto take = [&path, option](const std::string& text) {
    require_zt(option, text);
    path = text;
  };
  to.add_option_function<std::string>(option, take, "The .zt file to write, which must not exist")
      ->required()
      ->type_name(type);
}

}  // namespace

void add_progress(CLI::App& to, bool& progress) {
  to.add_flag_callback(
      "--no-progress", [&progress] { progress = false; },
      "Draw no progress bar. No bar is drawn either if standard error is not a\n"
      "terminal");
}

void add_convert_options(CLI::App& to, convert_request& request) {
  add_level(to, "--zstd", request.zstd_level,
            "Compress each tensor with zstd at this level, 1 to 22; only for .zt");
  add_digest(to, request.digest, "none");
  add_size(to, "--shard-bytes", request.shard_bytes,
           "Maximum bytes of tensors in one file of the folder. Default: one file");
  const auto take = [&request](const std::string& text) {
    const auto bytes = parse_size(text);
    const bool good = bytes && *bytes >= 64 && *bytes <= alignment_max && !(*bytes & (*bytes - 1));
    if (!good) refuse("--align", text, "is invalid, expected a power of two from 64 to 2M");
    request.alignment = static_cast<std::uint32_t>(*bytes);
  };
  to.add_option_function<std::string>(
        "--align", take,
        "Alignment of every tensor in .zt, and of the first tensor in safetensors.\n"
        "With 4K they are loaded without a copy. Default: 64 for .zt, 8 for safetensors")
      ->type_name("SIZE");
  to.add_option("--checksums", request.checksums,
                "Write the SHA-256 of each tensor to this file, for 'load --verify'")
      ->type_name("FILE");
}

void take_destination(convert_request& request) {
  std::vector<std::string>& sources = request.load.from.sources;
  if (sources.size() < 2) {
    throw CLI::ValidationError("SOURCE", "expected a source, followed by the result");
  }
  request.to = sources.back();
  sources.pop_back();
  const bool is_zt = request.to.ends_with(".zt");
  if (!is_zt && (request.zstd_level != 0 || request.digest)) {
    throw CLI::ValidationError(request.zstd_level != 0 ? "--zstd" : "--digest",
                               "can be used only for a .zt file");
  }
  const bool is_file = is_zt || request.to.ends_with(".safetensors");
  if (is_file && request.shard_bytes > 0) {
    throw CLI::ValidationError("--shard-bytes",
                               "can be used only for a folder of safetensors files");
  }
}

void add_delta(CLI::App& root, delta_request& request) {
  CLI::App& delta = *root.add_subcommand(
      "delta", "Write the difference of two versions of a checkpoint, for 'apply'");
  delta
      .add_option("VERSION", request.load.from.sources,
                  "The base version, followed by the next version")
      ->required()
      ->expected(2)
      ->type_name("");
  delta
      .add_option("--output,-o", request.to,
                  "The .zt file to write, or the folder with --indexed. It must not exist")
      ->required()
      ->type_name("PATH");
  add_level(delta, "--level,-l", request.zstd_level, "Level of zstd, 1 to 22. Default: 3");
  const choices<delta_encoding> encodings = {{"xor", delta_encoding::exclusive_or},
                                             {"overwrite", delta_encoding::overwrite}};
  const auto take_encoding = [&request, encodings](const std::string& text) {
    if (!request.indexed) request.indexed.emplace();
    request.indexed->encoding = chosen("--indexed", text, encodings);
  };
  CLI::Option* const encoding =
      delta
          .add_option_function<std::string>(
              "--indexed", take_encoding,
              "Write a folder with an index, as slime, SGLang and ModelExpress read it, with this\n"
              "encoding of changed bytes. The name of the folder has the version: weight_v000007")
          ->type_name(names_of(encodings));
  const choices<delta_checksum> checksums = {{"xxh3-128", delta_checksum::xxh3_128},
                                             {"adler32", delta_checksum::adler32}};
  const auto take_checksum = [&request, checksums](const std::string& text) {
    if (!request.indexed) request.indexed.emplace();
    request.indexed->checksum = chosen("--checksum", text, checksums);
  };
  delta
      .add_option_function<std::string>(
          "--checksum", take_checksum,
          "The digests of --indexed. ModelExpress reads adler32. Default: xxh3-128")
      ->type_name(names_of(checksums))
      ->needs(encoding);
  delta.parse_complete_callback([&request] {
    if (!request.indexed) require_zt("--output,-o", request.to);
  });
}

void add_apply(CLI::App& root, apply_request& request) {
  CLI::App& apply = *root.add_subcommand(
      "apply", "Write a new version of a checkpoint from a base version and deltas of 'delta'");
  apply
      .add_option("SOURCE", request.load.from.sources,
                  "The base version, followed by its deltas in order. A delta of another base\n"
                  "is refused. A base has no version, so the version of the first delta with an\n"
                  "index is not compared")
      ->required()
      ->expected(2, 10'000)
      ->type_name("");
  apply
      .add_option("--output,-o", request.to,
                  "A .zt file, a .safetensors file, or a folder, which must not exist")
      ->required()
      ->type_name("FILE");
}

void add_rewriting(CLI::App& root, rewrite_request& request) {
  CLI::App& append = add_verb(root, "append", "Add tensors to a .zt file", verb::append, request);
  append.add_option("TARGET", request.to, "The .zt file")->required()->type_name("");
  append.add_option("--from", request.from, "The .zt files with the tensors to add")
      ->required()
      ->type_name("FILE");

  CLI::App& remove = add_verb(root, "remove", "Write a .zt file without some of its tensors",
                              verb::remove, request);
  add_input(remove, request);
  remove.add_option("NAME", request.names, "The tensors to leave out")->required()->type_name("");
  add_output(remove, "--output,-o", "FILE", request.to);

  CLI::App& replace = add_verb(root, "replace", "Replace the elements of tensors of a .zt file",
                               verb::replace, request);
  replace.add_option("TARGET", request.to, "The .zt file")->required()->type_name("");
  replace.add_option("NAME", request.names, "The names of the tensors to replace")
      ->required()
      ->type_name("");
  replace
      .add_option("--from", request.from,
                  "A checkpoint of any format with tensors of these names, dtypes and shapes")
      ->required()
      ->expected(1)
      ->type_name("SOURCE");

  CLI::App& migrate =
      add_verb(root, "migrate", "Write an older .zt file as version 1.2", verb::migrate, request);
  add_input(migrate, request);
  add_output(migrate, "OUT", "", request.to);

  CLI::App& compress = add_verb(root, "compress", "Write a .zt file with all tensors compressed",
                                verb::compress, request);
  add_input(compress, request);
  add_output(compress, "OUT", "", request.to);
  request.zstd_level.reset();
  add_level(compress, "--level,-l", request.zstd_level, "Level of zstd, 1 to 22. Default: 3");
  add_digest(compress, request.digest, "the algorithm of the existing digest");

  CLI::App& decompress = add_verb(root, "decompress", "Write a .zt file with no tensor compressed",
                                  verb::decompress, request);
  add_input(decompress, request);
  add_output(decompress, "OUT", "", request.to);
  add_digest(decompress, request.digest, "the algorithm of the existing digest");

  CLI::App& merge = add_verb(root, "merge", "Write several .zt files as one", verb::merge, request);
  merge
      .add_option("IN", request.from,
                  "The .zt files to merge; a tensor name may occur in only one of them")
      ->required()
      ->type_name("");
  add_output(merge, "--output,-o", "FILE", request.to);
}

}  // namespace ringload::tool
