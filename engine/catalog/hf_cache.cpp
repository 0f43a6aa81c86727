// SPDX-License-Identifier: Apache-2.0

#include "catalog/hf_cache.hpp"

#include <algorithm>
#include <cstdlib>

#include "base/printable.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::size_t ref_bytes_max = 1024;

// Replaces $NAME and ${NAME} by the value of the variable. Does not replace unset variables.
std::string expand_variables(std::string_view text, const environment& variables) {
  std::string out;
  while (!text.empty()) {
    const bool braced = text.starts_with("${");
    const std::string_view tail = text.substr(std::min<std::size_t>(braced ? 2 : 1, text.size()));
    const auto name_end = std::ranges::find_if_not(tail, is_word);
    const std::string_view name(tail.begin(), name_end);
    const bool closed = !braced || (name_end != tail.end() && *name_end == '}');
    if (text.front() == '$' && !name.empty() && closed) {
      const std::size_t bytes = name.size() + (braced ? 3 : 1);
      out += variables(std::string(name)).value_or(std::string(text.substr(0, bytes)));
      text.remove_prefix(bytes);
    } else {
      out += text.front();
      text.remove_prefix(1);
    }
  }
  return out;
}

std::string expand(std::string text, const environment& variables) {
  const bool at_home = text == "~" || text.starts_with("~/");
  if (const auto home = at_home ? variables("HOME") : std::nullopt) text.replace(0, 1, *home);
  return expand_variables(text, variables);
}

std::optional<std::string> value_of(const char* name, const environment& variables) {
  auto value = variables(name);
  if (!value || value->empty()) return std::nullopt;
  return expand(*std::move(value), variables);
}

std::string_view trimmed(std::string_view text) noexcept {
  constexpr std::string_view blank = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(blank);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(blank) + 1 - begin);
}

result<std::string> commit_of(const model_folder& repository, const model_name& model) {
  if (is_commit(model.revision)) return model.revision;
  const std::string ref = "refs/" + model.revision;
  const std::string place = printable_path(repository.path_of(ref));
  auto text = repository.read_text(ref, ref_bytes_max);
  if (!text) {
    fault problem = text.error();
    if (problem.code == errc::source_not_found) {
      problem = {problem.code, problem.where(),
                 "the cache has no revision '" + printable(model.revision) + "' of this model"};
    }
    return problem.in(place);
  }
  const std::string_view commit = trimmed(*text);
  if (is_commit(commit)) return std::string(commit);
  return fault{errc::source_not_found, place,
               "expected a commit of 40 hexadecimal digits but found '" + printable(commit) + "'"};
}

}  // namespace

environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return value;
  };
}

result<std::string> cache_folder(const environment& variables) {
  if (auto folder = value_of("HF_HUB_CACHE", variables)) return *folder;
  if (auto folder = value_of("HUGGINGFACE_HUB_CACHE", variables)) return *folder;
  if (auto home = value_of("HF_HOME", variables)) return *home + "/hub";
  if (auto home = value_of("XDG_CACHE_HOME", variables)) return *home + "/huggingface/hub";
  if (auto home = value_of("HOME", variables)) return *home + "/.cache/huggingface/hub";
  return fault{
      errc::source_not_found, "",
      "there is no Hugging Face cache, because none of HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, "
      "HF_HOME, XDG_CACHE_HOME and HOME is set"};
}

std::string repository_folder(const model_name& model) {
  std::string out = "models--" + model.repository;
  if (const std::size_t slash = out.find('/'); slash != out.npos) out.replace(slash, 1, "--");
  return out;
}

result<model_folder> open_cached_model(const std::string& cache, const model_name& model) {
  const std::string root = cache + "/" + repository_folder(model);
  auto repository = model_folder::open_rooted(root, "", root);
  if (!repository) {
    fault problem = repository.error();
    const bool absent = problem.code == boost::system::errc::no_such_file_or_directory ||
                        problem.code == boost::system::errc::not_a_directory;
    if (absent) {
      problem = {errc::source_not_found, "", "the Hugging Face cache does not hold this model"};
    }
    return problem.in(printable_path(root));
  }
  auto commit = commit_of(*repository, model);
  if (!commit) return commit.error();

  const std::string inside = "snapshots/" + *commit;
  auto snapshot = model_folder::open_rooted(root, inside + "/", repository->path_of(inside));
  if (!snapshot) return snapshot.error().in(printable_path(root));
  if (auto names = snapshot->names(); !names) {
    fault problem = names.error();
    if (problem.code == errc::source_not_found) {
      problem = {problem.code, problem.where(),
                 "the cache lacks this commit of the model: the download may be incomplete"};
    }
    return problem.in(printable_path(snapshot->shown()));
  }
  return snapshot;
}

}  // namespace ringload::inline v0
