// SPDX-License-Identifier: Apache-2.0

// The local cache is used only if it has all files that a load opens, also if the hub cannot be
// reached.

#include "remote/hub/hub_snapshot.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <ringload/error.hpp>
#include <string>
#include <vector>

#include "catalog/resolve_source.hpp"
#include "formats/dcp_text.hpp"
#include "remote/hub_store.hpp"
#include "remote/s3/s3_signature.hpp"
#include "remote/scripted_client.hpp"
#include "support/checkpoint_folder.hpp"
#include "support/temporary_folder.hpp"

using namespace ringload;
using namespace ringload::remote_http;
using ringload::testing::index_text;
using ringload::testing::memory_source;
using ringload::testing::scripted_client;
using ringload::testing::temporary_folder;
using ringload::testing::tiny_tensors_text;

namespace {

namespace fs = std::filesystem;

// The cache of owner/model, and the listing that the hub returns.
struct cached_model {
  void list(const std::string& name) { listing.files.push_back({name, {}, {}}); }
  void add(const std::string& name, const std::string& content) {
    fs::create_directories((snapshot / name).parent_path());
    std::ofstream(snapshot / name, std::ios::binary) << content;
  }
  void add_ref() const {
    fs::create_directories(snapshot / "../../refs");
    std::ofstream(snapshot / "../../refs/main") << listing.commit;
  }
  hub_options options() const {
    hub_options out;
    out.cache_folder = cache.path().native();
    return out;
  }
  // Returns the names of the tensors, or the error.
  std::string resolve(const std::shared_ptr<byte_store>& store, const std::string& name) const {
    const std::vector<extension> extensions = {extension(store)};
    const environment variables = [this](const std::string& variable) {
      return variable == "HF_HUB_CACHE" ? std::optional(cache.path().native()) : std::nullopt;
    };
    const auto found = resolve_source(name, source_options(read_options(), extensions), variables);
    if (!found) return message_of(found.error());
    std::string out;
    for (const tensor_info& tensor : found->catalog.tensors) out += tensor.name + " ";
    return out;
  }
  bool has(const std::string& file) const {
    const std::string found =
        cached_checkpoint(cache.path().native(), {"owner/model", "main"}, listing, file);
    if (!found.empty()) CHECK(fs::path(found) == (file.empty() ? snapshot : snapshot / file));
    return !found.empty();
  }

