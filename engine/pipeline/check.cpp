// SPDX-License-Identifier: Apache-2.0
#include "pipeline/check.hpp"

#include <algorithm>
#include <boost/asio/error.hpp>

#include "core/attempt.hpp"
#include "formats/manifest.hpp"
#include "formats/printable.hpp"
#include "pipeline/engine.hpp"
#include "pipeline/job.hpp"
#include "pipeline/on_thread.hpp"

namespace ringload::inline v0::detail {

namespace {

// Hashed between two checks for cancellation; for a device's memory also the size of one copy back.
constexpr std::uint64_t step_bytes = std::uint64_t{1} << 20;

fault differ(const manifest& listed, std::string_view tensor, const char* why) {
  return {errc::incomplete_manifest, printable_path(listed.place) + ": " + tensor_place(tensor),
          why};
}

hasher begin_crc32c() {
  const auto crc = std::make_shared<std::uint32_t>(0);
  hasher one;
  one.update = [crc](std::span<const std::byte> bytes) { *crc = crc32c(bytes, *crc); };
  one.finish = [crc] {
    std::vector<std::byte> digest;
    for (unsigned shift = 32; shift > 0; shift -= 8) {
      digest.push_back(static_cast<std::byte>(*crc >> (shift - 8)));
    }
    return digest;
  };
  return one;
}

// Runs in a check thread. The job keeps the memory until checked().
struct hashing {
  job& of;
  backend& target;
  std::uint32_t tensor;
  result<void> outcome;

  void operator()() noexcept {
    outcome = attempt([this] { return hash(); });
    if (!outcome && outcome.error().where.empty()) {
      outcome = attempt(
          [this]() -> result<void> { return outcome.error().in(of.tensor_in_file(tensor)); });
    }
  }

  result<void> hash() {
    const tensor_digest& wanted = of.expected(tensor);
    const hasher pass = wanted.algorithm == digest_algorithm::crc32c
                            ? begin_crc32c()
                            : of.options().verify->sha256();
    const std::uint64_t bytes = of.named().catalog().tensors[tensor].bytes;
    std::vector<std::byte> room(static_cast<std::size_t>(std::min(bytes, step_bytes)));
    for (std::uint64_t at = 0; at < bytes && !of.stopped();) {
      const auto step = static_cast<std::size_t>(std::min(bytes - at, step_bytes));
      auto here =
          target.read_back(of.memory(), of.arena_offset(tensor) + at, std::span(room).first(step));
      if (!here) return here.error();
      pass.update(*here);
      at += step;
    }
    if (of.stopped()) return {};
    const std::vector<std::byte> found = pass.finish();
    if (found == wanted.bytes) return {};
    return fault{errc::wrong_digest, of.tensor_in_file(tensor),
                 "its " + std::string(name(wanted.algorithm)) + " is " + hex(found) + ", but " +
                     printable_path(of.options().verify->place) + " says " + hex(wanted.bytes)};
  }
};

}  // namespace

result<std::vector<const tensor_digest*>> expected_digests(const manifest& listed,
                                                           const ringload::catalog& what) {
  const auto by_name = [](const auto* a, const auto* b) { return a->name < b->name; };
  std::vector<const tensor_digest*> sorted;
  for (const tensor_digest& one : listed.tensors) {
    if (one.algorithm == digest_algorithm::sha256 && !listed.sha256) {
      return fault{errc::digest_unavailable, printable_path(listed.place),
                   "it holds a sha256, and no hasher for that was given (manifest::sha256)"};
    }
    sorted.push_back(&one);
  }
  std::sort(sorted.begin(), sorted.end(), by_name);
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end(),
                                        [](auto* a, auto* b) { return a->name == b->name; });
  if (twice != sorted.end()) {
    return fault{errc::malformed_manifest,
                 printable_path(listed.place) + ": " + tensor_place((*twice)->name),
                 "it is listed twice"};
  }

  std::vector<const tensor_digest*> expected(what.tensors.size());
  std::vector<bool> used(sorted.size());
  for (std::size_t t = 0; t < expected.size(); ++t) {
    const tensor_info& info = what.tensors[t];
    const auto at = std::lower_bound(sorted.begin(), sorted.end(), &info,
                                     [](auto* one, auto* of) { return one->name < of->name; });
    if (at == sorted.end() || (*at)->name != info.name) {
      return differ(listed, info.name, "the checkpoint has it, the manifest does not");
    }
    expected[t] = *at;
    used[static_cast<std::size_t>(at - sorted.begin())] = true;
  }
  const auto unused = std::find(used.begin(), used.end(), false);
  if (unused != used.end()) {
    const auto* one = sorted[static_cast<std::size_t>(unused - used.begin())];
    return differ(listed, one->name, "the manifest has it, the checkpoint does not");
  }
  return expected;
}

boost::asio::awaitable<void> checker(engine& e) {
  engine& mine = e;
  for (;;) {
    schedule::turn turn;
    try {
      auto next = co_await mine.check_schedule.take();
      turn = std::move(next);
    } catch (const std::bad_alloc&) {
      continue;
    }
    if (!turn.of) break;
    hashing work = {*turn.of, *mine.target, turn.what, {}};
    try {
      co_await on_thread(*mine.check_threads, mine.loop, work);
    } catch (const std::bad_alloc&) {
      work.outcome = fault{errc::memory_exceeded, {}};  // Without a place, which would allocate.
    }
    turn.of->checked(turn.what, work.outcome);
  }
}

}  // namespace ringload::inline v0::detail
