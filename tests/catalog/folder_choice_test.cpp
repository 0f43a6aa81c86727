// SPDX-License-Identifier: Apache-2.0
#include "catalog/folder_choice.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

using namespace ringload;

namespace {

using names = std::vector<std::string>;

std::string index_in(const names& folder) {
  const auto chosen = choose_checkpoint(folder);
  REQUIRE(chosen.has_value());
  CHECK(chosen->files.empty());
  return chosen->index;
}

names files_in(const names& folder) {
  const auto chosen = choose_checkpoint(folder);
  REQUIRE(chosen.has_value());
  CHECK(chosen->index.empty());
  return chosen->files;
}

fault fault_in(const names& folder) {
  const auto chosen = choose_checkpoint(folder);
  REQUIRE_FALSE(chosen.has_value());
  return chosen.error();
}

bool mentions(const fault& what, std::string_view text) {
  return message_of(what).find(text) != std::string::npos;
}

const names series = {"model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                      "model-00003-of-00003.safetensors"};

names operator+(names a, const names& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

TEST_CASE("folder_choice: the model's index comes before everything else") {
  CHECK(index_in(series + names{"model.safetensors.index.json", "model.safetensors",
                                "consolidated.safetensors", "model.fp16.safetensors",
                                "x.safetensors.index.json"}) == "model.safetensors.index.json");
}

TEST_CASE("folder_choice: model.safetensors comes before a series") {
  CHECK(files_in(series + names{"model.safetensors", "model.fp16.safetensors"}) ==
        names{"model.safetensors"});
}

TEST_CASE("folder_choice: a folder of torch.distributed.checkpoint is its metadata") {
  CHECK(files_in({".metadata", "__0_0.distcp", "__1_0.distcp"}) == names{".metadata"});
  CHECK(fault_in({".metadata", "__0_0.distcp", "model.pt"}).code == errc::ambiguous_source);
  CHECK(fault_in({".metadata", "notes.txt"}).code == errc::not_a_checkpoint);
  CHECK(files_in({".metadata", "__0_0.distcp", "model.safetensors"}) == names{"model.safetensors"});
}

TEST_CASE("folder_choice: a complete series is taken in its order") {
  CHECK(files_in({series[2], series[0], "config.json", series[1]}) == series);
  CHECK(files_in({"model-00001-of-00001.safetensors"}) ==
        names{"model-00001-of-00001.safetensors"});
  CHECK(files_in(series + names{"consolidated.safetensors"}) == series);
}

TEST_CASE("folder_choice: a gap in a series is named") {
  const fault middle = fault_in({series[0], series[2]});
  CHECK(middle.code == errc::incomplete_series);
  CHECK(mentions(middle, "'model-00002-of-00003.safetensors' is missing"));
  CHECK(mentions(fault_in({series[0], series[1]}), "'model-00003-of-00003.safetensors'"));
  CHECK(mentions(fault_in({series[1], series[2]}), "'model-00001-of-00003.safetensors'"));
}

TEST_CASE("folder_choice: two series or two variants side by side are ambiguous") {
  CHECK(fault_in(series +
                 names{"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"})
            .code == errc::ambiguous_source);
  CHECK(fault_in(series + names{"model.fp16-00001-of-00001.safetensors"}).code ==
        errc::ambiguous_source);
  CHECK(fault_in(series + names{"model.fp16.safetensors"}).code == errc::ambiguous_source);
  const fault variant = fault_in(names{"another-00001-of-00001.safetensors"} + series +
                                 names{"model.fp16.safetensors"});
  CHECK(variant.code == errc::ambiguous_source);
  CHECK(mentions(variant, "'model-0"));
  CHECK(fault_in(series + names{"consolidated-00001-of-00001.safetensors"}).code ==
        errc::ambiguous_source);
}

TEST_CASE("folder_choice: a number outside of the series is no part of it") {
  CHECK(fault_in(series + names{"model-00004-of-00003.safetensors"}).code ==
        errc::ambiguous_source);
  CHECK(fault_in({"model-00000-of-00002.safetensors", "model-00001-of-00002.safetensors"}).code ==
        errc::ambiguous_source);
}

TEST_CASE("folder_choice: other repositories load by the only index, series or file") {
  CHECK(index_in({"diffusion_pytorch_model.safetensors.index.json",
                  "diffusion_pytorch_model-00001-of-00001.safetensors"}) ==
        "diffusion_pytorch_model.safetensors.index.json");
  CHECK(files_in(
            {"consolidated-00001-of-00002.safetensors", "consolidated-00002-of-00002.safetensors"})
            .size() == 2);
  CHECK(files_in({"adapter_model.safetensors", "adapter_config.json"}) ==
        names{"adapter_model.safetensors"});
}

TEST_CASE("folder_choice: more than one candidate is ambiguous, and they are named") {
  const fault two = fault_in({"b.safetensors", "a.safetensors"});
  CHECK(two.code == errc::ambiguous_source);
  CHECK(mentions(two, "'a.safetensors', 'b.safetensors'"));
  CHECK(fault_in({"a.safetensors.index.json", "b.safetensors.index.json"}).code ==
        errc::ambiguous_source);
  CHECK(fault_in({"a-00001-of-00001.safetensors", "b.safetensors"}).code == errc::ambiguous_source);
  names many;
  for (int i = 0; i < 50; ++i) many.push_back(std::to_string(10 + i) + ".safetensors");
  CHECK(mentions(fault_in(many), "'13.safetensors' and 46 more"));
}

TEST_CASE("folder_choice: a version folder is ambiguous, also with one full version") {
  const fault refused = fault_in({"v0.safetensors", "v1.delta.zt"});
  CHECK(refused.code == errc::ambiguous_source);
  CHECK(mentions(refused, "'v1.delta.zt': load a version of it"));
  CHECK(fault_in({"model.safetensors", "v12.delta.zt"}).code == errc::ambiguous_source);
  CHECK(fault_in({"v1.delta.zt"}).code == errc::ambiguous_source);
  CHECK(files_in({"v0.safetensors", "v01.delta.zt", "v.delta.zt"}) == names{"v0.safetensors"});
  CHECK(files_in({"v0.safetensors", "v1.delta.zt.part"}) == names{"v0.safetensors"});
}

TEST_CASE("folder_choice: a folder without tensors says what it holds") {
  const fault other = fault_in({"config.json", "tokenizer.model"});
  CHECK(other.code == errc::not_a_checkpoint);
  CHECK(mentions(other, "'tokenizer.model'"));
  CHECK(fault_in({}).code == errc::not_a_checkpoint);
  CHECK(mentions(fault_in({}), "empty"));
  CHECK(fault_in({"a.SAFETENSORS", ".safetensors.tmp"}).code == errc::not_a_checkpoint);
}

TEST_CASE("folder_choice: safetensors come before every other form") {
  CHECK(files_in({"adapter.safetensors", "pytorch_model.bin", "model.gguf"}) ==
        names{"adapter.safetensors"});
  CHECK(index_in({"model.safetensors.index.json", "pytorch_model.bin.index.json"}) ==
        "model.safetensors.index.json");
  CHECK(fault_in({"a.safetensors", "b.safetensors", "pytorch_model.bin"}).code ==
        errc::ambiguous_source);
}

TEST_CASE("folder_choice: PyTorch's model is its index, its file or its series") {
  const names shards = {"pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"};
  const names beside = {"training_args.bin", "optimizer.pt", "model.onnx", "config.json"};
  CHECK(index_in(shards + beside + names{"pytorch_model.bin.index.json"}) ==
        "pytorch_model.bin.index.json");
  CHECK(files_in(beside + names{"pytorch_model.bin"}) == names{"pytorch_model.bin"});
  CHECK(files_in(shards + names{"training_args.bin"}) == shards);
  CHECK(fault_in({shards[0]}).code == errc::incomplete_series);
}

TEST_CASE("folder_choice: other forms load where they are the only one") {
  const names parts = {"m-Q4_K-00001-of-00002.gguf", "m-Q4_K-00002-of-00002.gguf"};
  CHECK(files_in(parts + names{"config.json"}) == parts);
  for (const auto* only :
       {"a.gguf", "a.pt", "a.pth", "a.bin", "a.npz", "a.npy", "a.onnx", "a.zt", "a.h5", "a.hdf5"}) {
    CHECK(files_in({"readme.md", only}) == names{only});
  }
  CHECK(fault_in({"a.gguf", "b.gguf"}).code == errc::ambiguous_source);
  const fault two = fault_in({"a.gguf", "b.npz"});
  CHECK(two.code == errc::ambiguous_source);
  CHECK(mentions(two, "'a.gguf', 'b.npz'"));
}

TEST_CASE("folder_choice: names that only resemble a series are single files") {
  CHECK(files_in({"model-1-of-2.safetensors"}) == names{"model-1-of-2.safetensors"});
  CHECK(files_in({"model-00001of-00002.safetensors"}) == names{"model-00001of-00002.safetensors"});
  CHECK(files_in({"-of-00002.safetensors"}) == names{"-of-00002.safetensors"});
}
