// SPDX-License-Identifier: Apache-2.0
#include "arguments.hpp"

#include <CLI/CLI.hpp>

namespace ringload::bench {

option& option::required() {
  of_->required();
  return *this;
}

option& option::positive() {
  of_->check(CLI::PositiveNumber);
  return *this;
}

option& option::between(double least, double most) {
  of_->check(CLI::Range(least, most));
  return *this;
}

option& option::among(std::initializer_list<const char*> words) {
  of_->check(CLI::IsMember(std::vector<std::string>(words.begin(), words.end())));
  return *this;
}

arguments::arguments(const char* about, const char* program)
    : app_(std::make_unique<CLI::App>(about, program)) {}

arguments::~arguments() = default;

option arguments::add_option(const char* name, std::string& target, const char* about) {
  return option(app_->add_option(name, target, about));
}

option arguments::add_option(const char* name, int& target, const char* about) {
  return option(app_->add_option(name, target, about));
}

option arguments::add_option(const char* name, unsigned& target, const char* about) {
  return option(app_->add_option(name, target, about));
}

option arguments::add_option(const char* name, std::uint16_t& target, const char* about) {
  return option(app_->add_option(name, target, about));
}

option arguments::add_option(const char* name, std::uint64_t& target, const char* about) {
  return option(app_->add_option(name, target, about));
}

option arguments::add_option(const char* name, double& target, const char* about) {
  return option(app_->add_option(name, target, about));
}

option arguments::add_option(const char* name, std::vector<std::string>& target,
                             const char* about) {
  return option(app_->add_option(name, target, about));
}

option arguments::add_option(const char* name, std::vector<unsigned>& target, const char* about) {
  return option(app_->add_option(name, target, about));
}

void arguments::add_flag(const char* name, bool& target, const char* about) {
  app_->add_flag(name, target, about);
}

std::optional<int> arguments::parse(int argc, char** argv) {
  try {
    app_->parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::ParseError& ended) {
    return app_->exit(ended);
  }
}

}  // namespace ringload::bench
