// SPDX-License-Identifier: Apache-2.0
#include "remote_settings.hpp"

#include <doctest/doctest.h>

#include <map>
#include <string>

#include "aws_profile.hpp"

using namespace ringload;
using namespace ringload::tool;

namespace {

using texts = std::map<std::string, std::string>;

surroundings surrounded_by(const texts& variables, const texts& files = {}) {
  const auto look_up = [](const texts& in) {
    return [in](const std::string& name) -> std::optional<std::string> {
      const auto at = in.find(name);
      if (at == in.end()) return std::nullopt;
      return at->second;
    };
  };
  surroundings out;
  out.variable = look_up(variables);
  out.file = look_up(files);
  return out;
}

std::string token_of(const texts& variables, const texts& files = {}) {
  return hub_settings({}, surrounded_by(variables, files)).token;
}

// "id:secret:session@region endpoint"
std::string s3_of(const texts& variables, const texts& files = {}, const remote_wish& wish = {}) {
  const s3_options got = s3_settings(wish, surrounded_by(variables, files));
  return got.access_key_id + ":" + got.secret_access_key + ":" + got.session_token + "@" +
         got.region + " " + got.endpoint;
}

}  // namespace

TEST_CASE("aws_profile: a section's keys, nested ones too") {
  const std::string text =
      "region = none\n"
      "[default]\n"
      "  # comment\n"
      "aws_access_key_id=AKIA\n"
      "AWS_Secret_Access_Key = a/b+c#d=  ; comment\r\n"
      "s3 =\n"
      "    addressing_style = path\n"
      "    nonsense\n"
      "region = eu-west-1 # comment\n"
      "[ profile   other ]\n"
      "region = us-west-2\n"
      "[broken\n"
      "region = x\n";
  const texts section = aws_section(text, "default");
  CHECK(section.at("aws_access_key_id") == "AKIA");
  CHECK(section.at("aws_secret_access_key") == "a/b+c#d=");
  CHECK(section.at("s3.addressing_style") == "path");
  CHECK(section.at("region") == "eu-west-1");
  CHECK(aws_section(text, aws_config_section("other")) == texts{{"region", "us-west-2"}});
  CHECK(aws_section(text, "absent").empty());
  CHECK(aws_section("", "default").empty());
  CHECK(aws_config_section("default") == "default");
}

TEST_CASE("hub_settings: the token is of the environment, else of the file that it names") {
  CHECK(token_of({}) == "");
  CHECK(token_of({{"HF_TOKEN", " hf_a\n"}, {"HUGGING_FACE_HUB_TOKEN", "hf_b"}}) == "hf_a");
  CHECK(token_of({{"HF_TOKEN", ""}, {"HUGGING_FACE_HUB_TOKEN", "hf_b"}}) == "hf_b");
  const texts files = {{"/h/.cache/huggingface/token", "hf_home\n"},
                       {"/x/huggingface/token", "hf_xdg"},
                       {"/hf/token", "hf_hf"},
                       {"/h/mine", "hf_mine"}};
  CHECK(token_of({{"HOME", "/h"}}, files) == "hf_home");
  CHECK(token_of({{"HOME", "/h"}, {"XDG_CACHE_HOME", "/x"}}, files) == "hf_xdg");
  CHECK(token_of({{"HOME", "/h"}, {"XDG_CACHE_HOME", "/x"}, {"HF_HOME", "/hf"}}, files) == "hf_hf");
  CHECK(token_of({{"HOME", "/h"}, {"HF_TOKEN_PATH", "~/mine"}}, files) == "hf_mine");
  CHECK(token_of({{"HF_TOKEN", "hf_a"}, {"HF_HUB_DISABLE_IMPLICIT_TOKEN", "1"}}) == "");
  remote_wish anonymous;
  anonymous.anonymous = true;
  CHECK(hub_settings(anonymous, surrounded_by({{"HF_TOKEN", "hf_a"}})).token.empty());
}

TEST_CASE("hub_settings: endpoint, cache and offline") {
  CHECK(hub_settings({}, surrounded_by({})).endpoint == "https://huggingface.co");
  const surroundings mirrored = surrounded_by({{"HF_ENDPOINT", "https://mirror"}});
  CHECK(hub_settings({}, mirrored).endpoint == "https://mirror");
  remote_wish wish;
  wish.endpoint = "http://127.0.0.1:1";
  wish.cache = hub_cache::fill;
  CHECK(hub_settings(wish, mirrored).endpoint == "http://127.0.0.1:1");
  CHECK(hub_settings(wish, mirrored).cache == hub_cache::fill);
  CHECK(!is_offline({}, surrounded_by({{"HF_HUB_OFFLINE", "0"}})));
  CHECK(is_offline({}, surrounded_by({{"HF_HUB_OFFLINE", "yes"}})));
  CHECK(is_offline({}, surrounded_by({{"TRANSFORMERS_OFFLINE", "1"}})));
  wish.offline = true;
  CHECK(is_offline(wish, surrounded_by({})));
}

