// SPDX-License-Identifier: Apache-2.0

// A stand-in for the library NCCL. Its ranks are threads of one process, and its device is the
// program's stand-in for CUDA. The stream of the sender copies a message to the host, and the
// stream of the receiver copies it from there.
//
// The stand-in waits in the same places as NCCL. A communicator is ready when all ranks have
// joined. A call is launched when the ranks at its other end have made their call. A blocking
// communicator waits for both inside the call. Another communicator returns ncclInProgress, and
// refuses further calls until ncclCommGetAsyncError has returned ncclSuccess. All ranks end a
// communicator together.

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace {

constexpr int success = 0;
constexpr int unhandled_cuda_error = 1;
constexpr int invalid_argument = 4;
constexpr int remote_error = 6;
constexpr int in_progress = 7;

constexpr unsigned config_magic = 0xcafebeef;
constexpr unsigned first_version_with_config = 21400;

struct message {
  std::vector<std::byte> bytes;
  bool is_received = false;
};

struct meeting {
  int ranks = 0;
  int came = 0;
  int left = 0;
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<message>>> sent;  // By from and to.
};

// Never destroyed, because a thread may wait here until the process ends.
std::mutex& guard = *new std::mutex;
std::condition_variable& changed = *new std::condition_variable;
std::map<unsigned, std::shared_ptr<meeting>> meetings;
unsigned next_id = 0;
int async_error = success;
int aborts = 0;      // Calls of ncclCommAbort.
int broadcasts = 0;  // Calls of ncclBroadcast.
void (*at_broadcasts)() = nullptr;
// Copies read their memory late.
std::vector<std::shared_ptr<message>> received;

bool good(cudaError_t said) {
  if (said != cudaSuccess) (void)cudaGetLastError();
  return said == cudaSuccess;
}

}  // namespace

extern "C" {

struct ncclUniqueId {
  char internal[128];
};

struct ncclConfig {
  std::size_t bytes;
  unsigned magic;
  unsigned version;
  int blocking;
};

struct ncclComm {
  std::shared_ptr<meeting> in;
  int rank;
  int device;
  bool blocking;
  // Guarded by `guard`.
  int state = success;
  bool is_aborted = false;
};
}

namespace {

// Waits until the condition holds. Returns what ends the wait otherwise.
template <class Condition>
int wait_until(std::unique_lock<std::mutex>& lock, const ncclComm& of, const Condition& holds) {
  changed.wait(lock, [&] { return holds() || of.is_aborted || async_error != success; });
  return holds() ? success : remote_error;
}

struct transfer {
  bool sends;
  const void* from;
  void* into;
  std::size_t count;
  int peer;
  cudaStream_t on;
  std::shared_ptr<message> what;  // Of a transfer that sends.
};

int send(const ncclComm& of, transfer& one) {
  one.what = std::make_shared<message>();
  one.what->bytes.resize(one.count);
  if (!good(cudaMemcpyAsync(one.what->bytes.data(), one.from, one.count, cudaMemcpyDeviceToHost,
                            one.on)) ||
      !good(cudaStreamSynchronize(one.on))) {
    return unhandled_cuda_error;
  }
  const std::lock_guard lock(guard);
  of.in->sent[{of.rank, one.peer}].push_back(one.what);
  changed.notify_all();
  return success;
}

int receive(const ncclComm& of, transfer& one) {
  std::shared_ptr<message> arrived;
  {
    std::unique_lock lock(guard);
    auto& from_peer = of.in->sent[{one.peer, of.rank}];
    if (const int failed = wait_until(lock, of, [&] { return !from_peer.empty(); })) return failed;
    arrived = from_peer.front();
    from_peer.pop_front();
    received.push_back(arrived);
    arrived->is_received = true;
    changed.notify_all();
  }
  if (arrived->bytes.size() != one.count) return invalid_argument;
  return good(cudaMemcpyAsync(one.into, arrived->bytes.data(), one.count, cudaMemcpyHostToDevice,
                              one.on))
             ? success
             : unhandled_cuda_error;
}

// The sends of a group do not wait for its receives.
int launch(const ncclComm& of, std::vector<transfer> all) {
  for (transfer& one : all) {
    if (!one.sends) continue;
    if (const int failed = send(of, one)) return failed;
  }
  for (transfer& one : all) {
    if (one.sends) continue;
    if (const int failed = receive(of, one)) return failed;
  }
  std::unique_lock lock(guard);
  for (const transfer& one : all) {
    if (!one.sends) continue;
    if (const int failed = wait_until(lock, of, [&] { return one.what->is_received; })) {
      return failed;
    }
  }
  return success;
}

// Runs the call in this thread or, for a non-blocking communicator, in a new thread.
int carry_out(ncclComm* of, std::function<int()> work) {
  if (of->blocking) return work();
  {
    const std::lock_guard lock(guard);
    of->state = in_progress;
  }
  std::thread([of, work = std::move(work)] {
    const bool has_device = good(cudaSetDevice(of->device));
    const int outcome = has_device ? work() : unhandled_cuda_error;
    const std::lock_guard lock(guard);
    of->state = outcome;
    changed.notify_all();
  }).detach();
  return in_progress;
}

thread_local unsigned open_groups = 0;
thread_local ncclComm* grouped_of = nullptr;
thread_local std::vector<transfer> grouped;

int end_group() {
  ncclComm* const of = std::exchange(grouped_of, nullptr);
  auto all = std::exchange(grouped, {});
  if (of == nullptr) return success;
  return carry_out(of, [of, all = std::move(all)] { return launch(*of, all); });
}

int add(int type, ncclComm* of, transfer one) {
  const bool is_wrong = type != 0 || one.peer < 0 || one.peer >= of->in->ranks ||
                        (grouped_of != nullptr && grouped_of != of);
  if (is_wrong) return invalid_argument;
  {
    // NCCL: "Attempt to use communicator before the previous operation returned ncclSuccess".
    const std::lock_guard lock(guard);
    if (of->state != success) return invalid_argument;
  }
  grouped_of = of;
  grouped.push_back(std::move(one));
  return open_groups == 0 ? end_group() : success;
}

int meet(ncclComm* of) {
  std::unique_lock lock(guard);
  ++of->in->came;
  changed.notify_all();
  return wait_until(lock, *of, [&] { return of->in->came == of->in->ranks; });
}

// All ranks of a machine must end together, so the call blocks until the last rank has called.
int leave(ncclComm* of) {
  std::unique_lock lock(guard);
  changed.wait(lock, [&] { return of->state != in_progress; });
  const std::unique_ptr<ncclComm> owned(of);
  ++of->in->left;
  changed.notify_all();
  changed.wait(lock, [&] { return of->in->left == of->in->ranks; });
  return success;
}

}  // namespace

