// SPDX-License-Identifier: Apache-2.0
#pragma once

// The settings of the programs for the Hugging Face hub and for S3. There are three sources of
// settings, and an earlier source has priority: the command line, the environment, and the files of
// huggingface_hub and of Amazon's tools. Tokens and keys are never options of the command line,
// because every user of the machine can read command lines.

#include <cstdint>
#include <functional>
#include <optional>
#include <ringload/azure.hpp>
#include <ringload/hub.hpp>
#include <ringload/s3.hpp>
#include <string>
#include <vector>

namespace ringload::tool {

struct remote_wish {
  // The endpoint of the hub or of S3, depending on the source. Empty: the default.
  std::string endpoint;
  std::optional<std::uint32_t> connections;
  std::optional<std::uint64_t> chunk_bytes;
  std::optional<std::uint32_t> stall_seconds_max;
  std::optional<hub_cache> cache;
  bool offline = false;
  std::string ca_file;
  std::string proxy;
  bool anonymous = false;  // If true, no token and no key is sent.
};

/// Access to environment variables and files. Tests replace these functions.
struct surroundings {
  std::function<std::optional<std::string>(const std::string&)> variable;
  /// Returns the content of a small text file. Returns empty if the file cannot be read.
  std::function<std::optional<std::string>(const std::string&)> file;
};

/// Returns functions that read environment variables of this process, and files of at most 1 MiB.
surroundings process_surroundings();

/// Returns the options for the hub. The endpoint is `wish.endpoint` or HF_ENDPOINT. The token is
/// HF_TOKEN or HUGGING_FACE_HUB_TOKEN. If neither is set, the token is the content of the file
/// HF_TOKEN_PATH. If HF_TOKEN_PATH is not set, this file is $HF_HOME/token,
/// $XDG_CACHE_HOME/huggingface/token or ~/.cache/huggingface/token. If
/// HF_HUB_DISABLE_IMPLICIT_TOKEN is true, no token is used.
hub_options hub_settings(const remote_wish& wish, const surroundings& environment);

struct proxy_settings {
  std::string proxy;
  std::vector<std::string> no_proxy;
};

/// Returns the proxy of the command line. If the command line has no proxy, returns the value of
/// HTTPS_PROXY, HTTP_PROXY or ALL_PROXY, and the hosts of NO_PROXY. The names of these variables
/// may be in lower case. If HTTPS_PROXY and HTTP_PROXY differ, HTTPS_PROXY is used for all
/// addresses.
proxy_settings find_proxy(const remote_wish& wish, const surroundings& environment);

/// Returns true if the command line, HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE requests offline mode.
bool is_offline(const remote_wish& wish, const surroundings& environment);

/// Returns the options for S3. The keys are AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and
/// AWS_SESSION_TOKEN. If these variables are not set, the keys come from the profile AWS_PROFILE in
/// the files AWS_SHARED_CREDENTIALS_FILE (~/.aws/credentials) and AWS_CONFIG_FILE (~/.aws/config).
///
/// The region is AWS_REGION or AWS_DEFAULT_REGION. The endpoint is AWS_ENDPOINT_URL_S3 or
/// AWS_ENDPOINT_URL. Other kinds of credentials are not supported: single sign-on,
/// credential_process, role_arn, or the role of a machine.
s3_options s3_settings(const remote_wish& wish, const surroundings& environment);

/// Returns the options for Google Cloud Storage. The HMAC keys are GS_ACCESS_KEY_ID and
/// GS_SECRET_ACCESS_KEY.
s3_options gs_settings(const remote_wish& wish, const surroundings& environment);

/// Returns the options for Azure Blob Storage. The signature is AZURE_STORAGE_SAS_TOKEN.
azure_options azure_settings(const remote_wish& wish, const surroundings& environment);

/// Returns the name of the command-line option or of the variable that set `option`, an option of
/// the library. For "hub_options::endpoint", the result is "--endpoint" or "HF_ENDPOINT". Returns
/// `option` unchanged if the programs do not set this option.
std::string setting_of(const std::string& option, const remote_wish& wish,
                       const surroundings& environment);

}  // namespace ringload::tool
