// SPDX-License-Identifier: Apache-2.0

// ringload convert: a checkpoint of any format through a window of memory into safetensors or .zt.

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
#include "interrupts.hpp"
#include "layout.hpp"
#include "open_request.hpp"
#include "openssl_hasher.hpp"
#include "progress_bar.hpp"
#include "text.hpp"

namespace ringload::tool {

namespace {

namespace asio = boost::asio;
namespace fs = std::filesystem;

struct state {
  const convert_request& request;
  loader& with;
  checkpoint file;
  load_operation load;
  writer out;
  bool writes = false;
  std::uint64_t bytes_before = 0;  // Of files that are finished.
  std::uint64_t bytes_total = 0;
  std::vector<tensor_digest> digests;
  std::vector<std::string> notes;
};

writer_options writer_options_of(const convert_request& request) {
  writer_options how;
  how.alignment = request.alignment;
  how.sha256 = [] { return openssl_hasher(::EVP_sha256()); };
  if (!request.manifest.empty()) how.manifest_digest = digest_algorithm::sha256;
  how.replace = false;
  return how;
}

void write_to(state& s, writer to) {
  s.out = std::move(to);
  s.writes = true;
}

asio::awaitable<void> finish_file(state& s) {
  auto done = co_await s.out.finish_async();
  s.bytes_before += s.out.bytes_taken();
  s.writes = false;
  for (tensor_digest& each : done.digests) s.digests.push_back(std::move(each));
  for (std::string& each : done.notes) s.notes.push_back(std::move(each));
}

load_options windowed(const state& s, const catalog& some) {
  load_options how = s.request.load.how;
  how.window_bytes = window_for(some, how);
  // Damage must not get a new digest, or none.
  how.verify = {embedded_digests::if_present, [] { return openssl_hasher(::EVP_sha256()); }};
  return how;
}

// ---- safetensors ----

asio::awaitable<void> write_shards(
    state& s, const std::vector<std::string>& paths, const std::vector<conversion_pass>& passes,
    const std::vector<std::vector<ringload::planned_tensor>>& shards) {
  const catalog& all = s.file.catalog();
  const auto metadata = safetensors_metadata(
      chosen(all, selection_of(s.request.load.from.wanted, all)), s.request.load.how);
  const writer_options how = writer_options_of(s.request);
  std::size_t shard = 0;
  std::size_t left = shards.front().size();
  write_to(s, writer(paths.front(), shards.front(), metadata, how));
  for (const conversion_pass& pass : passes) {
    const load_options options = windowed(s, chosen(s.file.catalog(), pass.wanted));
    auto load = co_await s.with.start_async(s.file, pass.wanted, options);
    s.load = std::move(load);
    for (std::size_t i = 0; i < pass.tensors.size(); ++i) {
      if (left == 0) {
        co_await finish_file(s);
        ++shard;
        left = shards[shard].size();
        write_to(s, writer(paths[shard], shards[shard], metadata, how));
      }
      auto next = co_await s.load.next_async();
      tensor_ref view(*next);
      next.reset();
      co_await s.out.add_async(std::move(view));
      --left;
    }
  }
  co_await finish_file(s);
}

// The same error of a file in the folder that is being written, with the name that the file will
// have.
error with_target(const error& failed, const std::string& temporary, const std::string& target) {
  const std::string_view text = failed.what();
  if (!failed.place().starts_with(temporary)) return failed;
  const std::string_view cause = text.substr(std::min(text.size(), failed.place().size() + 2));
  return {failed.code(), target + std::string(failed.place().substr(temporary.size())),
          std::string(cause)};
}

asio::awaitable<void> to_folder(state& s, const std::vector<conversion_pass>& passes,
                                const std::vector<std::vector<ringload::planned_tensor>>& shards) {
  atomic_file folder(s.request.to, entry_kind::folder, false);
  const auto count = static_cast<std::uint32_t>(shards.size());
  std::vector<std::string> paths;
  for (std::uint32_t i = 0; i < count; ++i) {
    paths.push_back((folder.path() / shard_name(i, count)).string());
  }
  try {
    co_await write_shards(s, paths, passes, shards);
    if (count > 1) {
      atomic_file index(folder.path() / "model.safetensors.index.json", entry_kind::file, false);
      index.write(index_text(shards));
      index.publish();
    }
  } catch (const error& failed) {
    const std::size_t end = s.request.to.find_last_not_of('/') + 1;
    throw with_target(failed, printable(folder.path().native()),
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
  co_await to_folder(s, passes, shards);
}

// ---- .zt ----

// Attributes that loads understand.
constexpr const char* gguf_type_key = "gguf_type";
constexpr const char* logical_type_key = "logical_type";
constexpr const char* original_shape_key = "original_shape";

// Where each part of a composite belongs.
struct part_of {
  std::string object;
  std::string part;
};
using parts_by_name = std::map<std::string, part_of, std::less<>>;

parts_by_name parts_of(const std::vector<composite_info>& all) {
  parts_by_name out;
  for (const composite_info& each : all) {
    for (const std::string& part : each.parts) out[each.name_of(part)] = {each.name, part};
  }
  return out;
}

bool all_zt(const catalog& all) {
  for (const file_info& each : all.files) {
    if (each.format != "zt") return false;
  }
  return true;
}

// The objects that can be copied as they are stored; empty: something of them is cut or converted.
std::optional<std::unordered_set<std::string>> whole_objects(const state& s, const catalog& some) {
  const selection_text& wanted = s.request.load.from.wanted;
  const catalog& all = s.file.catalog();
  if (!all_zt(all) || s.request.load.how.dtype) return std::nullopt;
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
  copy_options how;
  if (s.request.zstd_level != 0) how.zstd_level = s.request.zstd_level;
  how.digest = s.request.digest;
  const std::function<bool(std::string_view)> wanted = [&objects](std::string_view name) {
    return objects.contains(std::string(name));
  };
  for (const file_info& each : s.file.catalog().files) {
    co_await s.out.copy_async(each.path, wanted, how);
  }
}

// What a file says of a tensor that .zt has no field for.
object_options object_options_of(const state& s, const tensor_info& of, dtype loaded) {
  object_options how;
  how.zstd_level = s.request.zstd_level;
  how.digest = s.request.digest;
  how.attributes = of.attributes;
  if (of.type.empty()) return how;
  if (loaded == of.dtype && of.original_shape.empty()) how.type = of.type;
  if (of.original_shape.empty()) return how;
  // Blocks and packed elements are bytes in .zt, and these attributes say what they mean.
  bool is_gguf = s.file.catalog().files[of.file].format == "gguf";
  std::erase_if(how.attributes, [&](const auto& each) {
    is_gguf = is_gguf || each.first == gguf_type_key;
    return each.first == gguf_type_key || each.first == logical_type_key ||
           each.first == original_shape_key;
  });
  if (loaded != of.dtype) return how;
  how.attributes.emplace_back(is_gguf ? gguf_type_key : logical_type_key, of.type);
  std::string shape;
  for (const std::uint64_t size : of.original_shape) {
    shape += (shape.empty() ? "" : ",") + std::to_string(size);
  }
  how.attributes.emplace_back(original_shape_key, attribute::json("[" + shape + "]"));
  return how;
}

asio::awaitable<void> declare_composites(state& s, const catalog& some) {
  const bool own = all_zt(s.file.catalog());
  for (const composite_info& each : some.composites) {
    object_info object;
    object.name = each.name;
    // The layouts of .zt ask for parts of its own names and types.
    const bool taken = !own && each.layout.starts_with("sparse_");
    object.layout = (taken ? "torch_" : "") + each.layout;
    object.shape = each.shape;
    object.attributes = each.attributes;
    co_await s.out.declare_async(std::move(object));
  }
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
  co_await declare_composites(s, some);
  for (const auto& [key, value] : metadata_of(s.file.catalog())) {
    attribute copied(value);
    co_await s.out.set_attribute_async(key, std::move(copied));
  }
  selection wanted = selection_of(s.request.load.from.wanted, s.file.catalog());
  if (!again.empty()) wanted = select().names(std::move(loaded));
  const load_options options = windowed(s, some);
  auto load = co_await s.with.start_async(s.file, std::move(wanted), options);
  s.load = std::move(load);
  for (;;) {
    auto next = co_await s.load.next_async();
    if (!next) break;
    tensor_ref view(*next);
    next.reset();
    object_options how = object_options_of(s, *infos.at(view.name), view.dtype);
    const auto part = parts.find(view.name);
    if (part == parts.end()) {
      co_await s.out.add_async(std::move(view), std::move(how));
    } else {
      view.name = part->second.part;
      co_await s.out.add_part_async(part->second.object, std::move(view), std::move(how));
    }
  }
  for (const auto& [name, first] : again) co_await s.out.add_alias_async(name, first);
}

// A manifest has second names too.
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
  if (objects && !s.request.manifest.empty()) {
    throw error(
        errc::unsupported_feature, "--manifest",
        "stored bytes are copied from one .zt file to another, and not looked at; 'ringload "
        "sum --manifest' reads what was written");
  }
  write_to(s, writer(s.request.to, writer_options_of(s.request)));
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
  auto opened = co_await open_checkpoint(s.with, s.request.load.from);
  s.file = std::move(opened);
  if (s.request.to.ends_with(".zt")) {
    co_await to_zt(s);
  } else {
    co_await to_safetensors(s);
  }
}

progress so_far(const state& s) {
  return {s.bytes_before + (s.writes ? s.out.bytes_taken() : 0), s.bytes_total};
}

}  // namespace

void convert_checkpoint(const convert_request& request, output& out) {
  watch_for_interrupts();
  std::error_code ignored;  // The writer says what is wrong with the path.
  if (fs::exists(fs::symlink_status(request.to, ignored))) {
    throw error({EEXIST, boost::system::system_category()}, printable(request.to),
                "it exists already");
  }
  std::optional<atomic_file> manifest;
  if (!request.manifest.empty()) manifest.emplace(request.manifest, entry_kind::file, true);
  loader with(host(), reusing_memory(request.load.within), extensions_for(request.load.from));
  asio::io_context context;
  progress_bar bar("converting", request.load.progress);
  state s{request, with, {}, {}, {}, false, 0, 0, {}, {}};
  run_to_end(context, convert_all(s), bar, [&s] { return so_far(s); });
  if (manifest) {
    std::string text;
    for (const tensor_digest& each : s.digests) text += manifest_line(each);
    manifest->write(text);
    manifest->publish();
  }
  for (const std::string& note : s.notes) out.write("note: " + printable(note) + "\n");
  out.flush();
}

}  // namespace ringload::tool
