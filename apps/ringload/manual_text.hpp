// SPDX-License-Identifier: Apache-2.0
#pragma once

// The parts of ringload's manual page that the options do not contain. A test parses every example.

#include "manual.hpp"

namespace ringload::tool {

inline constexpr environment_variable environment_read[] = {
    {"HF_HOME, HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, XDG_CACHE_HOME",
     "The folder of the local Hugging Face cache."},
    {"HF_TOKEN, HUGGING_FACE_HUB_TOKEN, HF_TOKEN_PATH, HF_HUB_DISABLE_IMPLICIT_TOKEN",
     "The token for the hub, or the file that holds it."},
    {"HF_ENDPOINT", "The address of the hub."},
    {"HF_HUB_OFFLINE, TRANSFORMERS_OFFLINE", "1: open no connection, as --offline does."},
    {"AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN",
     "The keys for addresses that begin with s3://."},
    {"AWS_PROFILE, AWS_SHARED_CREDENTIALS_FILE, AWS_CONFIG_FILE",
     "The profile, and the files that hold it."},
    {"AWS_REGION, AWS_DEFAULT_REGION, AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL",
     "The region and the address of the store."},
    {"GS_ACCESS_KEY_ID, GS_SECRET_ACCESS_KEY",
     "The HMAC keys for addresses that begin with gs://."},
    {"AZURE_STORAGE_SAS_TOKEN", "The shared access signature for addresses that begin with az://."},
};

inline constexpr example examples[] = {
    {"ringload ls model.safetensors", "List the tensors of a file. No tensor is read."},
    {"ringload ls openai-community/gpt2 --json", "List a model of the hub, as JSON."},
    {"ringload load ./llama --device cuda:0", "Load a folder of shards to the first GPU."},
    {"ringload load s3://bucket/llama --select 'model.layers.0.*'",
     "Load the tensors of one layer from S3."},
    {"ringload sum ./llama --checksums llama.sums", "Write the SHA-256 of each tensor to a file."},
    {"ringload load ./llama --verify llama.sums", "Load, and compare each tensor with that file."},
    {"ringload convert model.gguf model.safetensors --dtype bf16",
     "Dequantise a GGUF file to BF16."},
    {"ringload convert ./llama s3://bucket/llama.safetensors",
     "Write one file of safetensors to S3."},
    {"ringload delta v1.safetensors v2.safetensors -o v2.delta.zt",
     "Write the difference of two versions."},
    {"ringload apply v1.safetensors v2.delta.zt -o v2.safetensors",
     "Write the second version from the first."},
    {"ringload keep llama=./llama --socket /run/ringload/llama.sock",
     "Hold a model for other processes."},
    {"ringload sum llama --attach /run/ringload/llama.sock", "Hash the model that is held there."},
};

inline constexpr manual_extras manual_text = {
    .summary = "load, list, verify and convert tensor checkpoints",
    .environment = environment_read,
    .examples = examples,
    .see_also = "uring-bench(1), io_uring(7)",
};

}  // namespace ringload::tool
