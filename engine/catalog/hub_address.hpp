// SPDX-License-Identifier: Apache-2.0
#pragma once

// Names of models, revisions and files on the Hugging Face hub. Pure.

#include <ringload/export.hpp>
#include <string>
#include <string_view>

#include "base/fault.hpp"

namespace ringload::inline v0 {

// A letter, a digit or '_' of ASCII.
inline bool is_word(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

struct model_name {
  std::string repository;  // "owner/name", or "name" alone.
  std::string revision;    // A branch, a tag, `refs/pr/1`, or a commit.
};

// invalid_source_name where huggingface_hub would refuse the name, or the revision could escape.
RINGLOAD_EXPORT result<model_name> parse_model_name(std::string_view text);

// A page or a file of the hub, parsed from its address.
struct hub_address {
  model_name model;
  std::string file;  // File of the model; empty: all files.
};

// Whether the text begins with the scheme ("hf://"), in capitals or not.
RINGLOAD_EXPORT bool begins_with_scheme(std::string_view text, std::string_view scheme) noexcept;

// Whether the text begins with hf://, or is an address of the hub's pages: https:// or http:// of
// huggingface.co, www.huggingface.co or hf.co.
RINGLOAD_EXPORT bool is_hub_address(std::string_view text) noexcept;

// hf://owner/model[@REVISION][/FILE], where a '/' in the revision is written as %2F but in those
// that begin with refs/pr/ or refs/convert/; or
// https://huggingface.co/owner/model[/tree/REVISION | /(resolve|blob|raw)/REVISION/FILE], of which
// what follows a '?' or '#' is passed over, and a '/' in the revision is %2F, as the hub does.
RINGLOAD_EXPORT result<hub_address> parse_hub_address(std::string_view text);

}  // namespace ringload::inline v0
