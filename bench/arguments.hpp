// SPDX-License-Identifier: Apache-2.0
#pragma once

// The command line of a benchmark, read by CLI11. Its templates take the compiler longer than a
// benchmark's own code, so only arguments.cpp includes them.

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace ringload::bench {

// What may be said of an option that was just added.
class option {
 public:
  explicit option(CLI::Option* of) noexcept : of_(of) {}

  option& required();
  /// Refuses what is no number above 0.
  option& positive();
  /// Refuses numbers outside of these bounds, which are allowed themselves.
  option& between(double least, double most);
  option& among(std::initializer_list<const char*> words);

 private:
  CLI::Option* of_;
};

class arguments {
 public:
  /// `program` stands in the usage; without it the name that the program was called by.
  explicit arguments(const char* about, const char* program = "");
  ~arguments();

  /// `name` begins with dashes, or is that of an argument. `target` holds the default, and must
  /// outlive this. A vector takes several values.
  option add_option(const char* name, std::string& target, const char* about = "");
  option add_option(const char* name, int& target, const char* about = "");
  option add_option(const char* name, unsigned& target, const char* about = "");
  option add_option(const char* name, std::uint16_t& target, const char* about = "");
  option add_option(const char* name, std::uint64_t& target, const char* about = "");
  option add_option(const char* name, double& target, const char* about = "");
  option add_option(const char* name, std::vector<std::string>& target, const char* about = "");
  option add_option(const char* name, std::vector<unsigned>& target, const char* about = "");
  void add_flag(const char* name, bool& target, const char* about);

  /// The exit code if the program is to end, because of help that was asked for or a mistake, which
  /// is then printed.
  std::optional<int> parse(int argc, char** argv);

 private:
  std::unique_ptr<CLI::App> app_;
};

}  // namespace ringload::bench
