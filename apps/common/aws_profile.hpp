// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reads a profile from the configuration files of Amazon's tools: ~/.aws/credentials and
// ~/.aws/config. Pure functions.

#include <map>
#include <string>
#include <string_view>

namespace ringload::tool {

/// Returns the keys and values of a section. The keys are in lower case. The name of a nested key
/// begins with the name of its parent: `addressing_style` in `s3` is "s3.addressing_style". Returns
/// an empty map if the section does not exist. Lines without a key are ignored.
std::map<std::string, std::string> aws_section(std::string_view text, std::string_view section);

/// Returns the name of a profile's section in ~/.aws/config. The name is "default" for the default
/// profile, and "profile NAME" for any other profile.
std::string aws_config_section(const std::string& profile);

}  // namespace ringload::tool
