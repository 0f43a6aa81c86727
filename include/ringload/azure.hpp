// SPDX-License-Identifier: Apache-2.0
#pragma once

// Options for the names az://account/container/key, in the component `remote`. Objects of Azure
// Blob Storage are read over HTTPS. The objects are public, or a shared access signature gives
// access. Folders cannot be listed. A name must be the name of one file, or of an index whose
// shards are next to it.

#include <ringload/export.hpp>
#include <string>

namespace ringload::inline v0 {

/// Options for Azure Blob Storage.
struct azure_options {
  RINGLOAD_OPTION_STRUCT(azure_options)

  /// The address of another service, "https://host[:port]". The path of each request then begins
  /// with the account. Empty means https://account.blob.core.windows.net.
  std::string endpoint = {};
  /// A shared access signature: the query string "sv=...&sig=...", with or without '?'. Empty
  /// means that requests are not signed, so only public objects can be read.
  std::string sas_token = {};
};

}  // namespace ringload::inline v0
