// SPDX-License-Identifier: Apache-2.0
#include "manual.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <fstream>
#include <set>
#include <stdexcept>
#include <vector>

namespace ringload::tool {

namespace {

std::vector<const CLI::App*> commands_of(const CLI::App& root) {
  return root.get_subcommands([](const CLI::App* command) { return !command->get_name().empty(); });
}

// Returns the options that the help text shows.
std::vector<const CLI::Option*> options_of(const CLI::App& command) {
  return command.get_options(
      [](const CLI::Option* option) { return !option->get_group().empty(); });
}

// Returns true if the option needs a value. A flag needs no value.
bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

// Returns the name of the type, without the text that a check adds: "N" for "N:INT in [1 - 9]".
std::string type_of(const CLI::Option& option) {
  if (!takes_value(option)) return {};
  const std::string type = option.get_type_name();
  const std::size_t range = type.find(" in [");
  return range == std::string::npos ? type : type.substr(0, type.rfind(':', range));
}

// Returns the allowed values of an option: three values for "auto|ring|threads". Returns an empty
// list if every text is allowed.
std::vector<std::string> values_of(const CLI::Option& option) {
  const std::string type = type_of(option);
  const auto belongs = [](unsigned char c) {
    return std::islower(c) != 0 || std::isdigit(c) != 0 || c == '|' || c == '-' || c == '_';
  };
  std::vector<std::string> values;
  if (type.empty() || !std::ranges::all_of(type, belongs)) return values;
  for (std::size_t begin = 0; begin <= type.size();) {
    const std::size_t end = std::min(type.find('|', begin), type.size());
    values.push_back(type.substr(begin, end - begin));
    begin = end + 1;
  }
  return values;
}

bool names_file(const CLI::Option& option) {
  const std::string type = type_of(option);
  return type == "FILE" || type == "PATH" || type == "SOCKET";
}

// Returns the names of an option, such as "-h, --help". Returns the name of a positional argument.
std::string spelling_of(const CLI::Option& option) {
  if (option.get_positional()) return option.get_name();
  std::string names;
  for (const std::string& name : option.get_snames()) names += (names.empty() ? "-" : ", -") + name;
  for (const std::string& name : option.get_lnames()) {
    names += (names.empty() ? "--" : ", --") + name;
  }
  return names;
}

std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

std::string first_sentence(const std::string& text) {
  const std::string line = one_line(text);
  const std::size_t end = line.find(". ");
  return end == std::string::npos ? line : line.substr(0, end);
}

// --- man(7)

// Escapes text for roff. Escaped dashes remain ASCII dashes, so that a reader can copy an option.
// No line begins with a control character of roff.
std::string roff(std::string_view text) {
  std::string out;
  bool begins_line = true;
  for (const char c : text) {
    if (begins_line && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if (c == '\'') {
      out += "\\(aq";
    } else if (c == '^') {
      out += "\\(ha";
    } else if (c == '~') {
      out += "\\(ti";
    } else {
      out += c;
    }
    begins_line = c == '\n';
  }
  return out;
}

// Returns the paragraphs of `text` for roff. Empty lines separate the paragraphs in `text`. Omits
// the paragraphs in `printed`, and adds the others to `printed`.
std::string roff_paragraphs(const std::string& text, std::set<std::string>& printed) {
  std::string out;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find("\n\n", begin), text.size());
    std::string paragraph = text.substr(begin, end - begin);
    while (paragraph.ends_with('\n')) paragraph.pop_back();
    while (paragraph.starts_with('\n')) paragraph.erase(0, 1);
    if (!paragraph.empty() && printed.insert(paragraph).second) {
      out += ".PP\n" + roff(paragraph) + "\n";
    }
    begin = end + 2;
  }
  return out;
}

std::string roff_option(const CLI::Option& option) {
  std::string head = "\\fB" + roff(spelling_of(option)) + "\\fR";
  if (option.get_positional()) head = "\\fI" + roff(option.get_name()) + "\\fR";
  const std::string type = type_of(option);
  if (!type.empty() && !option.get_positional()) head += " \\fI" + roff(type) + "\\fR";
  std::string text = ".TP\n" + head + "\n" + roff(option.get_description()) + ".\n";
  if (option.get_required() && !option.get_positional()) text += "Required.\n";
  return text;
}

std::string synopsis_of(const CLI::App& root, const CLI::App& command) {
  std::string line =
      fmt::format(".B {} {}\n[\\fIoptions\\fR]", roff(root.get_name()), roff(command.get_name()));
  for (const CLI::Option* option : options_of(command)) {
    if (!option->get_positional()) continue;
    const std::string name = "\\fI" + roff(option->get_name()) + "\\fR";
    const bool several = option->get_items_expected_max() > 1;
    line += (option->get_required() ? " " + name : " [" + name + "]") + (several ? "..." : "");
  }
  return line + "\n.br\n";
}

// --- Shells

// Returns the text as a quoted string for a POSIX shell and for fish.
std::string shell_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + word;
  return out;
}

