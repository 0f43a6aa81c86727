// SPDX-License-Identifier: Apache-2.0

#include "turns.hpp"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/syscall.h>

#include <cstdint>
#include <utility>

namespace ringload::simulation {

namespace {

// A futex call that threads.cpp does not intercept.
long kernel_futex(std::atomic<int>* word, int operation, int value) {
  long result = 0;
  register long timeout asm("r10") = 0;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(SYS_futex), "D"(word), "S"(operation), "d"(value), "r"(timeout)
               : "rcx", "r11", "memory");
  return result;
}

void set_and_wake(std::atomic<int>& word) {
  word.store(1);
  kernel_futex(&word, FUTEX_WAKE_PRIVATE, 1);
}

void wait_until_set(std::atomic<int>& word) {
  while (word.load() == 0) kernel_futex(&word, FUTEX_WAIT_PRIVATE, 0);
}

void wait_for_turn(thread_turn& own) {
  while (own.turn.exchange(0) == 0) kernel_futex(&own.turn, FUTEX_WAIT_PRIVATE, 0);
}

// Returns true if a program may set the register FS without a system call.
bool can_set_fs_base() {
  constexpr unsigned long fsgsbase = 2;  // HWCAP2_FSGSBASE of <asm/hwcap2.h>.
  return (::getauxval(AT_HWCAP2) & fsgsbase) != 0;
}

bool has_separate_threads = !can_set_fs_base();

// The thread that has called end_turn(). The thread with the next turn releases it.
parked_thread* ended_thread = nullptr;

void release_ended() {
  if (ended_thread) set_and_wake(std::exchange(ended_thread, nullptr)->is_released);
}

}  // namespace

extern "C" {

// Saves the general registers that a function must preserve, sets FS, and continues another thread.
void ringload_switch_turn(void** own_stack, void* next_stack, std::uint64_t next_fs_base);
// Saves these registers, and calls the function on another stack. The function must not return.
void ringload_park(void** own_stack, std::byte* stack_end, void (*function)(parked_thread*),
                   parked_thread* argument);
// Returns from the call of ringload_switch_turn() that has saved `stack`.
[[noreturn]] void ringload_continue(void* stack);

asm(R"(
.macro save_registers
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
.endm
.macro restore_registers
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  ret
.endm

.text
.type ringload_switch_turn, @function
ringload_switch_turn:
  save_registers
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  wrfsbase %rdx
  restore_registers

.type ringload_park, @function
ringload_park:
  save_registers
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  mov %rcx, %rdi
  call *%rdx
  ud2

.type ringload_continue, @function
ringload_continue:
  mov %rdi, %rsp
  restore_registers
)");

}  // extern "C"

namespace {

// Runs on the stack of `own`. The first thread may use the OS thread's own stack as soon as
// `is_parked` is set.
void wait_on_parked_stack(parked_thread* own) {
  set_and_wake(own->is_parked);
  wait_until_set(own->is_released);
  ringload_continue(own->stack_pointer);
}

void continue_thread(void** own_stack, thread_turn& next) {
  if (next.parked) wait_until_set(next.parked->is_parked);
  ringload_switch_turn(own_stack, next.stack_pointer, next.fs_base);
}

}  // namespace

void use_separate_threads() { has_separate_threads = true; }

void take_first_turn(thread_turn& first) {
  first.fs_base = static_cast<std::uint64_t>(::pthread_self());
}

void wait_for_first_turn(thread_turn& own) {
  if (has_separate_threads) return wait_for_turn(own);
  own.fs_base = static_cast<std::uint64_t>(::pthread_self());
  ringload_park(&own.stack_pointer, own.parked->stack.data() + own.parked->stack.size(),
                wait_on_parked_stack, own.parked);
  release_ended();
}

void give_turn(thread_turn& own, thread_turn& next) {
  if (has_separate_threads) {
    set_and_wake(next.turn);
    return wait_for_turn(own);
  }
  continue_thread(&own.stack_pointer, next);
  release_ended();
}

void end_turn(thread_turn& own, thread_turn& next) {
  if (has_separate_threads) return set_and_wake(next.turn);
  ended_thread = own.parked;
  continue_thread(&ended_thread->stack_pointer, next);
}

}  // namespace ringload::simulation
