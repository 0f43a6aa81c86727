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

void set(std::atomic<int>& word) {
  word.store(1);
  kernel_futex(&word, FUTEX_WAKE_PRIVATE, 1);
}

void wait_until_set(std::atomic<int>& word) {
  while (word.load() == 0) kernel_futex(&word, FUTEX_WAIT_PRIVATE, 0);
}

void wait_for_turn(turn_holder& own) {
  while (own.turn.exchange(0) == 0) kernel_futex(&own.turn, FUTEX_WAIT_PRIVATE, 0);
}

// A program may change the register FS without a system call if the kernel allows it.
bool can_set_thread_base() {
  constexpr unsigned long fsgsbase = 2;  // HWCAP2_FSGSBASE of <asm/hwcap2.h>.
  return (::getauxval(AT_HWCAP2) & fsgsbase) != 0;
}

bool has_separate_threads = !can_set_thread_base();

// The function of this thread has returned, and no thread uses its stack any more.
parked_thread* ended = nullptr;

void release_ended() {
  if (ended) set(std::exchange(ended, nullptr)->is_released);
}

}  // namespace

extern "C" {

// Saves the registers that a function must preserve, and continues another thread.
void ringload_switch_turn(void** own_stack, void* next_stack, std::uint64_t next_base);
// Saves the registers, and calls the function on another stack.
void ringload_park(void** own_stack, std::byte* stack_end, void (*function)(parked_thread*),
                   parked_thread* argument);
// Continues where ringload_switch_turn() has saved the registers.
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

// Another thread may use the stack of this thread as soon as `is_parked` is set.
void wait_on_other_stack(parked_thread* own) {
  set(own->is_parked);
  wait_until_set(own->is_released);
  ringload_continue(own->stack_pointer);
}

void continue_thread(void** own_stack, turn_holder& next) {
  if (next.parked) wait_until_set(next.parked->is_parked);
  ringload_switch_turn(own_stack, next.stack_pointer, next.thread_base);
}

}  // namespace

void use_separate_threads() { has_separate_threads = true; }

void take_first_turn(turn_holder& first) {
  first.thread_base = static_cast<std::uint64_t>(::pthread_self());
}

void wait_for_first_turn(turn_holder& own, parked_thread& parked) {
  if (has_separate_threads) return wait_for_turn(own);
  own.thread_base = static_cast<std::uint64_t>(::pthread_self());
  ringload_park(&own.stack_pointer, parked.stack.data() + parked.stack.size(), wait_on_other_stack,
                &parked);
  release_ended();
}

void give_turn(turn_holder& own, turn_holder& next) {
  if (has_separate_threads) {
    set(next.turn);
    return wait_for_turn(own);
  }
  continue_thread(&own.stack_pointer, next);
  release_ended();
}

void end_turn(turn_holder& own, turn_holder& next) {
  if (has_separate_threads) return set(next.turn);
  ended = own.parked;
  continue_thread(&ended->stack_pointer, next);
}

}  // namespace ringload::simulation