std::vector<std::string> spellings_of(const CLI::Option& option) {
  std::vector<std::string> all;
  for (const std::string& name : option.get_snames()) all.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) all.push_back("--" + name);
  return all;
}

std::vector<std::string> all_spellings(const CLI::App& command) {
  std::vector<std::string> all;
  for (const CLI::Option* option : options_of(command)) {
    for (const std::string& one : spellings_of(*option)) all.push_back(one);
  }
  return all;
}

// Returns a pattern for `case` in bash: "--engine|-e".
std::string pattern_of(const CLI::Option& option) {
  std::string pattern;
  for (const std::string& one : spellings_of(option)) pattern += (pattern.empty() ? "" : "|") + one;
  return pattern;
}

std::string bash_values(const CLI::App& command) {
  std::string text;
  for (const CLI::Option* option : options_of(command)) {
    if (option->get_positional() || !takes_value(*option)) continue;
    const auto values = values_of(*option);
    std::string reply = "COMPREPLY=()";
    if (!values.empty()) {
      reply = "COMPREPLY=($(compgen -W " + shell_quoted(joined(values)) + " -- \"$current\"))";
    } else if (names_file(*option)) {
      reply = "mapfile -t COMPREPLY < <(compgen -f -- \"$current\")";
    }
    text += "        " + pattern_of(*option) + ") " + reply + "; return ;;\n";
  }
  return text;
}

// Escapes a description for `_arguments` of zsh, which interprets brackets and colons.
std::string zsh_escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_option(const CLI::Option& option, const std::string& spelling) {
  std::string spec =
      "*" + spelling + "[" + zsh_escaped(first_sentence(option.get_description())) + "]";
  if (takes_value(option)) {
    if (spelling.starts_with("--")) spec.insert(1 + spelling.size(), "=");
    spec += ":" + zsh_escaped(type_of(option)) + ":";
    const auto values = values_of(option);
    if (!values.empty()) {
      spec += "(" + joined(values) + ")";
    } else if (names_file(option)) {
      spec += "_files";
    } else {
      spec += " ";
    }
  }
  return shell_quoted(spec);
}

}  // namespace

std::string man_page(const CLI::App& root, const manual_extras& extras) {
  const std::string& name = root.get_name();
  std::string upper = name;
  std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return std::toupper(c); });
  std::string text = fmt::format(
      ".\\\" Generated from the definitions of the command line.\n"
      ".TH {} 1 \"\" \"{}\" \"User Commands\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n.nh\n",
      roff(upper), roff(root.version()), roff(name), roff(extras.summary));
  std::set<std::string> printed;
  const auto commands = commands_of(root);
  for (const CLI::App* command : commands) text += synopsis_of(root, *command);
  text += fmt::format(".B {}\n\\fB\\-\\-help\\fR|\\fB\\-\\-version\\fR\n.hy\n.SH DESCRIPTION\n",
                      roff(name));
  text += roff_paragraphs(root.get_description(), printed);
  text += roff_paragraphs(root.get_footer(), printed);
  text += ".SH COMMANDS\n";
  for (const CLI::App* command : commands) {
    text += ".SS " + roff(name + " " + command->get_name()) + "\n" +
            roff(command->get_description()) + ".\n";
    for (const CLI::Option* option : options_of(*command)) text += roff_option(*option);
    text += roff_paragraphs(command->get_footer(), printed);
  }
  if (!extras.environment.empty()) text += ".SH ENVIRONMENT\n";
  for (const environment_variable& each : extras.environment) {
    text += fmt::format(".TP\n\\fB{}\\fR\n{}\n", roff(each.names), roff(each.effect));
  }
  text += ".SH EXAMPLES\n";
  for (const example& each : extras.examples) {
    text += fmt::format(".PP\n{}\n.PP\n.RS 4\n.EX\n{}\n.EE\n.RE\n", roff(each.effect),
                        roff(each.command_line));
  }
  return text + ".SH SEE ALSO\n" + roff(extras.see_also) + "\n";
}

