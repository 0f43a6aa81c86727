// SPDX-License-Identifier: Apache-2.0
#pragma once

// Power cuts. The simulated drive remembers which writes and which changes of the folder of saves
// are durable. At random moments the power is cut: a legal part of the rest survives, and each
// saved file must be whole, the old one or the new one. The world itself continues.

#include <cstddef>
#include <cstdint>
#include <string>

namespace ringload::simulation {

void begin_power(const std::string& folder);
void end_power();

// A save with `sync` has completed: its file must survive from now on.
void must_survive(const std::string& path);

// The power is cut now, and the files that survive are checked. The world continues.
void cut_power();

// ---- Calls that have succeeded, for drive.cpp ----

void file_created(int fd);
void bytes_written(int fd, const void* memory, std::uint64_t bytes, std::uint64_t offset);
void file_resized(int fd, std::uint64_t bytes);
void name_added(const char* path);
void name_moved(const char* from, const char* to);
void name_removed(const char* path);

// The beginning and the end of fsync. Only changes from before the beginning become durable.
// Changes that a failed fsync covers never become durable by a later fsync, as in Linux.
std::uint64_t sync_begun();
void sync_ended(int fd, std::uint64_t begun, bool has_failed);

}  // namespace ringload::simulation