extern "C" {

int ncclGetUniqueId(ncclUniqueId* made) {
  const std::lock_guard lock(guard);
  *made = {};
  const unsigned id = ++next_id;
  std::memcpy(made->internal, &id, sizeof id);
  meetings[id] = std::make_shared<meeting>();
  return success;
}

int ncclCommInitRankConfig(ncclComm** made, int ranks, ncclUniqueId at, int rank,
                           const ncclConfig* config) {
  if (config->magic != config_magic || config->bytes < sizeof(ncclConfig) ||
      config->version < first_version_with_config) {
    return invalid_argument;
  }
  unsigned id = 0;
  std::memcpy(&id, at.internal, sizeof id);
  int device = 0;
  if (!good(cudaGetDevice(&device))) return unhandled_cuda_error;
  std::unique_lock lock(guard);
  const auto found = meetings.find(id);
  if (found == meetings.end() || rank < 0 || rank >= ranks) return invalid_argument;
  found->second->ranks = ranks;
  auto* const of = new ncclComm{found->second, rank, device, config->blocking != 0};
  *made = of;
  lock.unlock();
  // NCCL reads the communicator from the caller's variable until all ranks have joined.
  return carry_out(of, [made] { return meet(*made); });
}

int ncclCommDestroy(ncclComm* of) {
  {
    const std::lock_guard lock(guard);
    if (of->state == in_progress) return invalid_argument;
  }
  return leave(of);
}

int fake_nccl_aborts() {
  const std::lock_guard lock(guard);
  return aborts;
}

int fake_nccl_broadcasts() {
  const std::lock_guard lock(guard);
  return broadcasts;
}

int ncclCommAbort(ncclComm* of) {
  {
    const std::lock_guard lock(guard);
    of->is_aborted = true;
    ++aborts;
    changed.notify_all();
  }
  return leave(of);
}

int ncclCommGetAsyncError(ncclComm* of, int* said) {
  const std::lock_guard lock(guard);
  *said = async_error != success ? async_error : of->state;
  return success;
}

const char* ncclGetErrorString(int of) {
  return of == remote_error ? "remote process exited or there was a network error"
                            : "what NCCL says about it";
}

int ncclGroupStart() {
  ++open_groups;
  return success;
}

int ncclGroupEnd() {
  if (open_groups == 0) return invalid_argument;
  return --open_groups > 0 ? success : end_group();
}

int ncclSend(const void* from, std::size_t count, int type, int peer, ncclComm* of,
             cudaStream_t on) {
  return add(type, of, {true, from, nullptr, count, peer, on, {}});
}

int ncclRecv(void* into, std::size_t count, int type, int peer, ncclComm* of, cudaStream_t on) {
  return add(type, of, {false, nullptr, into, count, peer, on, {}});
}

int ncclBroadcast(const void* from, void* into, std::size_t count, int type, int root, ncclComm* of,
                  cudaStream_t on) {
  void (*at_start)() = nullptr;
  {
    const std::lock_guard lock(guard);
    ++broadcasts;
    at_start = at_broadcasts;
  }
  if (at_start != nullptr) at_start();
  if (of->rank != root) return ncclRecv(into, count, type, root, of, on);
  ncclGroupStart();
  int failed = success;
  for (int rank = 0; rank < of->in->ranks && failed == success; ++rank) {
    if (rank != root) failed = ncclSend(from, count, type, rank, of, on);
  }
  const int ended = ncclGroupEnd();
  return failed != success ? failed : ended;
}

// For tests: sets a function that each broadcast calls first. Null means none.
void fake_nccl_at_broadcasts(void (*work)()) {
  const std::lock_guard lock(guard);
  at_broadcasts = work;
}

// For tests: sets the error that NCCL finds.
void fake_nccl_async_error(int of) {
  const std::lock_guard lock(guard);
  async_error = of;
  changed.notify_all();
}
}