  const temporary_folder cache;
  hub_listing listing = {std::string(40, 'c'), {}};
  const fs::path snapshot = cache.path() / "models--owner--model/snapshots" / listing.commit;
};

bool contains(const std::string& text, std::string_view part) {
  CAPTURE(text);
  return text.find(part) != text.npos;
}

std::string content_of(const std::string& name) {
  std::ifstream file(fs::path(RINGLOAD_TEST_DATA_DIR) / name, std::ios::binary);
  REQUIRE(file.good());
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("hub_snapshot: the first file of a GGUF series is cached if the whole series is") {
  for (const std::string folder : {"", "quantised/"}) {
    CAPTURE(folder);
    cached_model model;
    const std::string first = folder + "x-00001-of-00003.gguf";
    const std::string second = folder + "x-00002-of-00003.gguf";
    model.add(first, "GGUF");
    CHECK(!model.has(first));
    model.add(second, "GGUF");
    CHECK(!model.has(first));
    CHECK(model.has(second));  // The second file is loaded alone.
    model.add(folder + "x-00003-of-00003.gguf", "GGUF");
    CHECK(model.has(first));
  }
}

TEST_CASE("hub_snapshot: an index in a sub-folder is cached if the shards of its sub-folder are") {
  cached_model model;
  const std::string name = "sub/model.safetensors.index.json";
  model.add(name, index_text({{"a", "s.safetensors"}}));
  model.add("s.safetensors", tiny_tensors_text({"a"}));
  CHECK(!model.has(name));
  model.add("sub/s.safetensors", tiny_tensors_text({"a"}));
  CHECK(model.has(name));
}

TEST_CASE("hub_snapshot: an ONNX model is cached if its external data is") {
  const std::string onnx = content_of("onnx/external.onnx");
  for (const std::string folder : {"", "onnx/"}) {
    CAPTURE(folder);
    cached_model model;
    model.list("external.onnx");
    model.list("external.onnx.data");
    model.add(folder + "external.onnx", onnx);
    CHECK(!model.has(folder + "external.onnx"));
    CHECK(!model.has(""));
    model.add(folder + "external.onnx.data", "data");
    CHECK(model.has(folder + "external.onnx"));
    CHECK(model.has("") == folder.empty());
  }
}

TEST_CASE("hub_snapshot: a checkpoint of torch.distributed is cached if its data files are") {
  namespace distributed = ringload::testing::distributed;
  cached_model model;
  for (const char* const name : {".metadata", "__0_0.distcp", "__1_0.distcp"}) model.list(name);
  model.add(".metadata", distributed::metadata(distributed::two_files().tensors));
  model.add("__0_0.distcp", "data");
  CHECK(!model.has(""));
  CHECK(!model.has(".metadata"));
  model.add("__1_0.distcp", "data");
  CHECK(model.has(""));
  CHECK(model.has(".metadata"));
}

TEST_CASE("hub_snapshot: a file that cannot be parsed is cached, so that the load says why") {
  cached_model model;
  for (const char* const name : {"a.onnx", "a.gguf", ".metadata"}) {
    CAPTURE(name);
    model.add(name, "\x80\x02 nonsense");
    CHECK(model.has(name));
  }
}

TEST_CASE("hub_snapshot: if the hub cannot be reached, an incomplete snapshot is not used") {
  const auto client = std::make_shared<scripted_client>();  // Refuses all requests.
  cached_model model;
  const auto store = make_hub_store(client, model.options(), false);
  const auto find = [&](const std::string& name) -> std::string {
    try {
      const found_source found = store->find(name, {});
      CHECK(!found.folder);
      return found.local_path;
    } catch (const error& e) {
      CHECK(e.code() == errc::remote_failed);
      CHECK(contains(e.what(), "refused"));
    }
    return "";
  };
  model.add_ref();
  model.add("config.json", "{}");
  CHECK(find("hf://owner/model") == "");
  CHECK(find("owner/model") == "");
  CHECK(find("hf://owner/model/model.safetensors") == "");
  CHECK(find("hf://owner/model/config.json") == model.snapshot / "config.json");
  const std::string text = model.resolve(store, "owner/model");
  CHECK(contains(text, "the folder has no tensor file, only 'config.json'"));
  CHECK(contains(text, "refused"));

  model.add("model.safetensors.index.json", index_text({{"a", "s.safetensors"}}));
  CHECK(find("hf://owner/model") == "");
  model.add("s.safetensors", tiny_tensors_text({"a"}));
  CHECK(find("hf://owner/model") == model.snapshot);
  CHECK(model.resolve(store, "owner/model") == "a ");
}

TEST_CASE("hub_snapshot: if the hub cannot be reached, independent files are read from the cache") {
  const auto client = std::make_shared<scripted_client>();  // Refuses all requests.
  for (const char* const name : {"sub/a.safetensors", "b.safetensors"}) {
    CAPTURE(name);
    cached_model model;
    model.add_ref();
    model.add("a.safetensors", tiny_tensors_text({"a"}));
    model.add(name, tiny_tensors_text({"b"}));
    const auto store = make_hub_store(client, model.options(), false);
    CHECK(store->find("hf://owner/model", {}).local_path == model.snapshot);
    fs::remove(model.snapshot / "a.safetensors");
    CHECK(store->find("hf://owner/model", {}).local_path == model.snapshot);
  }
}

TEST_CASE("hub_snapshot: a model whose snapshot has no tensor file is loaded from the hub") {
  const std::string content = tiny_tensors_text({"a", "b"});
  const auto client = std::make_shared<scripted_client>();
  cached_model model;
  model.add_ref();
  model.add("config.json", "{}");
  client->responses["https://huggingface.co/api/models/owner/model/revision/main?blobs=true"].body =
      R"({"sha":")" + model.listing.commit + R"(","siblings":[{"rfilename":"model.safetensors",)" +
      R"("size":)" + std::to_string(content.size()) + R"(,"lfs":{"sha256":")" +
      sha256_hex(content) + R"("}}]})";
  client->objects["https://huggingface.co/owner/model/resolve/" + model.listing.commit +
                  "/model.safetensors"] = std::make_shared<memory_source>(content);
  const auto store = make_hub_store(client, model.options(), false);
  for (const char* const name : {"owner/model", "hf://owner/model"}) {
    CAPTURE(name);
    CHECK(model.resolve(store, name) == "a b ");
  }
}
