// SPDX-License-Identifier: Apache-2.0
#pragma once

// Creates the manual page and the shell completions of a program from the definitions of its
// command line. All functions except write_manual() are pure.

#include <span>
#include <string>
#include <string_view>

namespace CLI {
class App;
}

namespace ringload::tool {

/// A command line as an example, with a sentence that describes the effect.
struct example {
  std::string_view command_line;
  std::string_view effect;
};

struct environment_variable {
  std::string_view names;
  std::string_view effect;
};

/// Text for the manual page that the definitions of the command line do not contain.
struct manual_extras {
  std::string_view summary;  // For the section NAME, without a full stop.
  std::span<const environment_variable> environment;
  std::span<const example> examples;
  std::string_view see_also;  // For example, "uring-bench(1)".
};

/// Returns a manual page for section 1, with the macros of man(7). Each subcommand has a section
/// with all its options.
std::string man_page(const CLI::App& root, const manual_extras& extras);

/// Return scripts for shell completion. The shell then completes subcommands, options, and the
/// values of options with a fixed set of values. The shell completes any other word as a file name.
std::string bash_completion(const CLI::App& root);
std::string zsh_completion(const CLI::App& root);
std::string fish_completion(const CLI::App& root);

/// Writes the manual page and the three completions to `folder`: NAME.1, NAME.bash, _NAME and
/// NAME.fish. Throws `std::runtime_error`.
void write_manual(const CLI::App& root, const manual_extras& extras, const std::string& folder);

}  // namespace ringload::tool