TEST_CASE(
    "find_proxy: the proxy of the command line, else of the environment with its exceptions") {
  const auto proxy = [](const texts& variables, const remote_wish& wish = {}) {
    const proxy_settings found = find_proxy(wish, surrounded_by(variables));
    std::string shown = found.proxy;
    for (const std::string& host : found.no_proxy) shown += "," + host;
    return shown;
  };
  CHECK(proxy({}) == "");
  CHECK(proxy({{"NO_PROXY", "a"}}) == "");
  CHECK(proxy({{"HTTPS_PROXY", "http://p:1"}, {"HTTP_PROXY", "http://q:1"}}) == "http://p:1");
  CHECK(proxy({{"https_proxy", "p:1"}, {"HTTPS_PROXY", "q:1"}}) == "http://p:1");
  CHECK(proxy({{"all_proxy", "http://u:p@p:1"}, {"NO_PROXY", "a,.b:80,"}}) ==
        "http://u:p@p:1,a,.b:80");
  remote_wish wish;
  wish.proxy = "http://mine:1";
  CHECK(proxy({{"HTTPS_PROXY", "http://p:1"}, {"NO_PROXY", "a"}}, wish) == "http://mine:1");
  const surroundings socks = surrounded_by({{"ALL_PROXY", "socks5://p:1"}});
  CHECK(setting_of("remote_options::proxy", {}, socks) == "ALL_PROXY");
  CHECK(setting_of("remote_options::proxy", wish, socks) == "--proxy");
}

TEST_CASE("s3_settings: keys of a file are read again when they have expired") {
  std::string token = "old";
  surroundings changing = surrounded_by({{"HOME", "/h"}});
  changing.file = [&token](const std::string& path) -> std::optional<std::string> {
    if (path != "/h/.aws/credentials") return std::nullopt;
    return "[default]\naws_access_key_id=A\naws_secret_access_key=B\naws_session_token=" + token;
  };
  const s3_options found = s3_settings({}, changing);
  CHECK(found.session_token == "old");
  REQUIRE(found.renew);
  token = "new";
  CHECK(found.renew()->session_token == "new");
  const surroundings fixed =
      surrounded_by({{"AWS_ACCESS_KEY_ID", "A"}, {"AWS_SECRET_ACCESS_KEY", "B"}});
  CHECK(!s3_settings({}, fixed).renew);
}

TEST_CASE("gs_settings, azure_settings: the environment, and nothing if anonymous") {
  const surroundings here = surrounded_by({{"GS_ACCESS_KEY_ID", "A"},
                                           {"GS_SECRET_ACCESS_KEY", "B"},
                                           {"AZURE_STORAGE_SAS_TOKEN", "sv=1"}});
  remote_wish wish;
  CHECK(gs_settings(wish, here).access_key_id == "A");
  CHECK(gs_settings(wish, here).secret_access_key == "B");
  CHECK(azure_settings(wish, here).sas_token == "sv=1");
  CHECK(gs_settings(wish, surrounded_by({{"GS_ACCESS_KEY_ID", "A"}})).access_key_id.empty());
  wish.anonymous = true;
  wish.endpoint = "http://local";
  CHECK(gs_settings(wish, here).access_key_id.empty());
  CHECK(gs_settings(wish, here).endpoint == "http://local");
  CHECK(azure_settings(wish, here).sas_token.empty());
  CHECK(azure_settings(wish, here).endpoint == "http://local");
  CHECK(setting_of("azure_options::sas_token", wish, here) == "AZURE_STORAGE_SAS_TOKEN");
}

