// SPDX-License-Identifier: Apache-2.0
#pragma once

// Options for models of the Hugging Face hub in the component `remote`:
// hf://owner/model[@revision], the addresses of their pages, and names `owner/model` that are not
// in the local cache.
//
// The hub resolves the revision to a commit. If the local cache has the files of the commit, they
// are loaded from the cache like any file. If the hub cannot be reached, the revision in the cache
// is loaded.

#include <cstdint>
#include <functional>
#include <string>

namespace ringload::inline v0 {

enum class hub_cache : std::uint8_t {
  off,   // The cache is neither read nor written.
  read,  // Files in the cache are not fetched.
  /// As `read`, and fetched bytes are also written into the cache and hashed. If a load fetches a
  /// whole file, and its digest is not the digest of the hub, the load fails with
  /// errc::wrong_digest. Digests are not compared for files that are loaded in part, for files that
  /// cannot be written into the cache, and with `off` and `read`.
  fill,
};

/// The result of writing a file into the cache.
struct hub_cached_file {
  hub_cached_file() {}

  std::string name;    ///< "owner/model/model.safetensors"
  bool whole = false;  // The file is complete in the cache, and its digest is right.
  /// The number of missing bytes. The existing bytes are kept, and the next load fetches the rest.
  std::uint64_t missing_bytes = 0;
  /// The error. Empty: there was no error, but the file was not loaded as a whole; or the digest is
  /// wrong, and the load has failed with that error.
  std::string error_text;
};

struct hub_options {
  hub_options() {}

  std::string endpoint = "https://huggingface.co";
  /// The access token, sent to the endpoint only. Empty: no token. Required for gated and private
  /// models.
  std::string token;
  hub_cache cache = hub_cache::read;
  /// The cache folder. Empty: the folder of huggingface_hub, from HF_HUB_CACHE, HF_HOME and HOME.
  std::string cache_folder;
  /// Called once for each file when no load uses it any more, in a thread of the component. The
  /// function must not block. A file that cannot be written into the cache is loaded anyway.
  std::function<void(const hub_cached_file&)> on_cached;
};

}  // namespace ringload::inline v0
