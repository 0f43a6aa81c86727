// SPDX-License-Identifier: Apache-2.0
#include "catalog/hub_address.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

using namespace ringload;

namespace {

// "owner/model@revision:file", or "refused".
std::string parsed_address(std::string_view text) {
  const auto found = parse_hub_address(text);
  if (!found) {
    CHECK(found.error().code == errc::invalid_source_name);
    return "refused";
  }
  return found->model.repository + "@" + found->model.revision + ":" + found->file;
}

}  // namespace

TEST_CASE("hub_address: a page names a model, a revision, and perhaps one file") {
  CHECK(is_hub_address("https://huggingface.co/Qwen/Qwen3-8B"));
  CHECK(!is_hub_address("https://example.org/Qwen/Qwen3-8B"));
  CHECK(parsed_address("https://huggingface.co/Qwen/Qwen3-8B") == "Qwen/Qwen3-8B@main:");
  CHECK(parsed_address("https://huggingface.co/Qwen/Qwen3-8B/") == "Qwen/Qwen3-8B@main:");
  CHECK(parsed_address("https://huggingface.co/gpt2") == "gpt2@main:");
  CHECK(parsed_address("https://huggingface.co/a/b?library=x#files") == "a/b@main:");
  CHECK(parsed_address("https://huggingface.co/a/b/tree/v1.0") == "a/b@v1.0:");
  CHECK(parsed_address("https://huggingface.co/a/b/tree/refs%2Fpr%2F1") == "a/b@refs/pr/1:");
  CHECK(
      parsed_address("https://huggingface.co/a/b/resolve/main/onnx/x.safetensors?download=true") ==
      "a/b@main:onnx/x.safetensors");
  CHECK(parsed_address("https://huggingface.co/a/b/blob/main/x.safetensors") ==
        "a/b@main:x.safetensors");
  CHECK(parsed_address("https://huggingface.co/") == "refused");
  CHECK(parsed_address("https://huggingface.co/a/b/discussions/1") == "refused");
  CHECK(parsed_address("https://huggingface.co/a/b/resolve/main") == "refused");
  CHECK(parsed_address("https://huggingface.co/a/b/tree/main/onnx") == "refused");
  CHECK(parsed_address("https://huggingface.co/a/b/tree/") == "refused");
  CHECK(parsed_address("https://huggingface.co/a/../b") == "refused");
}

TEST_CASE("hub_address: hf:// names a model, a revision, and perhaps one file") {
  CHECK(is_hub_address("hf://Qwen/Qwen3-8B"));
  CHECK(!is_hub_address("hf:Qwen/Qwen3-8B"));
  CHECK(parsed_address("hf://Qwen/Qwen3-8B") == "Qwen/Qwen3-8B@main:");
  CHECK(parsed_address("hf://Qwen/Qwen3-8B/") == "Qwen/Qwen3-8B@main:");
  CHECK(parsed_address("hf://gpt2") == "gpt2@main:");
  CHECK(parsed_address("hf://gpt2@v1.0") == "gpt2@v1.0:");
  CHECK(parsed_address("hf://a/b@v1.0") == "a/b@v1.0:");
  CHECK(parsed_address("hf://a/b@feature%2Fx/unet/model.safetensors") ==
        "a/b@feature/x:unet/model.safetensors");
  CHECK(parsed_address("hf://a/b@refs/pr/12") == "a/b@refs/pr/12:");
  CHECK(parsed_address("hf://a/b@refs/pr/12/x.safetensors") == "a/b@refs/pr/12:x.safetensors");
  CHECK(parsed_address("hf://a/b/x.safetensors") == "a/b@main:x.safetensors");
  CHECK(parsed_address("hf://a/b/at@home.safetensors") == "a/b@main:at@home.safetensors");
}

TEST_CASE("hub_address: hf:// names that the hub would refuse are refused") {
  CHECK(parsed_address("hf://") == "refused");
  CHECK(parsed_address("hf://a/b@") == "refused");
  CHECK(parsed_address("hf://a/b@/x.safetensors") == "refused");
  CHECK(parsed_address("hf://a/b@..") == "refused");
  CHECK(parsed_address("hf://a/b@x%2F..%2Fy") == "refused");
  CHECK(parsed_address("hf://../b") == "refused");
  CHECK(parsed_address("hf://datasets/a/b") == "refused");
  CHECK(parsed_address("hf://spaces/a/b") == "refused");
}

TEST_CASE("hub_address: the name of a file is decoded in a page, and not in hf://") {
  const std::string page = "https://huggingface.co/a/b/resolve/main/";
  CHECK(parsed_address(page + "my%20model%2b.safetensors?x=%20#%") ==
        "a/b@main:my model+.safetensors");
  CHECK(parsed_address(page + "100%25/a%3Fb.safetensors") == "a/b@main:100%/a?b.safetensors");
  CHECK(parsed_address("hf://a/b/my%20model.safetensors") == "a/b@main:my%20model.safetensors");
  for (const char* const name : {"%", "%2", "a%2", "%zz.safetensors", "%-1", "a%00", "a%0A"}) {
    CAPTURE(name);
    CHECK(parsed_address(page + name) == "refused");
  }
}