TEST_CASE("s3_settings: keys are of the environment, else of the profile, and all of one place") {
  const texts home = {{"HOME", "/h"}};
  const texts files = {{"/h/.aws/credentials",
                        "[default]\naws_access_key_id=A\naws_secret_access_key=B\n"
                        "[lab]\naws_access_key_id=C\naws_secret_access_key=D\naws_session_token=E\n"
                        "[half]\naws_access_key_id=F\n"},
                       {"/h/.aws/config",
                        "[default]\nregion=r1\n[profile lab]\nregion=r2\nendpoint_url=https://lab\n"
                        "[profile config]\naws_access_key_id=G\naws_secret_access_key=H\n"}};
  CHECK(s3_of(home, files) == "A:B:@r1 ");
  CHECK(s3_of({{"HOME", "/h"}, {"AWS_PROFILE", "lab"}}, files) == "C:D:E@r2 https://lab");
  CHECK(s3_of({{"HOME", "/h"}, {"AWS_PROFILE", "config"}}, files) == "G:H:@ ");
  CHECK(s3_of({{"HOME", "/h"}, {"AWS_PROFILE", "half"}}, files) == "::@ ");
  CHECK(s3_of({{"HOME", "/h"}, {"AWS_PROFILE", "absent"}}, files) == "::@ ");
  texts keys = {{"HOME", "/h"}, {"AWS_ACCESS_KEY_ID", "I"}, {"AWS_SECRET_ACCESS_KEY", "J"}};
  CHECK(s3_of(keys, files) == "I:J:@r1 ");
  keys["AWS_SESSION_TOKEN"] = "K";
  keys["AWS_DEFAULT_REGION"] = "r3";
  CHECK(s3_of(keys, files) == "I:J:K@r3 ");
  keys["AWS_REGION"] = "r4";
  keys["AWS_ENDPOINT_URL"] = "https://all";
  CHECK(s3_of(keys, files) == "I:J:K@r4 https://all");
  keys["AWS_ENDPOINT_URL_S3"] = "https://s3";
  CHECK(s3_of(keys, files) == "I:J:K@r4 https://s3");
  CHECK(s3_of({{"AWS_SHARED_CREDENTIALS_FILE", "/c"}},
              {{"/c", "[default]\naws_access_key_id=L\naws_secret_access_key=M\n"}}) == "L:M:@ ");
  remote_wish wish;
  wish.endpoint = "http://127.0.0.1:1";
  wish.anonymous = true;
  CHECK(s3_of(keys, files, wish) == "::@r4 http://127.0.0.1:1");
}

TEST_CASE("s3_settings: a profile that was chosen and gives no keys is the reason for none") {
  const texts files = {{"/h/.aws/config", "[profile sso]\nsso_region=r\n"}};
  const auto reason = [&](const texts& variables, const remote_wish& wish = {}) {
    return s3_settings(wish, surrounded_by(variables, files)).missing_keys_reason;
  };
  CHECK(reason({{"HOME", "/h"}}) == "");
  CHECK(reason({{"HOME", "/h"}, {"AWS_PROFILE", "nosuch"}}) ==
        "there is no profile 'nosuch' of AWS_PROFILE");
  CHECK(reason({{"HOME", "/h"}, {"AWS_DEFAULT_PROFILE", "sso"}}) ==
        "there are no keys in the profile 'sso' of AWS_DEFAULT_PROFILE");
  remote_wish anonymous;
  anonymous.anonymous = true;
  CHECK(reason({{"HOME", "/h"}, {"AWS_PROFILE", "nosuch"}}, anonymous) == "");
}

TEST_CASE("setting_of: an option of the library is what the user gave it by") {
  const surroundings none = surrounded_by({});
  CHECK(setting_of("remote_options::ca_file", {}, none) == "--ca-file");
  CHECK(setting_of("remote_options::proxy", {}, none) == "--proxy");
  CHECK(setting_of("hub_options::endpoint", {}, none) == "HF_ENDPOINT");
  CHECK(setting_of("s3_options::endpoint", {}, surrounded_by({{"AWS_ENDPOINT_URL", "x"}})) ==
        "AWS_ENDPOINT_URL");
  remote_wish wish;
  wish.endpoint = "garbage";
  CHECK(setting_of("hub_options::endpoint", wish, none) == "--endpoint");
  CHECK(setting_of("s3_options::endpoint", wish, none) == "--endpoint");
  CHECK(setting_of("remote_options::threads", {}, none) == "remote_options::threads");
}

TEST_CASE("s3_settings: the profile says whether a bucket stands in the path") {
  const auto style = [](const std::string& text) {
    return s3_settings({}, surrounded_by({{"HOME", "/h"}}, {{"/h/.aws/config", text}})).path_style;
  };
  CHECK(style("[default]\ns3 =\n  addressing_style = path\n") == true);
  CHECK(style("[default]\ns3=\n  addressing_style=virtual\n") == false);
  CHECK(!style("[default]\ns3=\n  addressing_style=auto\n").has_value());
  CHECK(!style("").has_value());
}
