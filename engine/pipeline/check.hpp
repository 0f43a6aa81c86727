// SPDX-License-Identifier: Apache-2.0
#pragma once

// Integrity checks: once a tensor has all its bytes, and before it is handed out, its digest is
// compared with the manifest's.
//
// There is one checker coroutine for each check thread; both are made for the first load that asks.

#include <boost/asio/awaitable.hpp>
#include <ringload/catalog.hpp>
#include <ringload/verify.hpp>
#include <vector>

#include "core/fault.hpp"

namespace ringload::inline v0::detail {

class engine;

// The digest of each tensor of the catalog; the manifest owns them. Fails if either has a tensor
// that the other lacks, or if a digest cannot be computed.
result<std::vector<const tensor_digest*>> expected_digests(const manifest& listed,
                                                           const ringload::catalog& what);

// Loops: takes the next tensor, hashes it in a check thread, passes the result to its job.
boost::asio::awaitable<void> checker(engine& e);

}  // namespace ringload::inline v0::detail
