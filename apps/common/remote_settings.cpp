// SPDX-License-Identifier: Apache-2.0
#include "remote_settings.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <map>

#include "aws_profile.hpp"
#include "text.hpp"

namespace ringload::tool {

namespace {

constexpr std::size_t file_bytes_max = std::size_t{1} << 20;

using values = std::map<std::string, std::string>;

using variables = std::initializer_list<const char*>;
constexpr variables profile_names = {"AWS_PROFILE", "AWS_DEFAULT_PROFILE"};
constexpr variables s3_endpoints = {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"};
constexpr variables proxies = {"https_proxy", "HTTPS_PROXY", "http_proxy",
                               "HTTP_PROXY",  "all_proxy",   "ALL_PROXY"};

// Returns the name of the first variable that is set and not empty. Returns an empty string if
// there is none.
std::string set_of(variables names, const surroundings& environment) {
  for (const char* name : names) {
    const auto value = environment.variable(name);
    if (value && !value->empty()) return name;
  }
  return {};
}

// Returns the value of the first variable that is set and not empty.
std::string first_of(variables names, const surroundings& environment) {
  const std::string name = set_of(names, environment);
  return name.empty() ? name : environment.variable(name).value_or("");
}

bool is_true(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return text == "1" || text == "ON" || text == "YES" || text == "TRUE";
}

std::string at_home(std::string path, const surroundings& environment) {
  if (path == "~" || path.starts_with("~/")) path.replace(0, 1, first_of({"HOME"}, environment));
  return path;
}

std::string value_of(const values& in, const std::string& key) {
  const auto found = in.find(key);
  return found == in.end() ? std::string() : found->second;
}

std::string hub_home(const surroundings& environment) {
  if (auto home = first_of({"HF_HOME"}, environment); !home.empty())
    return at_home(home, environment);
  if (auto home = first_of({"XDG_CACHE_HOME"}, environment); !home.empty()) {
    return at_home(home, environment) + "/huggingface";
  }
  return at_home("~/.cache/huggingface", environment);
}

std::string hub_token(const surroundings& environment) {
  if (is_true(first_of({"HF_HUB_DISABLE_IMPLICIT_TOKEN"}, environment))) return {};
  const std::string token(trimmed(first_of({"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}, environment)));
  if (!token.empty()) return token;
  std::string path = at_home(first_of({"HF_TOKEN_PATH"}, environment), environment);
  if (path.empty()) path = hub_home(environment) + "/token";
  return std::string(trimmed(environment.file(path).value_or("")));
}

values section_of(const std::string& path, const std::string& section,
                  const surroundings& environment) {
  return aws_section(environment.file(at_home(path, environment)).value_or(""), section);
}

}  // namespace

surroundings process_surroundings() {
  surroundings out;
  out.variable = [](const std::string& name) -> std::optional<std::string> {
    const char* const value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return value;
  };
  out.file = [](const std::string& path) -> std::optional<std::string> {
    std::ifstream in(path, std::ios::binary);
    std::string content(file_bytes_max + 1, '\0');
    in.read(content.data(), static_cast<std::streamsize>(content.size()));
    if (in.bad() || in.gcount() == 0 || content.size() == static_cast<std::size_t>(in.gcount())) {
      return std::nullopt;
    }
    content.resize(static_cast<std::size_t>(in.gcount()));
    return content;
  };
  return out;
}

hub_options hub_settings(const remote_wish& wish, const surroundings& environment) {
  hub_options out;
  const std::string endpoint = first_of({"HF_ENDPOINT"}, environment);
  if (!endpoint.empty()) out.endpoint = endpoint;
  if (!wish.endpoint.empty()) out.endpoint = wish.endpoint;
  if (!wish.anonymous) out.token = hub_token(environment);
  if (wish.cache) out.cache = *wish.cache;
  return out;
}

proxy_settings find_proxy(const remote_wish& wish, const surroundings& environment) {
  proxy_settings out;
  out.proxy = wish.proxy;
  if (!out.proxy.empty()) return out;
  out.proxy = first_of(proxies, environment);
  if (out.proxy.empty()) return out;
  if (out.proxy.find("://") == std::string::npos) out.proxy.insert(0, "http://");
  const std::string exempt = first_of({"no_proxy", "NO_PROXY"}, environment);
  for (std::size_t begin = 0; begin < exempt.size();) {
    const std::size_t end = std::min(exempt.find(',', begin), exempt.size());
    out.no_proxy.push_back(exempt.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

bool is_offline(const remote_wish& wish, const surroundings& environment) {
  return wish.offline || is_true(first_of({"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"}, environment));
}

s3_options s3_settings(const remote_wish& wish, const surroundings& environment) {
  std::string profile = first_of(profile_names, environment);
  if (profile.empty()) profile = "default";
  const std::string keys_file = first_of({"AWS_SHARED_CREDENTIALS_FILE"}, environment);
  const std::string config_file = first_of({"AWS_CONFIG_FILE"}, environment);
  const values keys =
      section_of(keys_file.empty() ? "~/.aws/credentials" : keys_file, profile, environment);
  const values config = section_of(config_file.empty() ? "~/.aws/config" : config_file,
                                   aws_config_section(profile), environment);

  s3_options out;
  out.region = first_of({"AWS_REGION", "AWS_DEFAULT_REGION"}, environment);
  if (out.region.empty()) out.region = value_of(config, "region");
  out.endpoint = wish.endpoint;
  if (out.endpoint.empty()) out.endpoint = first_of(s3_endpoints, environment);
  if (out.endpoint.empty()) out.endpoint = value_of(config, "endpoint_url");
  const std::string style = value_of(config, "s3.addressing_style");
  if (style == "path") out.path_style = true;
  if (style == "virtual") out.path_style = false;
  if (wish.anonymous) return out;

  out.access_key_id = first_of({"AWS_ACCESS_KEY_ID"}, environment);
  out.secret_access_key = first_of({"AWS_SECRET_ACCESS_KEY"}, environment);
  out.session_token = first_of({"AWS_SESSION_TOKEN"}, environment);
  const bool from_file = out.access_key_id.empty() || out.secret_access_key.empty();
  // The three values must come from the same source, because a secret belongs to one key.
  for (const values* from : {&keys, &config}) {
    if (!out.access_key_id.empty() && !out.secret_access_key.empty()) break;
    out.access_key_id = value_of(*from, "aws_access_key_id");
    out.secret_access_key = value_of(*from, "aws_secret_access_key");
    out.session_token = value_of(*from, "aws_session_token");
  }
  if (out.secret_access_key.empty()) out.access_key_id.clear();
  if (from_file && !out.access_key_id.empty()) {
    // Reads the files again, because another program writes new keys to them before the old keys
    // expire.
    out.renew = [wish, environment]() -> std::optional<s3_keys> {
      const s3_options now = s3_settings(wish, environment);
      return s3_keys{now.access_key_id, now.secret_access_key, now.session_token};
    };
  }
  if (!out.access_key_id.empty()) return out;
  out.session_token.clear();
  if (set_of(profile_names, environment).empty()) return out;
  const bool absent = keys.empty() && config.empty();
  out.missing_keys_reason =
      (absent ? "there is no profile '" : "there are no keys in the profile '") +
      printable(profile) + "' of " + set_of(profile_names, environment);
  return out;
}

s3_options gs_settings(const remote_wish& wish, const surroundings& environment) {
  s3_options out;
  out.endpoint = wish.endpoint;
  if (wish.anonymous) return out;
  out.access_key_id = first_of({"GS_ACCESS_KEY_ID"}, environment);
  out.secret_access_key = first_of({"GS_SECRET_ACCESS_KEY"}, environment);
  if (out.secret_access_key.empty()) out.access_key_id.clear();
  return out;
}

azure_options azure_settings(const remote_wish& wish, const surroundings& environment) {
  azure_options out;
  out.endpoint = wish.endpoint;
  if (!wish.anonymous) out.sas_token = first_of({"AZURE_STORAGE_SAS_TOKEN"}, environment);
  return out;
}

std::string setting_of(const std::string& option, const remote_wish& wish,
                       const surroundings& environment) {
  if (option == "remote_options::ca_file") return "--ca-file";
  if (option == "remote_options::proxy") {
    const std::string variable = set_of(proxies, environment);
    return wish.proxy.empty() && !variable.empty() ? variable : "--proxy";
  }
  if (option == "remote_options::connections") return "--connections";
  if (option == "remote_options::chunk_bytes") return "--chunk-bytes";
  if (option == "remote_options::stall_time_max") return "--stall-max";
  if (option == "hub_options::token") return "the hub's token";
  if (option == "s3_options::access_key_id") return "the keys for S3";
  if (option == "azure_options::sas_token") return "AZURE_STORAGE_SAS_TOKEN";
  const bool hub = option == "hub_options::endpoint";
  if (!hub && option != "s3_options::endpoint") return option;
  if (!wish.endpoint.empty()) return "--endpoint";
  if (hub) return "HF_ENDPOINT";
  const std::string variable = set_of(s3_endpoints, environment);
  return variable.empty() ? "endpoint_url of the profile of AWS" : variable;
}

}  // namespace ringload::tool
