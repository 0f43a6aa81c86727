// SPDX-License-Identifier: Apache-2.0

// One allocation of a keeper fails. A separate executable, because it replaces operator new.

#include <doctest/doctest.h>

#include <boost/asio/use_future.hpp>
#include <filesystem>
#include <new>
#include <ringload/error.hpp>
#include <ringload/keeper.hpp>
#include <ringload/loader.hpp>
#include <string>
#include <thread>

#include "support/failing_new.hpp"
#include "support/made_checkpoint.hpp"
#include "support/small_options.hpp"
#include "support/temporary_folder.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

// Calls `work` in a thread whose allocations may fail. Returns false if one of them has failed.
template <class Work>
bool has_memory_for(const Work& work) {
  bool is_done = false;
  std::thread([&] {
    try {
      work();
      is_done = true;
    } catch (const std::bad_alloc&) {
    } catch (const error&) {
    }
  }).join();
  return is_done;
}

}  // namespace

TEST_CASE("without memory, a keeper that does not start leaves no socket") {
  const temporary_folder folder = temporary_folder::for_sockets();
  const std::string path = (folder.path() / "keeper").string();
  for_every_allocation([&] {
    has_memory_for([&] { const keeper started(path); });
    CHECK_FALSE(std::filesystem::exists(path));
  });
}

TEST_CASE("without memory, a model that is not published has no version") {
  const temporary_folder folder = temporary_folder::for_sockets();
  const std::string path = (folder.path() / "keeper").string();
  const made_file file(equal_tensors(2, 1'000));
  loader sharing(shared_host(), small_options(2));
  const model loaded = sharing.load_async(file.name(), boost::asio::use_future).get();
  for_every_allocation([&] {
    keeper serving(path);
    const bool is_published = has_memory_for([&] { serving.publish("model", loaded); });
    serving.publish("model", loaded);
    CHECK(serving.models().at(0).version == (is_published ? 2 : 1));
  });
}
