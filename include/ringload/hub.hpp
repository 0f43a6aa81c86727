// SPDX-License-Identifier: Apache-2.0
#pragma once

// How the component `remote` reads models of the Hugging Face hub: hf://owner/model[@revision],
// their pages' addresses, and names `owner/model` that are not in the local cache.
//
// The hub is asked for the revision's commit. Where the local cache has that commit's files, they
// are loaded from there, as any file is; where the hub cannot be reached, the revision that the
// cache has is.

#include <cstdint>
#include <functional>
#include <string>

namespace ringload::inline v0 {

enum class hub_cache : std::uint8_t {
  off,   ///< Neither read nor written.
  read,  ///< What it has is not fetched.
  /// The same, and bytes that are fetched are written into it as they pass, and hashed: a load that
  /// has fetched a file as a whole fails with errc::wrong_digest if the digest is not the hub's.
  /// Digests of files of which only a part is loaded, and of files that cannot be written into the
  /// cache, are not compared; with `off` and `read` none is.
  fill,
};

/// What became of a file that was to be written into the cache.
struct hub_cached_file {
  hub_cached_file() {}

  std::string name;    ///< "owner/model/model.safetensors"
  bool whole = false;  ///< It is in the cache, and its digest is right.
  /// Bytes of it that are still missing. What is there is kept, and the next load goes on with it.
  std::uint64_t missing_bytes = 0;
  /// What went wrong. Empty: nothing, it was only not loaded as a whole; or its digest is wrong,
  /// and the load has failed with that.
  std::string why;
};

struct hub_options {
  hub_options() {}

  std::string endpoint = "https://huggingface.co";
  /// Sent to the endpoint only. Empty: none. Needed for models that are gated or private.
  std::string token;
  hub_cache cache = hub_cache::read;
  /// Empty: where huggingface_hub has it, by HF_HUB_CACHE, HF_HOME and HOME.
  std::string cache_folder;
  /// Called once for each file when no load uses it any more, in a thread of the component's; it
  /// must not block. A file that cannot be written into the cache is loaded all the same.
  std::function<void(const hub_cached_file&)> on_cached;
};

}  // namespace ringload::inline v0
