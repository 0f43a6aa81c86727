// SPDX-License-Identifier: Apache-2.0

// ringload append, remove, replace, migrate, compress, decompress and merge: write .zt files from
// .zt files. Objects are copied as they are stored, or encoded again. Only the replacements of
// `replace` are loaded.

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <ringload/error.hpp>
#include <ringload/loader.hpp>
#include <ringload/writer.hpp>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "command_loop.hpp"
#include "commands.hpp"
#include "conversion.hpp"
#include "extensions.hpp"
#include "interrupts.hpp"
#include "open_request.hpp"
#include "openssl_hasher.hpp"
#include "progress_bar.hpp"
#include "text.hpp"

namespace ringload::tool {

namespace {

namespace asio = boost::asio;
using verb = rewrite_request::verb;
using name_filter = std::function<bool(std::string_view)>;

constexpr int level_by_default = 3;

struct state {
  const rewrite_request& request;
  writer out;
  std::uint64_t bytes_total = 0;
  std::vector<std::string> notes;
};

catalog zt_catalog(const std::string& path) {
  const catalog found = read_catalog(path);
  if (found.files.size() == 1 && found.files.front().format == "zt") return found;
  throw error(errc::not_a_checkpoint, printable(path), "this is not a .zt file");
}

void check_names(const rewrite_request& request, const catalog& in) {
  std::unordered_set<std::string_view> objects;
  const std::unordered_set<std::string> parts = part_names(in);
  for (const composite_info& each : in.composites) objects.insert(each.name);
  for (const tensor_info& each : in.tensors) {
    if (!parts.contains(each.name)) objects.insert(each.name);
  }
  for (const unreadable_info& each : in.unreadable) objects.insert(each.name);
  for (const std::string& name : request.names) {
    if (objects.contains(name)) continue;
    throw error(errc::no_such_tensor,
                printable(request.from.front()) + ": tensor '" + printable(name) + "'", {});
  }
}

// Throws an error if a name occurs in several inputs. Used before the output is created.
class name_owners {
 public:
  void add(const std::string& path, const catalog& in) {
    const std::unordered_set<std::string> parts = part_names(in);
    for (const composite_info& each : in.composites) add_name(path, each.name);
    for (const tensor_info& each : in.tensors) {
      if (!parts.contains(each.name)) add_name(path, each.name);
    }
  }

 private:
  void add_name(const std::string& path, const std::string& name) {
    const auto [owner, is_new] = paths_.try_emplace(name, path);
    if (is_new) return;
    throw error(errc::duplicate_tensor, printable(path) + ": tensor '" + printable(name) + "'",
                "'" + printable(owner->second) + "' also has a tensor of this name");
  }

  std::unordered_map<std::string, std::string> paths_;
};

// Returns the logical type of the elements. Returns an empty text if the dtype itself states this
// type.
std::string_view type_beyond_dtype(const tensor_info& tensor) {
  switch (tensor.dtype) {
    case dtype::f8_e4m3fn:
    case dtype::f8_e5m2:
    case dtype::f8_e4m3fnuz:
    case dtype::f8_e5m2fnuz:
    case dtype::f8_e8m0:
    case dtype::c64:
    case dtype::c128: return {};
    default: return tensor.type;
  }
}

// The file keeps the attributes of a replaced tensor, which state its logical type. Therefore the
// new tensor must have the same logical type. The writer checks that the dtypes are equal.
void check_types(const std::string& path, const catalog& replacements) {
  const catalog present = zt_catalog(path);
  for (const tensor_info& after : replacements.tensors) {
    const auto before = std::ranges::find(present.tensors, after.name, &tensor_info::name);
    if (before == present.tensors.end()) continue;
    if (type_beyond_dtype(*before) == type_beyond_dtype(after) &&
        before->original_shape == after.original_shape) {
      continue;
    }
    throw error(errc::wrong_dtype, printable(path) + ": tensor '" + printable(after.name) + "'",
                "the new tensor has another logical type or shape: '" + printable(after.type) +
                    "' instead of '" + printable(before->type) + "'");
  }
}

copy_options copy_options_of(const rewrite_request& request) {
  copy_options how;
  how.digest = request.digest;
  if (request.what == verb::compress)
    how.zstd_level = request.zstd_level.value_or(level_by_default);
  if (request.what == verb::decompress) how.zstd_level = 0;
  return how;
}

asio::awaitable<void> copy_all(state& s) {
  const copy_options how = copy_options_of(s.request);
  const std::unordered_set<std::string> removed(s.request.names.begin(), s.request.names.end());
  const name_filter wanted = [&removed](std::string_view name) {
    return !removed.contains(std::string(name));
  };
  for (const std::string& each : s.request.from) {
    co_await s.out.copy_async(each, wanted, how);
  }
  auto done = co_await s.out.finish_async();
  s.notes = std::move(done.notes);
}

asio::awaitable<void> replace_all(state& s, loader& file_loader) {
  source_request source;
  source.sources = s.request.from;
  auto file = co_await open_checkpoint(file_loader, source);
  load_options how = select().names(s.request.names);
  how.verify = {embedded_digests::if_present, [] { return openssl_hasher(::EVP_sha256()); }};
  const catalog some = chosen(file.catalog(), how.select);
  check_types(s.request.to, some);
  s.bytes_total = some.size_bytes();
  const std::uint64_t window = window_for(some, how, memory_for(available_host_bytes()));
  auto load = co_await file_loader.stream_async(file, window, how);
  for (;;) {
    auto next = co_await load.next_async();
    if (!next) break;
    tensor_ref view(*next);
    next.reset();
    co_await s.out.replace_async(std::move(view));
  }
  co_await s.out.finish_async();
}

writer_options writer_options_of(bool replace) {
  writer_options how;
  how.sha256 = [] { return openssl_hasher(::EVP_sha256()); };
  how.replace = replace;
  return how;
}

}  // namespace

void rewrite_archive(const rewrite_request& request, output& out) {
  watch_for_interrupts();
  asio::io_context context;
  progress_bar bar("writing", request.progress);
  state s{request, {}, 0, {}};
  const bool in_place = request.what == verb::append || request.what == verb::replace;
  const auto so_far = [&s] { return progress{s.out.bytes_taken(), s.bytes_total}; };
  if (request.what != verb::replace) {
    name_owners owners;
    for (const std::string& each : request.from) {
      const catalog found = zt_catalog(each);
      owners.add(each, found);
      if (request.what == verb::remove) check_names(request, found);
      for (const tensor_info& tensor : found.tensors) s.bytes_total += tensor.stored_bytes;
    }
  }
  s.out = in_place ? writer::append(request.to, writer_options_of(true))
                   : writer(request.to, writer_options_of(false));
  if (request.what == verb::replace) {
    loader file_loader(host(), {}, extensions());
    run_to_end(context, replace_all(s, file_loader), bar, so_far);
  } else {
    run_to_end(context, copy_all(s), bar, so_far);
  }
  for (const std::string& note : s.notes) out.write("note: " + printable(note) + "\n");
  out.flush();
}

}  // namespace ringload::tool
