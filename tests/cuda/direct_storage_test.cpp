// SPDX-License-Identifier: Apache-2.0

// GPUDirect Storage: reads into slots on the device by cuFile. Runs only on the stand-ins.

#include <doctest/doctest.h>

#include <boost/asio/error.hpp>
#include <boost/asio/use_future.hpp>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <future>
#include <optional>
#include <ringload/allocation_log.hpp>
#include <sstream>
#include <string>
#include <thread>

#include "cuda/failing_calls.hpp"
#include "cuda/fresh_runtime.hpp"
#include "cuda/logged_calls.hpp"
#include "cuda/on_device.hpp"
#include "device/cuda/cufile_library.hpp"
#include "io/direct_file.hpp"
#include "support/converted.hpp"
#include "support/descriptors.hpp"
#include "support/distant_drive.hpp"
#include "support/fake_cufile.hpp"
#include "support/npz_text.hpp"
#include "support/scripted_loader.hpp"
#include "support/skip.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

// Resets both stand-ins. At the end, checks that nothing is registered and nothing was misused.
class fresh_storage {
 public:
  explicit fresh_storage(std::chrono::milliseconds limit = patience) : cufile(FAKE_CUFILE) {
    cuda::cufile::use_library(FAKE_CUFILE, limit);
  }
  fresh_storage(const fresh_storage&) = delete;
  fresh_storage& operator=(const fresh_storage&) = delete;
  ~fresh_storage() {
    cuda::wait_for_returned_memory(patience);
    CHECK(cufile.misuse() == "");
    CHECK(cufile.registered_files() == 0);
    CHECK(cufile.registered_memory() == 0);
  }

  const fresh_runtime around;
  fake_cufile cufile;
};

loader_options with_storage(gpu_direct how = gpu_direct::required) {
  loader_options within = small_options();
  within.gpu_direct = how;
  return within;
}

