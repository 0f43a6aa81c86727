// SPDX-License-Identifier: Apache-2.0

#include "catalog/read_entries.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <ringload/byte_source.hpp>
#include <string>
#include <utility>

#include "base/catch_as_fault.hpp"
#include "base/printable.hpp"
#include "catalog/detect.hpp"
#include "catalog/file_input.hpp"
#include "formats/gguf/gguf.hpp"
#include "formats/hdf5.hpp"
#include "formats/npy/npy.hpp"
#include "formats/onnx/onnx.hpp"
#include "formats/pytorch/dcp.hpp"
#include "formats/pytorch/pytorch.hpp"
#include "formats/safetensors/safetensors.hpp"
#include "formats/shard_index.hpp"
#include "formats/zip/zip.hpp"
#include "formats/zt/zt.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::size_t hdf5_magic_bytes = 8;

// Guesses the format. Uses the name only if the first bytes match no format.
result<format_guess> guess_format(const source_file& file, std::string_view name) {
  const std::uint64_t probe_bytes = std::min<std::uint64_t>(file.bytes, format_probe_bytes);
  auto first = read_bytes(file, 0, static_cast<std::size_t>(probe_bytes));
  if (!first) return first.error();
  const format_guess guess = format_of(*first, name);
  const bool by_bytes = guess.format != file_format::unknown && !guess.by_name_only;
  if (by_bytes) return guess;
  // An HDF5 file may begin with a user block of 512 bytes, 1,024 bytes, 2,048 bytes, and so on.
  for (std::uint64_t position = 512;
       position < file.bytes && file.bytes - position >= hdf5_magic_bytes; position *= 2) {
    auto later = read_bytes(file, position, hdf5_magic_bytes);
    if (!later) return later.error();
    const format_guess inside = format_of(*later, {});
    if (inside.format == file_format::hdf5) return inside;
    if (position > file.bytes / 2) break;  // The next position could exceed 64 bits.
  }
  return guess;
}

fault foreign(format_guess guess, std::string_view expected) {
  std::string cause = sentence_of(guess);
  if (guess.format != file_format::git_lfs_pointer && !guess.by_name_only) {
    cause += "; " + std::string(expected);
  }
  return {errc::not_a_checkpoint, "", std::move(cause)};
}

result<parsed_file> read_safetensors(const source_file& file, strictness strictness) {
  const auto prefix_bytes =
      static_cast<std::size_t>(std::min(file.bytes, safetensors_prefix_bytes));
  auto prefix = read_bytes(file, 0, prefix_bytes);
  if (!prefix) return prefix.error();
  auto end = safetensors_header_end(*prefix, file.bytes);
  if (!end) return end.error();
  // safetensors_header_end() has checked that the header ends within the file, so the buffer is not
  // larger than the file.

  auto header = read_bytes(file, safetensors_prefix_bytes,
                           static_cast<std::size_t>(*end - safetensors_prefix_bytes));
  if (!header) return header.error();
  auto entries = parse_safetensors(*header, file.bytes, strictness);
  if (!entries) return entries.error();
  return parsed_file{"safetensors", std::move(*entries), *end};
}

result<parsed_file> with_format(std::string_view format, result<file_entries> entries) {
  if (!entries) return entries.error();
  return parsed_file{format, std::move(*entries), 0};
}

// Returns the name of the only tensor of a file: the file name without folder and extension.
std::string stem_of(std::string_view name) { return std::filesystem::path(name).stem().native(); }

// Chooses the parser by the names of the archive's members.
result<parsed_file> read_zip(input& from, std::string_view name, const read_options& options) {
  if (name.ends_with(dcp_item_suffix)) {
    return fault{errc::not_a_checkpoint, "",
                 "this is one file of a torch.distributed.checkpoint, expected its folder"};
  }
  auto members = read_zip_directory(from);
  if (!members) return members.error();
  if (is_pytorch_archive(*members)) {
    return with_format("pytorch",
                       parse_pytorch_zip(from, *members, {options.strictness, stem_of(name)}));
  }
  return with_format("npz", parse_npz(from, *members, options));
}

