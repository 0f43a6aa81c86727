// SPDX-License-Identifier: Apache-2.0
#include "manual.hpp"

#include <doctest/doctest.h>

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "command_line.hpp"
#include "manual_text.hpp"

using namespace ringload::tool;

namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// The words of a command line, with single quotes as a shell takes them.
std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '\'') {
      quoted = !quoted;
    } else if (c == ' ' && !quoted) {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  return words;
}

// A small program: one command with an option of each kind.
struct sample {
  CLI::App root{"Does a thing.", "tool"};
  std::string text;
  bool flag = false;

  sample() {
    CLI::App& act = *root.add_subcommand("act", "Act [now]: at once");
    act.add_option("SOURCE", text, "What to act on")->required()->type_name("");
    act.add_option("--mode,-m", text, "How to act.\nDefault: fast")->type_name("fast|slow");
    act.add_option("--to", text, "Where to write it's result")->type_name("FILE");
    act.add_option("--name", text, "A name [any]: free")->type_name("NAME");
    act.add_flag("--force", flag, "Act always");
    act.add_option("--secret", text, "Not for help")->group("");
  }
};

}  // namespace

TEST_CASE("manual: every command and every option of ringload is on the page") {
  describe_command_line([](const CLI::App& root) {
    const std::string page = man_page(root, manual_text);
    for (const CLI::App* command : root.get_subcommands([](const CLI::App*) { return true; })) {
      CHECK(has(page, ".SS ringload " + command->get_name() + "\n"));
      for (const CLI::Option* option : command->get_options()) {
        for (std::string name : option->get_lnames()) {
          for (std::size_t at = 0; (at = name.find('-', at)) != std::string::npos; at += 2) {
            name.insert(at, "\\");
          }
          CHECK_MESSAGE(has(page, "\\-\\-" + name), name);
        }
      }
    }
  });
}

TEST_CASE("manual: every example can be parsed") {
  for (const example& each : examples) {
    const auto words = words_of(each.command_line);
    std::vector<const char*> argv;
    for (const std::string& word : words) argv.push_back(word.c_str());
    CHECK_NOTHROW_MESSAGE(parse_command_line(static_cast<int>(argv.size()), argv.data()),
                          each.command_line);
  }
}

TEST_CASE("manual: text that roff or a shell would obey is escaped") {
  CLI::App root("First line\n.SH no heading\n'no macro\nback\\slash", "tool");
  const std::string page = man_page(root, {});
  CHECK(has(page, "\n\\&.SH no heading\n"));
  CHECK(has(page, "\n\\&\\(aqno macro\n"));
  CHECK(has(page, "back\\eslash"));
  const sample program;
  CHECK(has(fish_completion(program.root), "-d 'Where to write it'\\''s result'"));
  CHECK(has(zsh_completion(program.root), "'*--name=[A name \\[any\\]\\: free]:NAME: '"));
}

TEST_CASE(
    "manual: completions offer the values of a choice, files for a file, and no hidden option") {
  const sample program;
  const std::string bash = bash_completion(program.root);
  CHECK(has(bash, "-m|--mode) COMPREPLY=($(compgen -W 'fast slow' -- \"$current\"))"));
  CHECK(has(bash, "--to) mapfile -t COMPREPLY < <(compgen -f -- \"$current\"); return"));
  CHECK(has(bash, "*) mapfile -t COMPREPLY < <(compgen -f -- \"$current\") ;;"));
  CHECK(has(bash, "--name) COMPREPLY=();"));
  CHECK_FALSE(has(bash, "--force)"));
  const std::string fish = fish_completion(program.root);
  CHECK(has(fish, "'__fish_seen_subcommand_from act' -s m -l mode -x -a 'fast slow'"));
  CHECK(has(fish, "-l to -r -F"));
  CHECK(has(fish, "-l force -d"));
  const std::string zsh = zsh_completion(program.root);
  CHECK(has(zsh, "'*--mode=[How to act]:fast|slow:(fast slow)'"));
  CHECK(has(zsh, "'*--force[Act always]'"));
  for (const std::string& text : {bash, fish, zsh, man_page(program.root, {})}) {
    CHECK_FALSE(has(text, "secret"));
  }
}

TEST_CASE("manual: no check adds its text to the values of a choice of ringload") {
  describe_command_line([](const CLI::App& root) {
    const std::string bash = bash_completion(root);
    CHECK(has(bash, "--indexed) COMPREPLY=($(compgen -W 'xor overwrite' -- \"$current\"))"));
    CHECK(has(bash, "--checksum) COMPREPLY=($(compgen -W 'xxh3-128 adler32' -- \"$current\"))"));
    CHECK_FALSE(has(man_page(root, manual_text), ":{"));
  });
}
