// SPDX-License-Identifier: Apache-2.0

// Saves, and files that a writer writes or continues.

#include <ringload/writer.hpp>

#include "client.hpp"
#include "power.hpp"

namespace ringload::simulation {

namespace {

// The tensors of a model, as they must be in a file.
std::shared_ptr<bytes_by_name> expected_in_file(const program::kept_model& saved) {
  auto tensors = std::make_shared<bytes_by_name>();
  for (const tensor& each : saved.loaded) {
    const std::string name(each.name());
    tensors->emplace(name, saved.expected->at(name));
  }
  return tensors;
}

}  // namespace

void client::save() {
  if (program_.kept.empty()) return load();
  const program::kept_model chosen = program_.kept[random(program_.kept.size())];
  const std::string path = program_.files.folder() + "/saved" + std::to_string(random(2)) +
                           (random(3) == 0 ? ".zt" : ".safetensors");
  const std::shared_ptr<loader> by = program_.any_loader_for(chosen.loaded);
  // A file has each name once, but several devices may have the same tensor.
  if (!by || chosen.loaded.size() > chosen.expected->size()) return load();
  if (!program_.saving.insert(path).second) return load();
  save_options options;
  options.sync = settings().power_cuts || random(2) == 0;
  options.read_back = random(4) == 0;
  auto handler = token<save_result>(
      begin_operation(), [self = shared_from_this(), path, before = content_of(path),
                          expected = expected_in_file(chosen)](bool ok, const save_result&) {
        if (ok) must_survive(path);
        // A save that failed after it was published has left a whole file.
        if (ok || content_of(path) != before) return self->load_back(path, expected);
        self->program_.saving.erase(path);
        self->next();
      });
  call([&] { by->save_async(path, refs_of(chosen.loaded), options, std::move(handler)); });
}

// Loads the file and compares its tensors. A .zt file is continued sometimes.
void client::load_back(const std::string& path, std::shared_ptr<const bytes_by_name> expected,
                       std::set<std::string> may_lack) {
  auto handler = token<model>(begin_operation(), [self = shared_from_this(), path, expected,
                                                  may_lack](bool ok, const model& done) {
    std::shared_ptr<const bytes_by_name> stored = expected;
    if (ok) {
      check_model(done, *expected);
      auto found = std::make_shared<bytes_by_name>();
      for (const auto& [name, bytes] : *expected) {
        const bool is_found = static_cast<bool>(done.find(name));
        if (is_found) found->emplace(name, bytes);
        if (!is_found && !may_lack.contains(name)) {
          violation("a saved file lacks the tensor " + name);
        }
      }
      stored = found;
    }
    if (ok && path.ends_with(".zt") && stored->size() < 60 && random(2) == 0) {
      return self->append(path, stored);
    }
    self->program_.saving.erase(path);
    self->next();
  });
  call([&] { program_.any_loader()->load_async(path, std::move(handler)); });
}

struct client::written_file {
  std::string path;
  std::string before;
  bool is_append = false;
  writer out;
  std::vector<tensor_ref> tensors;          // To be added.
  std::shared_ptr<bytes_by_name> expected;  // All tensors of the file when it is written.
  std::set<std::string> failed;             // Tensors whose steps have failed.
  history begin;
  std::vector<operation_ptr> steps;
  std::size_t open_steps = 0;
  bool is_whole = false;
};

void client::write() {
  if (program_.kept.empty()) return load();
  const program::kept_model chosen = program_.kept[random(program_.kept.size())];
  auto file = std::make_shared<written_file>();
  file->path = program_.files.folder() + "/saved" + std::to_string(random(2)) + ".zt";
  if (!program_.saving.insert(file->path).second) return load();
  file->expected = expected_in_file(chosen);
  for (const tensor& each : chosen.loaded) file->tensors.emplace_back(each);
  add_tensors(file);
}

void client::append(const std::string& path, const std::shared_ptr<const bytes_by_name>& stored) {
  auto file = std::make_shared<written_file>();
  file->path = path;
  file->is_append = true;
  file->expected = std::make_shared<bytes_by_name>(*stored);
  if (!program_.kept.empty()) {
    const program::kept_model chosen = program_.kept[random(program_.kept.size())];
    for (std::size_t i = 0; i < chosen.loaded.size() && i < 3; ++i) {
      const tensor& source = chosen.loaded[i];
      // The file may lack a tensor whose step has failed.
      std::size_t number = file->expected->size();
      while (file->expected->contains("added" + std::to_string(number))) ++number;
      const std::string name = "added" + std::to_string(number);
      file->tensors.emplace_back(name, source);
      file->expected->emplace(name, chosen.expected->at(std::string(source.name())));
    }
  }
  add_tensors(file);
}

void client::add_tensors(const written_ptr& file) {
  file->before = content_of(file->path);
  file->begin = history_now();
  writer_options settings;
  settings.sync = simulation::settings().power_cuts || random(2) == 0;
  settings.zstd_threads = 1 + static_cast<std::uint32_t>(random(3));
  settings.executor = loop_.context.get_executor();
  bool is_open = false;
  call([&] {
    file->out =
        file->is_append ? writer::append(file->path, settings) : writer(file->path, settings);
    is_open = true;
  });
  if (!is_open) {
    program_.saving.erase(file->path);
    return next();
  }
  file->open_steps = file->tensors.size() + 1;
  for (tensor_ref& each : file->tensors) {
    object_options options;
    if (random(3) == 0) options.zstd_level = 1;
    if (random(3) == 0) options.digest = digest_algorithm::crc32c;
    file->steps.push_back(begin_operation(file->begin));
    auto handler = token<std::uint64_t>(
        file->steps.back(),
        [self = shared_from_this(), file, name = each.name](bool ok, std::uint64_t) {
          if (!ok) file->failed.insert(name);
          self->end_file(file, false);
        });
    call([&] { file->out.add_async(std::move(each), options, std::move(handler)); });
  }
  finish_file(file);
}

void client::finish_file(const written_ptr& file) {
  file->steps.push_back(begin_operation(file->begin));
  auto handler = token<write_result>(
      file->steps.back(), [self = shared_from_this(), file](bool ok, const write_result&) {
        self->end_file(file, ok);
      });
  call([&] { file->out.finish_async(std::move(handler)); });
  // A step that is cancelled, and the end of the writer, stop all steps.
  const bool is_abandoned = random(12) == 0;
  if (is_abandoned) call([&] { file->out = writer(); });
  bool may_be_cancelled = is_abandoned;
  for (const operation_ptr& step : file->steps) may_be_cancelled |= step->may_be_cancelled;
  for (const operation_ptr& step : file->steps) step->may_be_cancelled = may_be_cancelled;
}

void client::end_file(const written_ptr& file, bool is_whole) {
  file->is_whole |= is_whole;
  if (--file->open_steps != 0) return;
  file->steps.clear();
  if (file->is_whole) must_survive(file->path);
  call([&] { file->out = writer(); });
  // A writer that failed after its file was published has left a whole file.
  if (file->is_whole || content_of(file->path) != file->before) {
    return load_back(file->path, file->expected, file->failed);
  }
  program_.saving.erase(file->path);
  next();
}

}  // namespace ringload::simulation
