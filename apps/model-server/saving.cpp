// SPDX-License-Identifier: Apache-2.0
#include "saving.hpp"

#include <algorithm>
#include <boost/json/string.hpp>
#include <boost/json/value.hpp>
#include <climits>
#include <filesystem>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "allowed_sources.hpp"
#include "request_body.hpp"
#include "saved_contents.hpp"

namespace ringload::server {

namespace asio = boost::asio;
namespace fs = std::filesystem;
namespace json = boost::json;

namespace {

constexpr std::size_t path_bytes_max = 4096;
constexpr int level_max = 22;

bool is_zt(std::string_view path) { return path.ends_with(".zt"); }
bool is_safetensors(std::string_view path) { return path.ends_with(".safetensors"); }

// Throws std::invalid_argument if the name cannot be a file name in any folder.
void check_file_name(std::string_view name) {
  if (!is_zt(name) && !is_safetensors(name)) {
    throw std::invalid_argument("\"path\" must end with .zt or .safetensors");
  }
  if (name.size() > NAME_MAX) {
    throw std::invalid_argument("\"path\": the file's name has " + std::to_string(name.size()) +
                                " bytes, the limit is " + std::to_string(NAME_MAX));
  }
}

// Returns the tensors with wide types first, so that each tensor is aligned for its type in a file
// without gaps.
std::vector<tensor> in_file_order(const model& source) {
  std::vector<tensor> all(source.begin(), source.end());
  std::ranges::stable_sort(all, [](const tensor& a, const tensor& b) {
    return alignment(a.dtype()) > alignment(b.dtype());
  });
  return all;
}

}  // namespace

allowed_targets::allowed_targets(const std::vector<std::string>& roots) {
  for (const std::string& root : roots) roots_.push_back(fs::canonical(root));
}

std::optional<std::string> allowed_targets::resolve(std::string_view name) const {
  // For the kernel, a path ends at its first NUL.
  if (name.size() > path_bytes_max || name.find('\0') != std::string_view::npos) {
    return std::nullopt;
  }
  const fs::path wanted{name};
  const std::string file = wanted.filename().string();
  const bool known = is_zt(file) || is_safetensors(file);
  if (!known || file.starts_with('.')) return std::nullopt;
  for (const fs::path& root : roots_) {
    // Joining a root and an absolute path returns the absolute path.
    std::error_code failed;
    const fs::path folder = fs::canonical((root / wanted).parent_path(), failed);
    if (failed || !fs::is_directory(folder, failed)) continue;
    if (is_beneath(folder, root)) return (folder / file).string();
  }
  return std::nullopt;
}

save_request parse_save_wish(std::string_view body) {
  const json::object fields = parse_request_body(body, "path", {"zstd", "digest"});
  save_request out;
  out.path = std::string(std::string_view(fields.at("path").get_string()));
  check_file_name(std::string_view(out.path).substr(out.path.rfind('/') + 1));
  if (const json::value* level = fields.if_contains("zstd")) {
    if (!level->is_int64() || level->get_int64() < 1 || level->get_int64() > level_max) {
      throw std::invalid_argument("\"zstd\" must be a level from 1 to 22");
    }
    out.zstd_level = static_cast<int>(level->get_int64());
  }
  if (const json::value* digest = fields.if_contains("digest")) {
    if (!digest->is_string() || digest->get_string() != "crc32c") {
      throw std::invalid_argument("\"digest\" must be \"crc32c\"");
    }
    out.digest = digest_algorithm::crc32c;
  }
  if (!is_zt(out.path) && (out.zstd_level != 0 || out.digest)) {
    throw std::invalid_argument("\"zstd\" and \"digest\" are for .zt files");
  }
  return out;
}

asio::awaitable<write_result> save_model(model source, save_request requested, std::string path) {
  writer_options options;
  options.replace = false;
  writer out;
  if (is_zt(path)) {
    object_options storage;
    storage.zstd_level = requested.zstd_level;
    storage.digest = requested.digest;
    out = writer(std::move(path), std::move(options));
    co_await tool::add_model(out, std::move(source), std::move(storage));
  } else {
    auto metadata = tool::safetensors_metadata(source);
    const std::vector<tensor> tensors = in_file_order(source);
    std::vector<planned_tensor> planned;
    for (const tensor& each : tensors) {
      planned.push_back(
          {std::string(each.name()), each.dtype(), {each.shape().begin(), each.shape().end()}});
    }
    out = writer(std::move(path), std::move(planned), std::move(metadata), std::move(options));
    for (const tensor& each : tensors) {
      tensor_ref view(each);
      co_await out.add_async(std::move(view));
    }
  }
  auto done = co_await out.finish_async();
  co_return done;
}

}  // namespace ringload::server