std::string bash_completion(const CLI::App& root) {
  const std::string& name = root.get_name();
  std::string function = "_" + name;
  std::ranges::replace(function, '-', '_');
  std::vector<std::string> first = all_spellings(root);
  std::string cases;
  for (const CLI::App* command : commands_of(root)) {
    first.push_back(command->get_name());
    cases += "    " + command->get_name() + ")\n      case \"$previous\" in\n" +
             bash_values(*command) +
             "      esac\n      options=" + shell_quoted(joined(all_spellings(*command))) +
             "\n      ;;\n";
  }
  return "# bash completion for " + name +
         ", generated from the definitions of its command line.\n\n" + function +
         "() {\n"
         "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}\n"
         "  local options=\n"
         "  COMPREPLY=()\n"
         "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
         "    COMPREPLY=($(compgen -W " +
         shell_quoted(joined(first)) +
         " -- \"$current\"))\n"
         "    return\n"
         "  fi\n"
         "  case ${COMP_WORDS[1]} in\n" +
         cases +
         "  esac\n"
         "  case $current in\n"
         "    -*) COMPREPLY=($(compgen -W \"$options\" -- \"$current\")) ;;\n"
         "    *) mapfile -t COMPREPLY < <(compgen -f -- \"$current\") ;;\n"
         "  esac\n"
         "}\n\n"
         "complete -o filenames -F " +
         function + " " + name + "\n";
}

std::string zsh_completion(const CLI::App& root) {
  const std::string& name = root.get_name();
  std::string commands;
  std::string cases;
  for (const CLI::App* command : commands_of(root)) {
    commands += "    " +
                shell_quoted(zsh_escaped(command->get_name()) + ":" +
                             first_sentence(command->get_description())) +
                "\n";
    cases += "        " + command->get_name() + ")\n          _arguments \\\n";
    for (const CLI::Option* option : options_of(*command)) {
      for (const std::string& one : spellings_of(*option)) {
        cases += "            " + zsh_option(*option, one) + " \\\n";
      }
    }
    cases += "            '*:file:_files'\n          ;;\n";
  }
  std::string function = "_" + name;
  return "#compdef " + name + "\n# Generated from the definitions of the command line.\n\n" +
         function +
         "() {\n"
         "  local context state state_descr line\n"
         "  typeset -A opt_args\n"
         "  local -a commands\n"
         "  commands=(\n" +
         commands +
         "  )\n"
         "  _arguments -C '--help[Print help]' '--version[Print the version]' \\\n"
         "    '1: :->command' '*:: :->rest'\n"
         "  case $state in\n"
         "    command) _describe command commands ;;\n"
         "    rest)\n"
         "      case $words[1] in\n" +
         cases +
         "      esac\n"
         "      ;;\n"
         "  esac\n"
         "}\n\n" +
         function + " \"$@\"\n";
}

std::string fish_completion(const CLI::App& root) {
  const std::string& name = root.get_name();
  std::string text =
      "# fish completion for " + name + ", generated from the definitions of its command line.\n";
  const std::string begin = "complete -c " + name + " -n ";
  for (const CLI::Option* option : options_of(root)) {
    for (const std::string& one : option->get_lnames()) {
      text += begin + "__fish_use_subcommand -l " + one + " -d " +
              shell_quoted(first_sentence(option->get_description())) + "\n";
    }
  }
  for (const CLI::App* command : commands_of(root)) {
    text += begin + "__fish_use_subcommand -f -a " + command->get_name() + " -d " +
            shell_quoted(first_sentence(command->get_description())) + "\n";
  }
  for (const CLI::App* command : commands_of(root)) {
    const std::string only =
        begin + shell_quoted("__fish_seen_subcommand_from " + command->get_name());
    for (const CLI::Option* option : options_of(*command)) {
      if (option->get_positional()) continue;
      std::string line = only;
      for (const std::string& one : option->get_snames()) line += " -s " + one;
      for (const std::string& one : option->get_lnames()) line += " -l " + one;
      const auto values = values_of(*option);
      if (!values.empty()) {
        line += " -x -a " + shell_quoted(joined(values));
      } else if (takes_value(*option)) {
        line += names_file(*option) ? " -r -F" : " -x";
      }
      text += line + " -d " + shell_quoted(first_sentence(option->get_description())) + "\n";
    }
  }
  return text;
}

void write_manual(const CLI::App& root, const manual_extras& extras, const std::string& folder) {
  const std::string& name = root.get_name();
  const auto write = [&folder](const std::string& file, const std::string& text) {
    std::ofstream out(folder + "/" + file, std::ios::binary);
    out << text;
    out.close();
    if (!out) throw std::runtime_error(folder + "/" + file + ": cannot be written");
  };
  write(name + ".1", man_page(root, extras));
  write(name + ".bash", bash_completion(root));
  write("_" + name, zsh_completion(root));
  write(name + ".fish", fish_completion(root));
}

}  // namespace ringload::tool