result<file_entries> read_hdf5(const source_file& file, const source_options& options) {
  if (file.object) {
    return fault{errc::unsupported_feature, "",
                 "this is an HDF5 file, which can be read only from a file system"};
  }
  const hdf5_library* const library = options.hdf5();
  if (library == nullptr) {
    return fault{errc::unsupported_feature, "",
                 "this is an HDF5 file, which needs the component hdf5: the loader was made "
                 "without the extension ringload::hdf5(), or this ringload was built without it"};
  }
  auto description = library->describe(file.fd.get());
  if (!description) {
    // The text may contain bytes of the file, so the text is escaped.
    const fault& problem = description.error();
    return fault{problem.code, printable_path(problem.where()), printable_path(problem.cause())};
  }
  return parse_hdf5(std::move(*description), file.bytes, options.reading.strictness);
}

// `from` reads `file`. Formats other than safetensors and HDF5 are read through `from`.
result<parsed_file> parse_entries(const source_file& file, file_input& from, std::string_view name,
                                  const source_options& options) {
  const read_options& reading = options.reading;
  auto guess = guess_format(file, name);
  if (!guess) return guess.error();
  switch (guess->format) {
    // A file of unknown format may be a damaged safetensors file. The safetensors parser reports
    // the damage.
    case file_format::unknown:
    case file_format::safetensors: return read_safetensors(file, reading.strictness);
    case file_format::gguf: return with_format("gguf", parse_gguf(from, reading.strictness));
    case file_format::onnx: return with_format("onnx", parse_onnx(from, reading.strictness));
    case file_format::zt:
    case file_format::zt_0_1:
    case file_format::zt_2: return with_format("zt", parse_zt(from, reading.strictness));
    case file_format::npy: return with_format("npy", parse_npy(from, stem_of(name), reading));
    case file_format::zip: return read_zip(from, name, reading);
    case file_format::hdf5:
      if (guess->by_name_only) return foreign(*guess, {});
      return with_format("hdf5", read_hdf5(file, options));
    case file_format::pickle:
      if (guess->by_name_only) return foreign(*guess, {});
      if (is_dcp_metadata(name))
        return with_format(dcp_format, parse_dcp(from, reading.strictness));
      return with_format("pytorch",
                         parse_pytorch_legacy(from, {reading.strictness, stem_of(name)}));
    case file_format::tar: return foreign(*guess, "such files of PyTorch 0.1 are not supported");
    default: return foreign(*guess, "such files cannot be loaded");
  }
}

}  // namespace

result<parsed_file> read_entries(const source_file& file, std::string_view name,
                                 const source_options& options) {
  file_input from(file);
  auto parsed = parse_entries(file, from, name, options);
  if (parsed && parsed->header_bytes == 0) parsed->header_bytes = from.bytes_read();
  return parsed;
}

result<std::vector<std::string>> read_external_files(const source_file& file,
                                                     std::string_view name) {
  const auto guess = guess_format(file, name);
  if (!guess) return guess.error();
  const bool is_dcp = guess->format == file_format::pickle && is_dcp_metadata(name);
  if (guess->format != file_format::onnx && !is_dcp) return std::vector<std::string>();
  auto parsed = read_entries(file, name, strictness::reference);
  if (!parsed) return parsed.error();
  return std::move(parsed->entries.external_files);
}

result<std::vector<std::byte>> read_index_text(const source_file& file) {
  auto guess = guess_format(file, {});
  if (!guess) return guess.error();
  if (guess->format != file_format::json && guess->format != file_format::unknown) {
    return foreign(*guess, "expected the JSON text of a shard index");
  }
  if (file.bytes > shard_index_bytes_max) {
    return fault{errc::malformed_index, "",
                 "the index has " + grouped(file.bytes) + " bytes, the limit is " +
                     grouped(shard_index_bytes_max)};
  }
  auto text = read_bytes(file, 0, static_cast<std::size_t>(file.bytes));
  if (!text || !file.object) return text;
  // The byte_source may verify a digest of the object. If the digest is wrong, identity() throws.
  const auto verified = catch_as_fault([&]() -> result<void> {
    file.object->identity();
    return {};
  });
  if (!verified) return verified.error();
  return text;
}

}  // namespace ringload::inline v0
