// SPDX-License-Identifier: Apache-2.0

// Functions for the tests of the command-line tool that coreutils do not have.
//
//   json_tool get KEY...   reads JSON on standard input, refuses what is not well-formed, and
//   prints
//                          the value at each "key" or "key.key", a line each; strings as they are
//   json_tool validate SCHEMA...   reads JSON on standard input, and refuses what breaks a rule of
//                          one of these schemas
//   json_tool sums         reads what `ringload ls --json` prints, and prints what `ringload sum`
//                          should: from the files themselves, with pread and SHA-256

#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value_to.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <iostream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "json_schema.hpp"

namespace {

namespace json = boost::json;

json::value standard_input() {
  const std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  return json::parse(text);
}

void print(json::value value, std::string_view path) {
  while (!path.empty()) {
    const std::string key(path.substr(0, path.find('.')));
    path.remove_prefix(std::min(path.size(), key.size() + 1));
    const json::value inner =
        value.is_array() ? value.as_array().at(std::stoul(key)) : value.as_object().at(key);
    value = inner;
  }
  if (value.is_string()) {
    std::cout << std::string_view(value.as_string()) << '\n';
  } else {
    std::cout << value << '\n';
  }
}

// Opens each file once.
class files {
 public:
  ~files() {
    for (const auto& [path, fd] : open_) ::close(fd);
  }
  int operator[](const std::string& path) {
    const auto [at, added] = open_.emplace(path, -1);
    if (added) at->second = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (at->second < 0) throw std::runtime_error("cannot open " + path);
    return at->second;
  }

 private:
  std::map<std::string, int> open_;
};

std::string sha256(int fd, std::uint64_t offset, std::uint64_t bytes) {
  EVP_MD_CTX* digest = ::EVP_MD_CTX_new();
  ::EVP_DigestInit_ex(digest, ::EVP_sha256(), nullptr);
  std::vector<char> buffer(std::size_t{1} << 20);
  while (bytes > 0) {
    const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, buffer.size()));
    const ::ssize_t got = ::pread(fd, buffer.data(), wanted, static_cast<::off_t>(offset));
    if (got <= 0) throw std::runtime_error("a file ends before its tensors do");
    ::EVP_DigestUpdate(digest, buffer.data(), static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::uint64_t>(got);
  }
  std::array<unsigned char, 32> sum = {};
  ::EVP_DigestFinal_ex(digest, sum.data(), nullptr);
  ::EVP_MD_CTX_free(digest);
  std::string hex;
  for (const unsigned char byte : sum) {
    std::array<char, 3> digits = {};
    std::snprintf(digits.data(), digits.size(), "%02x", byte);
    hex += digits.data();
  }
  return hex;
}

void print_sums() {
  const json::value catalog = standard_input();
  files opened;
  std::vector<std::pair<std::string, std::string>> sums;
  for (const json::value& item : catalog.as_object().at("tensors").as_array()) {
    const json::object& tensor = item.as_object();
    sums.emplace_back(json::value_to<std::string>(tensor.at("name")),
                      sha256(opened[json::value_to<std::string>(tensor.at("file"))],
                             json::value_to<std::uint64_t>(tensor.at("offset")),
                             json::value_to<std::uint64_t>(tensor.at("bytes"))));
  }
  std::sort(sums.begin(), sums.end());
  for (const auto& [name, sum] : sums) std::cout << sum << "  " << name << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::vector<std::string_view> words(argv + 1, argv + argc);
    if (!words.empty() && words.front() == "sums") {
      print_sums();
    } else if (!words.empty() && words.front() == "get") {
      const json::value value = standard_input();
      for (std::size_t i = 1; i < words.size(); ++i) print(value, words[i]);
    } else if (!words.empty() && words.front() == "validate") {
      const json::value value = standard_input();
      for (std::size_t i = 1; i < words.size(); ++i) validate(value, std::string(words[i]));
    } else {
      throw std::invalid_argument("get KEY..., validate SCHEMA... or sums");
    }
  } catch (const std::exception& problem) {
    std::cerr << "json_tool: " << problem.what() << '\n';
    return 1;
  }
  return 0;
}
