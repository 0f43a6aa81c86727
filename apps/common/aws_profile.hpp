// SPDX-License-Identifier: Apache-2.0
#pragma once

// One profile of the files that Amazon's tools keep: ~/.aws/credentials and ~/.aws/config. Pure.

#include <map>
#include <string>
#include <string_view>

namespace ringload::tool {

/// The keys and values of a section, in lower case the keys. What is nested beneath a key, as
/// `addressing_style` beneath `s3`, has both names: "s3.addressing_style". Empty where there is no
/// such section. Lines that say nothing are passed over.
std::map<std::string, std::string> aws_section(std::string_view text, std::string_view section);

/// What ~/.aws/config calls a profile's section: "default", else "profile NAME".
std::string aws_config_section(const std::string& profile);

}  // namespace ringload::tool
