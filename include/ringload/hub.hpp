// SPDX-License-Identifier: Apache-2.0
#pragma once

// Options for models of the Hugging Face hub, in the component `remote`. The options apply to names
// hf://owner/model[@revision], to the addresses of model pages, and to names `owner/model` that are
// not in the local cache.
//
// The hub resolves the revision to a commit. If the local cache has all needed files of this
// commit, the files are loaded from the cache. If the hub cannot be reached, the revision in the
// cache is loaded, provided that the cache has all needed files.
//
// Downloaded bytes are hashed. If a load downloads a whole file, the digest of the file is compared
// with the digest of the hub. If the digests differ, the load fails with errc::wrong_digest. A load
// with a window (loader::stream_async) returns tensors before the digest is compared. The digest is
// not compared in these cases:
//
// - The file is loaded only in part.
// - The file is in the cache.
// - The hub does not report a digest of the file.
// - The option is `hub_cache::fill`, and a write to the cache fails.
//
// If the file is not written to the cache, the digest is also not compared in these cases:
//
// - Two loads of one checkpoint download the file at the same time.
// - The load skips more than 128 MiB of the file and reads these bytes later.
// - More than 32 MiB of the file are read while the checkpoint is opened.
// - The load has received more than 64 MiB, over all files, that cannot be hashed yet, because
//   earlier bytes of the same file are missing.
//
// `load_stats::files_unverified` is the number of downloaded files whose digest was not compared.
// Files without a digest of the hub do not count.

#include <cstdint>
#include <functional>
#include <ringload/export.hpp>
#include <string>

namespace ringload::inline v0 {

/// How the local cache of the hub is used.
enum class hub_cache : std::uint8_t {
  /// The cache is neither read nor written. However, a name `owner/model` is still loaded from the
  /// cache if the cache has the model.
  off,
  /// If the cache has all files that a load needs, no file is downloaded. Otherwise all these files
  /// are downloaded. Downloaded files are not added to the cache.
  read,
  /// Files and parts of files that are in the cache are not downloaded again. Downloaded bytes are
  /// written to the cache.
  fill,
};

/// The result of writing one file to the cache.
struct hub_cached_file {
  hub_cached_file() {}

  std::string name;    // For example, "owner/model/model.safetensors".
  bool whole = false;  // True if the cache has the complete file, and its digest is correct.
  /// The number of bytes of the file that are not in the cache. The other bytes stay in the cache,
  /// and the next load downloads the missing bytes.
  std::uint64_t missing_bytes = 0;
  /// The error text of a failed write to the cache. Empty if the file is complete or was loaded
  /// only in part. Also empty if the digest is wrong and a load has already failed because of the
  /// wrong digest.
  std::string error_text;
};

/// Options for the Hugging Face hub.
struct hub_options {
  RINGLOAD_OPTION_STRUCT(hub_options)

  std::string endpoint = "https://huggingface.co";  // The address of the hub.
  /// The access token. The token is sent to the endpoint only. Gated and private models require a
  /// token. Empty means no token.
  std::string token = {};
  hub_cache cache = hub_cache::read;  // How the local cache is used.
  /// The cache folder. If empty, the cache folder of the package huggingface_hub is used. The first
  /// environment variable that is set determines the folder: HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE,
  /// HF_HOME, XDG_CACHE_HOME or HOME.
  std::string cache_folder = {};
  /// With `hub_cache::fill`, called once for each opened file, in a thread of the library, when no
  /// load uses the file any more. If a file cannot be written to the cache, the file is still
  /// loaded, and the function may be called while loads use the file. The function must not block.
  std::function<void(const hub_cached_file&)> on_cached = {};
};

}  // namespace ringload::inline v0
