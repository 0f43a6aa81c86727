// SPDX-License-Identifier: Apache-2.0

// ringload convert: converts a checkpoint of any format to safetensors or .zt, through a window of
// memory.

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <filesystem>
#include <map>
#include <optional>
#include <ringload/atomic_file.hpp>
#include <ringload/error.hpp>
#include <ringload/loader.hpp>
#include <ringload/writer.hpp>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "command_loop.hpp"
#include "commands.hpp"
#include "conversion.hpp"
#include "extensions.hpp"
#include "interrupts.hpp"
#include "layout.hpp"
#include "open_request.hpp"
#include "openssl_hasher.hpp"
#include "progress_bar.hpp"
#include "report.hpp"
#include "text.hpp"
#include "written_files.hpp"

namespace ringload::tool {

namespace {

namespace asio = boost::asio;
namespace fs = std::filesystem;

struct state {
  const convert_request& request;
  const conversion_memory memory;
  const std::vector<extension> extensions;
  loader& file_loader;
  checkpoint file;
  tensor_stream load;
  writer out;
  bool writes = false;
  std::uint64_t bytes_before = 0;  // Size of the finished files.
  std::uint64_t bytes_total = 0;
  std::vector<tensor_digest> digests;
  std::vector<std::string> notes;
  std::uint64_t files_unverified = 0;  // See load_stats::files_unverified.
};

// Adds the notes that are not listed yet. The catalog of a load repeats the notes of its
// checkpoint.
void add_notes(state& s, const std::vector<std::string>& notes) {
  for (const std::string& note : notes) {
    if (std::ranges::find(s.notes, note) == s.notes.end()) s.notes.push_back(note);
  }
}

bool is_in_store(const std::string& path) { return path.find("://") != std::string::npos; }

writer_options writer_options_of(const state& s) {
  const convert_request& request = s.request;
  writer_options options;
  options.extensions = s.extensions;
  options.alignment = request.alignment;
  options.sha256 = [] { return openssl_hasher(::EVP_sha256()); };
  if (!request.checksums.empty()) options.result_digest = digest_algorithm::sha256;
  options.replace = false;
  return options;
}

void write_to(state& s, writer to) {
  s.out = std::move(to);
  s.writes = true;
}

// Must be called after the last tensor of a load. The counts of several loads are not added,
// because the loads of one conversion can read the same files.
void count_unverified(state& s) { s.files_unverified = s.load.progress().files_unverified; }

asio::awaitable<void> finish_file(state& s) {
  auto done = co_await s.out.finish_async();
  s.bytes_before += s.out.bytes_taken();
  s.writes = false;
  for (tensor_digest& each : done.digests) s.digests.push_back(std::move(each));
  add_notes(s, done.notes);
}

load_options checked_options(const state& s, const selection& wanted) {
  load_options options = s.request.load.how;
  options.select = wanted;
  // Verifies existing digests, so that damaged bytes do not get a new digest.
  options.verify = {embedded_digests::if_present, [] { return openssl_hasher(::EVP_sha256()); }};
  return options;
}

// A digest covers a whole tensor. If only a part of a tensor is converted, the whole tensor is
// verified first, so that damaged bytes do not get a new digest.
asio::awaitable<void> check_cut_tensors(state& s) {
  const catalog& all = s.file.catalog();
  const catalog some = chosen(all, selection_of(s.request.load.from.wanted, all));
  std::map<std::string_view, const tensor_info*> whole;
  for (const tensor_info& each : all.tensors) whole[each.name] = &each;
  std::vector<std::string> names;
  for (const tensor_info& each : some.tensors) {
    const bool is_cut = whole.at(each.name)->shape != each.shape;
    if (is_cut && !whole.at(each.name)->digest.empty()) names.push_back(each.name);
  }
  if (names.empty()) co_return;
  const selection cut = select().names(std::move(names));
  load_options options = checked_options(s, cut);
  const std::uint64_t window = window_for(chosen(all, cut), options, s.memory);
  options.dtype.reset();
  auto load = co_await s.file_loader.stream_async(s.file, window, options);
  s.load = std::move(load);
  for (;;) {
    auto next = co_await s.load.next_async();
    if (!next) break;
  }
}

// ---- safetensors ----

asio::awaitable<void> write_shards(
    state& s, const std::vector<std::string>& paths, const std::vector<conversion_pass>& passes,
    const std::vector<std::vector<ringload::planned_tensor>>& shards) {
  const catalog& all = s.file.catalog();
  const load_options& how = s.request.load.how;
  const auto metadata = safetensors_metadata(
      chosen(all, selection_of(s.request.load.from.wanted, all)),
      [&how](const tensor_info& tensor) { return planned(tensor, how).dtype; });
  const writer_options file_options = writer_options_of(s);
  std::size_t shard = 0;
  std::size_t left = shards.front().size();
  write_to(s, writer(paths.front(), shards.front(), metadata, file_options));
  for (const conversion_pass& pass : passes) {
    const load_options options = checked_options(s, pass.wanted);
    const std::uint64_t window = window_for(chosen(all, pass.wanted), options, s.memory);
    auto load = co_await s.file_loader.stream_async(s.file, window, options);
    s.load = std::move(load);
    add_notes(s, s.load.catalog().notes);
    for (std::size_t i = 0; i < pass.tensors.size(); ++i) {
      if (left == 0) {
        co_await finish_file(s);
        ++shard;
        left = shards[shard].size();
        write_to(s, writer(paths[shard], shards[shard], metadata, file_options));
      }
      auto next = co_await s.load.next_async();
      tensor_ref view(*next);
      next.reset();
      co_await s.out.add_async(std::move(view));
      --left;
    }
    // A load can fail after its last tensor, for example if the digest of a file differs from the
    // digest of the hub. The call of next_async() after the last tensor throws this error.
    for (bool more = true; more;) {
      auto next = co_await s.load.next_async();
      more = next.has_value();
    }
    count_unverified(s);
  }
  co_await finish_file(s);
}

// Returns the text of the error without its place.
std::string cause_of(const error& failed) {
  const std::string_view text = failed.what();
  if (failed.place().empty()) return std::string(text);
  return std::string(text.substr(std::min(text.size(), failed.place().size() + 2)));
}

// Returns the error with the name `target` instead of the temporary name of the file.
error with_target(const error& failed, const std::string& temporary, const std::string& target) {
  if (!failed.place().starts_with(temporary)) return failed;
  return {failed.code(), target + failed.place().substr(temporary.size()), cause_of(failed)};
}

asio::awaitable<void> to_folder(state& s, const std::vector<conversion_pass>& passes,
                                const std::vector<std::vector<ringload::planned_tensor>>& shards) {
  atomic_file folder(s.request.to, entry_kind::folder, false);
  const fs::path temporary = folder.path();
  const auto count = static_cast<std::uint32_t>(shards.size());
  std::vector<std::string> paths;
  for (std::uint32_t i = 0; i < count; ++i) {
    paths.push_back((temporary / shard_name(i, count)).string());
  }
  try {
    co_await write_shards(s, paths, passes, shards);
    if (count > 1) {
      atomic_file index(temporary / "model.safetensors.index.json", entry_kind::file, false);
      index.write(index_text(shards));
      index.publish();
    }
  } catch (const error& failed) {
    const std::size_t end = s.request.to.find_last_not_of('/') + 1;
    throw with_target(failed, printable(temporary.native()),
                      printable(s.request.to.substr(0, end)));
  }
  folder.publish();
}

asio::awaitable<void> to_safetensors(state& s) {
  const convert_request& request = s.request;
  const auto passes =
      safetensors_passes(s.file.catalog(), request.load.from.wanted, request.load.how);
  const auto shards = cut_into_shards(passes, request.shard_bytes);
  for (const auto& shard : shards) {
    for (const auto& each : shard) s.bytes_total += bytes_of(each);
  }
  std::vector<std::string> paths;
  if (request.to.ends_with(".safetensors")) {
    paths.push_back(request.to);
    co_await write_shards(s, paths, passes, shards);
    co_return;
  }
  if (is_in_store(request.to)) {
    throw error(errc::unsupported_feature, printable(request.to),
                "several objects of a store cannot be published as a whole; expected a name that "
                "ends with .safetensors or .zt");
  }
  co_await to_folder(s, passes, shards);
}

// ---- .zt ----

bool all_zt(const catalog& all) {
  for (const file_info& each : all.files) {
    if (each.format != "zt") return false;
  }
  return true;
}

// Returns the names of the objects to copy as they are stored. Returns an empty optional if the
// tensors must be loaded: the files are not local .zt files, a dtype is converted, or only a part
// of an object is selected.
std::optional<std::unordered_set<std::string>> whole_objects(const state& s, const catalog& some) {
  const selection_text& wanted = s.request.load.from.wanted;
  const catalog& all = s.file.catalog();
  if (!all_zt(all) || s.request.load.how.dtype) return std::nullopt;
  // copy_async() opens the files by their paths, so the files must be local.
  for (const file_info& file : all.files) {
    if (file.path.find("://") != std::string::npos) return std::nullopt;
  }
  if (!wanted.slices.empty() || !wanted.shards.empty()) return std::nullopt;
  const parts_by_name kept = parts_of(some.composites);
  const parts_by_name every = parts_of(all.composites);
  std::unordered_set<std::string> out;
  for (const composite_info& each : some.composites) out.insert(each.name);
  for (const tensor_info& each : some.tensors) {
    if (kept.contains(each.name)) continue;
    if (every.contains(each.name)) return std::nullopt;
    out.insert(each.name);
  }
  return out;
}

asio::awaitable<void> copy_objects(state& s, std::unordered_set<std::string> objects) {
  copy_options options;
  if (s.request.zstd_level != 0) options.zstd_level = s.request.zstd_level;
  options.digest = s.request.digest;
  const std::function<bool(std::string_view)> wanted = [&objects](std::string_view name) {
    return objects.contains(std::string(name));
  };
  for (const file_info& each : s.file.catalog().files) {
    co_await s.out.copy_async(each.path, wanted, options);
  }
}

object_options storage_of(const state& s) {
  object_options options;
  options.zstd_level = s.request.zstd_level;
  options.digest = s.request.digest;
  return options;
}

asio::awaitable<void> load_tensors(state& s, const catalog& some) {
  std::map<std::string_view, const tensor_info*> infos;
  std::vector<std::string> loaded;
  const auto again = second_names(some, s.request.load.from.wanted, s.request.load.how);
  for (const tensor_info& each : some.tensors) {
    infos[each.name] = &each;
    if (again.contains(each.name)) continue;
    loaded.push_back(each.name);
    s.bytes_total += bytes_of(planned(each, s.request.load.how));
  }
  const parts_by_name parts = parts_of(some.composites);
  for (const composite_info& each : some.composites) {
    object_info object = object_of(s.file.catalog(), each);
    co_await s.out.declare_async(std::move(object));
  }
  for (const auto& [key, value] : metadata_of(s.file.catalog())) {
    attribute copied(value);
    co_await s.out.set_attribute_async(key, std::move(copied));
  }
  selection wanted = selection_of(s.request.load.from.wanted, s.file.catalog());
  if (!again.empty()) wanted = select().names(std::move(loaded));
  const load_options options = checked_options(s, wanted);
  const std::uint64_t window = window_for(some, options, s.memory);
  auto load = co_await s.file_loader.stream_async(s.file, window, options);
  s.load = std::move(load);
  add_notes(s, s.load.catalog().notes);
  for (;;) {
    auto next = co_await s.load.next_async();
    if (!next) break;
    tensor_ref view(*next);
    next.reset();
    object_options how =
        object_options_of(s.file.catalog(), *infos.at(view.name), view.dtype, storage_of(s));
    const auto part = parts.find(view.name);
    if (part == parts.end()) {
      co_await s.out.add_async(std::move(view), std::move(how));
    } else {
      view.name = part->second.part;
      co_await s.out.add_part_async(part->second.object, std::move(view), std::move(how));
    }
  }
  count_unverified(s);
  for (const auto& [name, first] : again) co_await s.out.add_alias_async(name, first);
}

// Adds the digests of the second names of tensors, because a checksum list contains all names.
void add_digests_again(state& s, const catalog& some) {
  const auto again = second_names(some, s.request.load.from.wanted, s.request.load.how);
  std::vector<tensor_digest> more;
  for (const tensor_digest& each : s.digests) {
    for (const auto& [name, first] : again) {
      if (first == each.name) more.emplace_back(each).name = name;
    }
  }
  for (tensor_digest& each : more) s.digests.push_back(std::move(each));
}

asio::awaitable<void> to_zt(state& s) {
  const catalog& all = s.file.catalog();
  const catalog some = chosen(all, selection_of(s.request.load.from.wanted, all));
  const auto objects = whole_objects(s, some);
  if (objects && !s.request.checksums.empty()) {
    throw error(
        errc::unsupported_feature, "--checksums",
        "stored bytes are copied from one .zt file to another without hashing them; 'ringload "
        "sum --checksums' reads the written file");
  }
  write_to(s, writer(s.request.to, writer_options_of(s)));
  if (objects) {
    for (const tensor_info& each : some.tensors) s.bytes_total += each.stored_bytes;
    co_await copy_objects(s, *objects);
  } else {
    co_await load_tensors(s, some);
  }
  co_await finish_file(s);
  if (!objects) add_digests_again(s, some);
}

asio::awaitable<void> convert_all(state& s) {
  auto opened = co_await open_checkpoint(s.file_loader, s.request.load.from);
  s.file = std::move(opened);
  add_notes(s, s.file.catalog().notes);  // Adds the notes about objects that were omitted, too.
  co_await check_cut_tensors(s);
  if (s.request.to.ends_with(".zt")) {
    co_await to_zt(s);
  } else {
    co_await to_safetensors(s);
  }
}

void write_list(const state& s, atomic_file& list) {
  std::string text;
  for (const tensor_digest& each : s.digests) text += checksum_line(each);
  try {
    list.write(text);
    list.publish();
  } catch (const error& failed) {
    throw error(failed.code(), failed.place(),
                cause_of(failed) + "; the result '" + printable(s.request.to) +
                    "' is complete, only the checksum list is missing");
  }
}

progress so_far(const state& s) {
  return {s.bytes_before + (s.writes ? s.out.bytes_taken() : 0), s.bytes_total};
}

}  // namespace

void convert_checkpoint(const convert_request& request, output& out) {
  std::error_code ignored;  // The writer will report an error of the path.
  if (fs::exists(fs::symlink_status(request.to, ignored))) {
    throw error({EEXIST, boost::system::system_category()}, printable(request.to),
                "the path exists already");
  }
  check_written_files(request.load.from,
                      {{"the result", request.to}, {"--checksums", request.checksums}});
  // Called after the check, because the check can wait for a server. Before this call, a signal
  // ends the process at once.
  watch_for_interrupts();
  std::optional<atomic_file> list;
  if (!request.checksums.empty()) list.emplace(request.checksums, entry_kind::file, true);
  const conversion_memory memory = memory_for(available_host_bytes());
  const std::vector<extension> found = is_in_store(request.to)
                                           ? extensions(request.load.from.remote)
                                           : extensions_for(request.load.from);
  loader file_loader(host(), reusing_memory(request.load.options, memory), found);
  asio::io_context context;
  progress_bar bar("converting", request.load.progress);
  state s{request, memory, found, file_loader, {}, {}, {}, false, 0, 0, {}, {}, 0};
  run_to_end(context, convert_all(s), bar, [&s] { return so_far(s); });
  if (list) write_list(s, *list);
  if (s.files_unverified > 0) s.notes.push_back(unverified_text(s.files_unverified));
  for (const std::string& note : s.notes) out.write("note: " + printable(note) + "\n");
  out.flush();
}

}  // namespace ringload::tool