std::vector<made_tensor> tensors() {
  std::vector<made_tensor> all = equal_tensors(100, 1000);
  all.push_back({"large", 500'000});
  all.push_back(f32("converted", 20'000));
  return all;
}

// Returns the reason why no loader can be created, or an empty string.
std::optional<error> start_failure(const std::vector<device>& targets) {
  try {
    const loader with(targets, with_storage());
    return std::nullopt;
  } catch (const error& e) {
    return e;
  }
}

// The test needs direct reads.
bool reads_directly(const made_file& file) {
  loader with(host(), small_options());
  if (!code_of(with.load_async(file.name(), by(read_route::direct), use_future))) return true;
  skip("the file system of temporary files has no direct reads");
  return false;
}

// The reason why a loader does not use GPUDirect Storage.
std::string reason_without() {
  const made_file file(only("a", 100'000));
  loader with(cuda_device(1), with_storage(gpu_direct::automatic));
  make_cold(file.path());
  const model loaded = get(with.load_async(file.name(), use_future));
  CHECK(first_difference_on_device(loaded) == "");
  CHECK(loaded.stats().bytes_gpu_direct == 0);
  return loaded.stats().gpu_direct_reason;
}

// The same bytes as in host memory.
void check_same_as_host(loader& with, const std::string& path, const load_options& how = {}) {
  loader on_host(host(), small_options());
  const model loaded = get(with.load_async(path, how, use_future));
  const model same = get(on_host.load_async(path, how, use_future));
  REQUIRE(loaded.size() == same.size());
  for (const tensor& each : same) {
    const bool equal = bytes_on_device(loaded.at(each.name())) == bytes_of(each);
    CHECK(equal);
  }
}

}  // namespace

TEST_CASE("gpu_direct: bytes go from the file to the device, past the host") {
  const made_file file(tensors(), 3);
  if (!reads_directly(file)) return;
  fresh_storage around;
  {
    loader with(cuda_device(1), with_storage());
    for (int turn = 0; turn < 3; ++turn) {
      const model loaded = get(with.load_async(file.name(), use_future));
      CHECK(first_difference_on_device(loaded) == "");
      const load_stats stats = loaded.stats();
      CHECK(stats.bytes_gpu_direct >= loaded.catalog().size_bytes());
      CHECK(stats.bytes_gpu_direct == stats.bytes_direct);
      CHECK(stats.bytes_buffered == 0);
      CHECK(stats.gpu_direct_reason == "");
      CHECK(stats.pinned_bytes_peak == 0);
      // Files are deregistered at the end of a load, slots at the end of the loader.
      CHECK(around.cufile.registered_files() == 0);
    }
    // Each slot is registered once, for any number of reads.
    CHECK(around.cufile.calls("cuFileBufRegister") == around.cufile.registered_memory());
    CHECK(around.cufile.registered_memory() <= 4);
    CHECK(around.cufile.calls("cuFileRead") > 20);
    CHECK(around.cufile.calls("cuFileHandleRegister") == 3);
    CHECK(around.cufile.calls("cuFileDriverOpen") == 1);
    CHECK(fake_cudart::moved().up == 0);
  }
  loader another(cuda_device(0), with_storage());
  CHECK(around.cufile.calls("cuFileDriverOpen") == 1);
}

TEST_CASE("gpu_direct: converted bytes are read by the kernels from their slot on the device") {
  const made_file file(tensors());
  if (!reads_directly(file)) return;
  fresh_storage around;
  loader with(cuda_device(1), with_storage());
  for (const dtype to : {dtype::bf16, dtype::f16}) {
    check_same_as_host(with, file.name(), converting_to(to));
  }
  CHECK(with.stats().pinned_bytes_peak == 0);
}

TEST_CASE("gpu_direct: loads side by side, of the same file too") {
  const made_file file(tensors());
  const made_file other(made_file::as_it_is::text,
                        checkpoint_text(equal_tensors(9, 100'000), 5, 77));
  if (!reads_directly(file)) return;
  fresh_storage around;
  loader with(cuda_device(1), with_storage());
  std::vector<std::future<model>> loads;
  for (int i = 0; i < 6; ++i) {
    loads.push_back(with.load_async((i % 3 == 0 ? other : file).name(), use_future));
  }
  for (auto& each : loads) CHECK(first_difference_on_device(get(std::move(each))) == "");
}

TEST_CASE("gpu_direct: compressed bytes pass through the host, also where it is required") {
  fresh_storage around;
  loader with(cuda_device(1), with_storage());
  const npz_file file(
      {member("m", npy_text("<f4", false, "100000,", compressible(400'000, 1)), true)});
  check_same_as_host(with, file.name());
}

TEST_CASE("gpu_direct: what the page cache has is copied from there, unless it is required") {
  const made_file file(tensors());
  if (!reads_directly(file)) return;
  fresh_storage around;
  loader with(cuda_device(1), with_storage(gpu_direct::automatic));
  {
    const cached_file cached(file.path());
    const model loaded = get(with.load_async(file.name(), use_future));
    CHECK(first_difference_on_device(loaded) == "");
    CHECK(loaded.stats().bytes_gpu_direct == 0);
  }
  // Opened first, because reading the header starts readahead, which can cache the whole file.
  const checkpoint opened = get(with.open_async(file.name(), use_future));
  make_cold(file.path());
  const model cold = get(with.load_async(opened, use_future));
  CHECK(first_difference_on_device(cold) == "");
  CHECK(cold.stats().bytes_gpu_direct == cold.stats().bytes_direct);
  CHECK(cold.stats().bytes_gpu_direct > 0);
  CHECK(cold.stats().gpu_direct_reason == "");
}

TEST_CASE("gpu_direct: off by default, and then cuFile is not loaded") {
  fresh_storage around;
  loader with(cuda_device(1), small_options());
  const made_file file(only("a", 1000));
  CHECK(get(with.load_async(file.name(), use_future)).stats().gpu_direct_reason == "");
  CHECK(around.cufile.calls("cuFileDriverOpen") == 0);
}

TEST_CASE("gpu_direct: without the library, or where its driver is not, the reason is told") {
  fresh_storage around;
  around.cufile.fail("cuFileDriverOpen", 1, 5001);
  CHECK(holds(reason_without(), "nvidia-fs is not loaded"));
  // The library does not try again.
  CHECK(holds(reason_without(), "nvidia-fs is not loaded"));
  CHECK(around.cufile.calls("cuFileDriverOpen") == 1);
  cuda::cufile::use_library("libcufile-that-is-not-there.so", patience);
  CHECK(holds(reason_without(), "libcufile-that-is-not-there.so"));
  const auto failed = start_failure({cuda_device(1)});
  REQUIRE(failed.has_value());
  CHECK(failed->code() == errc::device_unavailable);
  CHECK(holds(failed->what(), "GPUDirect Storage"));
}

TEST_CASE("gpu_direct: a library that is not cuFile is refused by the first function it lacks") {
  fresh_storage around;
  // The fake of NCCL has none of cuFile's functions.
  cuda::cufile::use_library(FAKE_NCCL, patience);
  const std::string reason = reason_without();
  CAPTURE(reason);
  CHECK(holds(reason, "cuFileDriverOpen"));
}

TEST_CASE("gpu_direct: the compatibility mode, which reads through the host, counts as off") {
  fresh_storage around;
  around.cufile.keep_compatibility();
  CHECK(holds(reason_without(), "compatibility mode"));
  CHECK(around.cufile.calls("cuFileHandleRegister") == 0);
}

TEST_CASE(
    "gpu_direct: a driver that does not open is waited for once, and no longer than a limit") {
  fresh_storage around(std::chrono::milliseconds(20));
  around.cufile.hang();
  CHECK(holds(reason_without(), "did not return within 20 ms"));
  // The limit of the first attempt has ended, whatever the limit of another attempt would be.
  cuda::cufile::limit_opening(patience);
  CHECK(holds(reason_without(), "did not return within 20 ms"));
  CHECK(around.cufile.calls("cuFileDriverOpen") == 1);
  around.cufile.let_go();
}

TEST_CASE("gpu_direct: without a device cuFile is not called, for it would never return") {
  fresh_storage around;
  fake_cudart::no_device(cudaErrorNoDevice, 13000);
  const auto failed = start_failure({cuda_device(0)});
  REQUIRE(failed.has_value());
  CHECK(failed->code() == errc::device_unavailable);
  CHECK(around.cufile.calls("cuFileDriverOpen") == 0);
  CHECK(around.cufile.calls("cuFileSetParameterBool") == 0);
}

TEST_CASE("gpu_direct: for one GPU only") {
  fresh_storage around;
  for (const std::vector<device>& targets :
       {std::vector<device>{host()}, {cuda_device(0), cuda_device(1)}}) {
    const auto failed = start_failure(targets);
    REQUIRE(failed.has_value());
    CHECK(failed->code() == errc::device_unavailable);
    loader with(targets, with_storage(gpu_direct::automatic));
    CHECK(holds(with.stats().gpu_direct_reason, "GPU"));
  }
}

TEST_CASE("gpu_direct: what cuFile refuses is read through the host, or fails where required") {
  const made_file file(tensors());
  if (!reads_directly(file)) return;
  struct refusal {
    const char* function;
    int code;
  };
  for (const refusal& each :
       {refusal{"cuFileHandleRegister", 5008}, refusal{"cuFileBufRegister", 5036},
        refusal{"cuFileRead", 5010}, refusal{"cuFileRead", EINVAL}}) {
    CAPTURE(each.function);
    fresh_storage around;
    {
      loader with(cuda_device(1), with_storage(gpu_direct::automatic));
      around.cufile.fail(each.function, 1, each.code);
      make_cold(file.path());
      const model loaded = get(with.load_async(file.name(), use_future));
      CHECK(first_difference_on_device(loaded) == "");
      CHECK(loaded.stats().gpu_direct_reason != "");
      CHECK(loaded.stats().bytes_direct > loaded.stats().bytes_gpu_direct);
      make_cold(file.path());
      const model next = get(with.load_async(file.name(), use_future));
      CHECK(first_difference_on_device(next) == "");
      CHECK(next.stats().bytes_gpu_direct == next.stats().bytes_direct);
    }
    loader with(cuda_device(1), with_storage());
    around.cufile.fail(each.function, 1, each.code);
    const auto failed = failure_of(with.load_async(file.name(), use_future));
    REQUIRE(failed.has_value());
    CHECK(failed->code() == errc::direct_unavailable);
    CHECK(holds(failed->what(), "GPUDirect Storage is required"));
    CHECK(holds(failed->what(), file.name()));
  }
}

TEST_CASE("gpu_direct: a file that cannot be read directly fails where it is required") {
  fresh_storage around;
  loader with(cuda_device(1), with_storage());
  if (!std::filesystem::is_directory("/dev/shm")) return skip("no /dev/shm");
  const std::string path = "/dev/shm/ringload-gpu-direct-" + std::to_string(::getpid());
  write_file(path, checkpoint_text(only("a", 100'000), 0, 1));
  const auto failed = failure_of(with.load_async(path, use_future));
  std::filesystem::remove(path);
  REQUIRE(failed.has_value());
  CHECK(failed->code() == errc::direct_unavailable);
  CHECK(holds(failed->what(), "in memory"));
}

TEST_CASE(
    "gpu_direct: short reads are gone on with, and an error of the drive is one of the load") {
  const made_file file(only("large", 1'000'000));
  if (!reads_directly(file)) return;
  fresh_storage around;
  loader with(cuda_device(1), with_storage());
  around.cufile.shorten(12'288);
  const model loaded = get(with.load_async(file.name(), use_future));
  CHECK(first_difference_on_device(loaded) == "");
  CHECK(loaded.stats().short_reads > 0);
  around.cufile.shorten(0);
  around.cufile.fail("cuFileRead", 3, EIO);
  CHECK(code_of(with.load_async(file.name(), use_future)) ==
        boost::system::error_code(EIO, boost::system::system_category()));
  CHECK(first_difference_on_device(get(with.load_async(file.name(), use_future))) == "");
}

TEST_CASE("gpu_direct: a loader that is destroyed waits for its reads") {
  const made_file file(only("large", 1'000'000));
  if (!reads_directly(file)) return;
  fresh_storage around;
  std::optional<pending_load> load;
  std::thread later;
  {
    loader with(cuda_device(1), with_storage());
    around.cufile.hold_reads();
    load.emplace(with, file.name());
    while (around.cufile.waiting_reads() < 2) std::this_thread::yield();
    later = std::thread([&] { around.cufile.let_reads_go(); });
  }
  later.join();
  const auto failed = load->failure();
  CHECK((failed && failed->code() == boost::asio::error::operation_aborted));
}

TEST_CASE("gpu_direct: memory that stays registered is not freed") {
  const made_file file(only("a", 100'000));
  if (!reads_directly(file)) return;
  start_afresh();
  fake_cufile cufile(FAKE_CUFILE);
  cuda::cufile::use_library(FAKE_CUFILE, patience);
  std::ostringstream log;
  {
    loader with(cuda_device(1), with_storage(), {}, allocation_log(log));
    get(with.load_async(file.name(), use_future));
    cufile.fail("cuFileBufDeregister", 1, 5030);
  }
  CHECK(holds(left_over(), "bytes of device memory"));
  // The memory of the load was freed, the memory of the slots was not.
  CHECK(logged_calls(log.str(), "cudaMalloc").count ==
        logged_calls(log.str(), "cudaFree").count + 1);
  CHECK(cufile.registered_memory() == 1);
  CHECK(cufile.misuse() == "");
  start_afresh();
}

TEST_CASE("gpu_direct: each call of CUDA that fails ends its load, and nothing is left") {
  const made_file file(tensors());
  if (!reads_directly(file)) return;
  fake_cufile cufile(FAKE_CUFILE);
  cuda::cufile::use_library(FAKE_CUFILE, patience);
  for_every_failing_call([&](boost::system::error_code& code) -> std::string {
    try {
      loader with(cuda_device(1), with_storage());
      const auto failed =
          failure_of(with.load_async(file.name(), converting_to(dtype::bf16), use_future));
      if (failed) code = failed->code();
      // A read that fails with `required`. The error text has the error of CUDA.
      if (code == errc::direct_unavailable) code = errc::device_unavailable;
      const model again = get(with.load_async(file.name(), use_future));
      const std::string wrong = first_difference_on_device(again);
      CHECK(wrong == "");
      return failed ? failed->what() : "";
    } catch (const error& e) {
      code = e.code();
      return e.what();
    }
  });
  CHECK(cufile.misuse() == "");
  CHECK(cufile.registered_files() == 0);
  CHECK(cufile.registered_memory() == 0);
}

TEST_CASE("gpu_direct: no read is issued again, because spare slots have no memory on the device") {
  const made_file file(equal_tensors(20, small_slot));
  if (!reads_directly(file)) return;
  fresh_storage around;
  std::uint64_t host_reads = 0;
  read_script script([&](const io_request& request, std::uint64_t) {
    // Stalls a read when the pace of the mount is known.
    const bool stalls = request.supply == nullptr && host_reads++ == 14;
    return stalls ? read_fate{.until_released = read_fate::hold::start} : read_fate();
  });
  scripted_loader with(script, with_storage(gpu_direct::automatic), cuda_device(1));
  if (with.stats().engine != read_engine::ring) return skip("there is no io_uring");
  declare_distant(with, file.name());
  // The first load reads through the host.
  around.cufile.fail("cuFileHandleRegister", 1, 5008);
  auto loading = with.load_async(file.name(), by(read_route::direct), use_future);
  REQUIRE(script.wait_until_held(1));
  // A second read would start 50 ms after the other reads have ended.
  CHECK(loading.wait_for(std::chrono::milliseconds(400)) == std::future_status::timeout);
  script.release_all();
  const model stalled = get(std::move(loading));
  CHECK(first_difference_on_device(stalled) == "");
  CHECK(stalled.stats().second_reads == 0);
  for (int turn = 0; turn < 3; ++turn) {
    const model loaded = get(with.load_async(file.name(), by(read_route::direct), use_future));
    CHECK(first_difference_on_device(loaded) == "");
    CHECK(loaded.stats().bytes_gpu_direct > 0);
  }
}
