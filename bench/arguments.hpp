// SPDX-License-Identifier: Apache-2.0
#pragma once

// The command line of a benchmark, parsed by CLI11. Its templates take the compiler longer than the
// code of a benchmark, so only arguments.cpp includes them.

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

// Further properties of an option that was added.
class option {
 public:
  explicit option(CLI::Option* of) noexcept : of_(of) {}

  option& required();
  /// Refuses values that are not above 0.
  option& positive();
  /// Refuses numbers below `least` and above `most`.
  option& between(double least, double most);
  option& among(std::initializer_list<const char*> words);

 private:
  CLI::Option* of_;
};

class arguments {
 public:
  /// `program` is the name in the usage text. By default, it is the name with which the program was
  /// started.
  explicit arguments(const char* about, const char* program = "");
  ~arguments();

  /// `name` begins with dashes, or is the name of a positional argument. `target` has the default,
  /// and must outlive this object. A vector accepts several values.
  option add_option(const char* name, std::string& target, const char* about = "");
  option add_option(const char* name, int& target, const char* about = "");
  option add_option(const char* name, unsigned& target, const char* about = "");
  option add_option(const char* name, std::uint16_t& target, const char* about = "");
  option add_option(const char* name, std::uint64_t& target, const char* about = "");
  option add_option(const char* name, double& target, const char* about = "");
  option add_option(const char* name, std::vector<std::string>& target, const char* about = "");
  option add_option(const char* name, std::vector<unsigned>& target, const char* about = "");
  void add_flag(const char* name, bool& target, const char* about);

  /// Returns the exit code if the program must end: after the help text, or after an invalid
  /// command line, whose error is printed.
  std::optional<int> parse(int argc, char** argv);

 private:
  std::unique_ptr<CLI::App> app_;
};

}  // namespace ringload::bench
