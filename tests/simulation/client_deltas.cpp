// SPDX-License-Identifier: Apache-2.0

// Deltas: made, applied to a model, applied to memory, and loaded as a chain.

#include <algorithm>
#include <ringload/delta.hpp>

#include "client.hpp"
#include "power.hpp"
#include "support/guarded_memory.hpp"

namespace ringload::simulation {

// Applies the delta to its base, or to another version, which must fail.
void client::apply_delta() {
  const std::vector<known_version>& versions = program_.files.versions();
  const std::size_t base = random(versions.size() - 1);
  const std::size_t next_version = 1 + random(versions.size() - 1);
  auto handler = token<model>(begin_operation(), [self = shared_from_this(), &versions, base,
                                                  next_version](bool ok, const model& loaded) {
    if (!ok) return self->next();
    const operation_ptr begun = self->begin_operation();
    if (next_version != base + 1) begun->must_fail = errc::wrong_digest;
    const bytes_by_name* expected = &versions[next_version].stored;
    auto apply_handler = self->token<model>(begun, [self, expected](bool applied, model done) {
      if (applied) self->end_load(std::move(done), *expected, expected->size());
      self->next();
    });
    apply_options options;
    options.check_unchanged = random(2) == 0 || next_version != base + 1;
    self->call([&] {
      apply_async(*self->program_.any_loader(), loaded, versions[next_version].delta, options,
                  std::move(apply_handler));
    });
  });
  call([&] { program_.any_loader()->load_async(versions[base].path, std::move(handler)); });
}

struct client::updated_memory {
  std::deque<testing::guarded_memory> memory;
  std::vector<destination> into;

  bool has(const known_version& version) {
    auto each = memory.begin();
    for (const auto& [name, bytes] : version.stored) {
      each->expect(0, bytes);
      if (!each->as_expected()) return false;
      ++each;
    }
    return true;
  }
};

// Updates memory in place. After a failure the memory has its old bytes.
void client::update_memory() {
  const std::vector<known_version>& versions = program_.files.versions();
  const std::size_t base = random(versions.size() - 1);
  const std::size_t next_version = random(4) == 0 ? 1 + random(versions.size() - 1) : base + 1;
  auto updated = std::make_shared<updated_memory>();
  for (const auto& [name, bytes] : versions[base].stored) {
    const tensor_info& info = versions[base].tensors.at(name);
    testing::guarded_memory& memory = updated->memory.emplace_back(bytes.size(), random(64));
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(memory.data()));
    updated->into.emplace_back(name, memory.data(), info.dtype, info.shape);
  }
  const operation_ptr begun = begin_operation();
  if (next_version != base + 1) begun->must_fail = errc::wrong_digest;
  auto handler = token<update_result>(begun, [self = shared_from_this(), begun, updated, &versions,
                                              base, next_version](bool ok, const update_result&) {
    for (const testing::guarded_memory& each : updated->memory) {
      if (!each.guards_are_whole()) violation("an update wrote beside a tensor");
    }
    // An update whose handler was lost may have succeeded.
    const bool is_right = updated->has(versions[ok ? next_version : base]) ||
                          (begun->is_lost && updated->has(versions[next_version]));
    if (!is_right) violation(ok ? "an update left wrong bytes" : "a failed update changed bytes");
    self->next();
  });
  call([&] {
    update_async(*program_.any_loader(), updated->into, versions[next_version].delta,
                 std::move(handler));
  });
}

void client::load_version() {
  const std::vector<known_version>& versions = program_.files.versions();
  const std::size_t chosen = random(versions.size());
  const bytes_by_name* expected = &versions[chosen].stored;
  auto handler =
      token<model>(begin_operation(), [self = shared_from_this(), expected](bool ok, model done) {
        if (ok) {
          self->end_load(std::move(done), *expected, expected->size());
        }
        self->next();
      });
  version_options options;
  options.version = chosen;
  call([&] {
    load_version_async(*program_.any_loader(), program_.files.version_folder(), options,
                       std::move(handler));
  });
}

void client::save_delta() {
  const std::vector<known_version>& versions = program_.files.versions();
  const std::size_t base = random(versions.size() - 1);
  const std::string path =
      program_.files.folder() + "/saved" + std::to_string(random(2)) + ".delta";
  if (!program_.saving.insert(path).second) return load();
  delta_options options;
  options.zstd_level = static_cast<int>(random(2));
  options.window_bytes = 1 + random(500'000);
  options.sync = settings().power_cuts || random(2) == 0;
  auto handler = token<delta_result>(
      begin_operation(), [self = shared_from_this(), path, before = content_of(path), base](
                             bool ok, const delta_result&) {
        if (ok) must_survive(path);
        if (ok || content_of(path) != before) return self->apply_saved_delta(path, base);
        self->program_.saving.erase(path);
        self->next();
      });
  call([&] {
    save_delta_async(*program_.any_loader(), path, versions[base].path, versions[base + 1].path,
                     options, std::move(handler));
  });
}

void client::apply_saved_delta(const std::string& path, std::size_t base) {
  const std::vector<known_version>& versions = program_.files.versions();
  auto handler = token<model>(begin_operation(), [self = shared_from_this(), &versions, path, base](
                                                     bool ok, const model& loaded) {
    if (!ok) {
      self->program_.saving.erase(path);
      return self->next();
    }
    auto apply_handler = self->token<model>(
        self->begin_operation(), [self, &versions, path, base](bool applied, const model& done) {
          self->program_.saving.erase(path);
          if (applied) check_model(done, versions[base + 1].stored);
          self->next();
        });
    self->call(
        [&] { apply_async(*self->program_.any_loader(), loaded, path, std::move(apply_handler)); });
  });
  call([&] { program_.any_loader()->load_async(versions[base].path, std::move(handler)); });
}

}  // namespace ringload::simulation
