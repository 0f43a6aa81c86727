// SPDX-License-Identifier: Apache-2.0
#pragma once

// Parses names of models, revisions and files on the Hugging Face hub. Pure functions.

#include <ringload/export.hpp>
#include <string>
#include <string_view>

#include "base/fault.hpp"

namespace ringload::inline v0 {

// Returns true for an ASCII letter, an ASCII digit or '_'.
inline bool is_word(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

struct model_name {
  std::string repository;  // "owner/name", or only "name".
  std::string revision;    // A branch, a tag, `refs/pr/1`, or a commit.
};

// Returns errc::invalid_source_name if huggingface_hub would refuse the name, or if the revision
// could name a folder outside of the cache.
RINGLOAD_EXPORT result<model_name> parse_model_name(std::string_view text);

// The content of an address: a model, or one file of a model.
struct hub_address {
  model_name model;
  std::string file;  // A file of the model. Empty for all files.
};

// Returns true if the text begins with `scheme`, such as "hf://", in upper or lower case.
RINGLOAD_EXPORT bool begins_with_scheme(std::string_view text, std::string_view scheme) noexcept;

// Returns true if the text begins with hf://. Also returns true if the text begins with http:// or
// https:// and one of the hosts huggingface.co, www.huggingface.co and hf.co.
RINGLOAD_EXPORT bool is_hub_address(std::string_view text) noexcept;

// Parses an address of one of the forms
//  hf://owner/model[@REVISION][/FILE]
//  https://huggingface.co/owner/model[/tree/REVISION]
//  https://huggingface.co/owner/model/(resolve|blob|raw)/REVISION/FILE
// A '/' in the revision must be written as %2F, except in hf:// addresses whose revision begins
// with refs/pr/ or refs/convert/. In https addresses, a '?' or '#' and all text after this
// character are ignored.
RINGLOAD_EXPORT result<hub_address> parse_hub_address(std::string_view text);

}  // namespace ringload::inline v0
