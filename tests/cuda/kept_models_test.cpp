// SPDX-License-Identifier: Apache-2.0

// Models on a GPU that a keeper serves, and models of the host that are attached on one.

#include <doctest/doctest.h>

#include <boost/asio/use_future.hpp>
#include <cstdio>
#include <filesystem>
#include <ringload/keeper.hpp>
#include <ringload/verify.hpp>
#include <string>
#include <thread>
#include <vector>

#include "cuda/any_runtime.hpp"
#include "cuda/on_device.hpp"
#include "support/child_program.hpp"
#include "support/made_checkpoint.hpp"
#include "support/skip.hpp"
#include "support/small_options.hpp"
#include "support/temporary_folder.hpp"
#include "support/waiting.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

bool has_gpu() {
  begin_afresh();
  std::string why;
  if (cuda_device_count(&why) > 0) return true;
  skip("no CUDA device: " + why);
  return false;
}

std::string digest_of(const model& on_gpu) {
  std::uint32_t sum = 0;
  for (const tensor& each : on_gpu) {
    const std::string bytes = bytes_on_device(each);
    sum = crc32c(std::as_bytes(std::span(bytes)), sum);
  }
  std::string text(8, ' ');
  (void)std::snprintf(text.data(), text.size() + 1, "%08x", sum);
  return text;
}

model loaded_on(device where, const std::string& file) {
  loader with(where, small_options(2));
  return get(with.load_async(file, use_future));
}

device shared_gpu() { return shared_cuda_device(last_cuda_device().index()); }

struct kept_on_gpu {
  made_file file{{f32("a", 300'000), {"none", 0}, f32("b", 3)}};
  temporary_folder folder = temporary_folder::for_sockets();
  std::string socket = (folder.path() / "keeper").string();
  keeper keeps{socket};

  child_program attached(int gpu = last_cuda_device().index()) const {
    // The tool is in the folder of this program, also in the bundle.
    const auto beside = std::filesystem::read_symlink("/proc/self/exe").parent_path();
    return child_program(
        {(beside / ATTACH_DEVICE_TOOL).string(), socket, "m", std::to_string(gpu)});
  }
};

bool nobody_is_attached(const keeper& to) {
  const auto until = std::chrono::steady_clock::now() + patience;
  while (to.models().at(0).attached > 0) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::yield();
  }
  return true;
}

std::string failure_to_attach(const std::string& socket, device on) {
  try {
    (void)attach(socket, "m", on);
  } catch (const error& e) {
    return e.what();
  }
  return "attached";
}

}  // namespace

TEST_CASE("keeper: another process has a model on a GPU as it is, also after it was replaced") {
  if (!has_gpu()) return;
  {
    kept_on_gpu kept;
    std::string digest;
    {
      const model loaded = loaded_on(shared_gpu(), kept.file.name());
      digest = digest_of(loaded);
      kept.keeps.publish("m", loaded);
      CHECK_FALSE(loaded.at("a").read_only());
    }
    child_program first = kept.attached();
    CHECK(first.read_line() == digest);
    CHECK(kept.keeps.models().at(0).attached == 1);
    kept.keeps.publish("m", loaded_on(shared_gpu(), kept.file.name()));
    child_program second = kept.attached();
    CHECK(second.read_line() == digest);
    first.end_input();
    CHECK(first.exit_code() == 0);
    second.kill();
    CHECK(nobody_is_attached(kept.keeps));
    CHECK(kept.attached().read_line() == digest);
    CHECK(nobody_is_attached(kept.keeps));
  }
  end_well();
}

TEST_CASE("keeper: a model on a GPU is attached there, and nowhere else") {
  if (!has_gpu()) return;
  {
    kept_on_gpu kept;
    kept.keeps.publish("m", loaded_on(shared_gpu(), kept.file.name()));
    CHECK(holds(failure_to_attach(kept.socket, host()), "attach for that device"));
    if (last_cuda_device().index() > 0) {
      CHECK(holds(kept.attached(0).read_line(), "but the memory belongs to the GPU"));
    }
    CHECK(holds(kept.attached(-1).read_line(), "cuda:-1"));
    CHECK(nobody_is_attached(kept.keeps));
  }
  end_well();
}

TEST_CASE("keeper: an attached model on a GPU outlives its keeper, and can be attached here too") {
  if (!has_gpu()) return;
  {
    const made_file file({f32("a", 300'000), f32("b", 3)});
    model here;
    std::string digest;
    {
      const temporary_folder folder = temporary_folder::for_sockets();
      const std::string socket = (folder.path() / "keeper").string();
      keeper keeps(socket);
      {
        const model loaded = loaded_on(shared_gpu(), file.name());
        digest = digest_of(loaded);
        keeps.publish("m", loaded);
      }
      here = attach(socket, "m", last_cuda_device());
    }
    CHECK(here.at("a").read_only());
    CHECK(digest_of(here) == digest);
  }
  end_well();
}

TEST_CASE("keeper: a model in private memory of a GPU is refused") {
  if (!has_gpu()) return;
  {
    kept_on_gpu kept;
    const model loaded = loaded_on(last_cuda_device(), kept.file.name());
    try {
      kept.keeps.publish("m", loaded);
      FAIL("it was published");
    } catch (const error& e) {
      CHECK(e.code() == errc::device_unavailable);
      CHECK(holds(e.what(), "load it for ringload::shared_cuda_device()"));
    }
  }
  end_well();
}

TEST_CASE("keeper: a model of the host is copied to the GPU on which it is attached") {
  if (!has_gpu()) return;
  {
    kept_on_gpu kept;
    kept.keeps.publish("m", loaded_on(shared_host(), kept.file.name()));
    const model here = attach(kept.socket, "m", last_cuda_device());
    CHECK(first_difference_on_device(here) == "");
    CHECK(here.size() == 3);
    CHECK_FALSE(here.at("a").read_only());
    CHECK(nobody_is_attached(kept.keeps));
    const model again = get(attach_async(kept.socket, "m", last_cuda_device(), use_future));
    CHECK(first_difference_on_device(again) == "");
  }
  end_well();
}
