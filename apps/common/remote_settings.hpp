// SPDX-License-Identifier: Apache-2.0
#pragma once

// How our programs reach the hub and S3: by options of the command line, and for what these leave
// open by the environment and the files that huggingface_hub and Amazon's tools go by. Tokens and
// keys are never on a command line, where every user of the machine could read them.

#include <cstdint>
#include <functional>
#include <optional>
#include <ringload/hub.hpp>
#include <ringload/s3.hpp>
#include <string>

namespace ringload::tool {

struct remote_wish {
  std::string endpoint;  // Of the hub or of S3, whichever the source is of; empty: usual.
  std::optional<std::uint32_t> connections;
  std::optional<std::uint64_t> chunk_bytes;
  std::optional<std::uint32_t> stall_seconds_max;
  std::optional<hub_cache> cache;
  bool offline = false;
  std::string ca_file;
  std::string proxy;
  bool anonymous = false;  // No token and no key is sent.
};

/// What the settings are found in; a parameter, so that tests can replace it.
struct surroundings {
  std::function<std::optional<std::string>(const std::string&)> variable;
  /// The content of a small text file; empty where it cannot be read.
  std::function<std::optional<std::string>(const std::string&)> file;
};

/// This process's environment, and files of at most 1 MiB.
surroundings process_surroundings();

/// HF_ENDPOINT; HF_TOKEN, HUGGING_FACE_HUB_TOKEN, else the file HF_TOKEN_PATH, $HF_HOME/token,
/// $XDG_CACHE_HOME/huggingface/token or ~/.cache/huggingface/token, unless
/// HF_HUB_DISABLE_IMPLICIT_TOKEN says otherwise.
hub_options hub_settings(const remote_wish& wish, const surroundings& of);

/// Whether the command line, HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE says so.
bool is_offline(const remote_wish& wish, const surroundings& of);

/// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, else the profile AWS_PROFILE of
/// AWS_SHARED_CREDENTIALS_FILE (~/.aws/credentials) and AWS_CONFIG_FILE (~/.aws/config);
/// AWS_REGION, AWS_DEFAULT_REGION; AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL. A profile that takes
/// keys from elsewhere (sso, credential_process, role_arn, a machine's own role) has none here.
s3_options s3_settings(const remote_wish& wish, const surroundings& of);

/// The option of the command line, or the variable, that gave an option of the library its value:
/// for "hub_options::endpoint" it is --endpoint or HF_ENDPOINT. Others are returned as they are.
std::string setting_of(const std::string& option, const remote_wish& wish, const surroundings& of);

}  // namespace ringload::tool
