#include "fiber.h"

#include <cstdint>
#include <cstdlib>

#if !defined(__x86_64__) || defined(HOST_UCONTEXT)
#include <ucontext.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#define BEFORE_SWITCH(save, to) __sanitizer_start_switch_fiber(save, (to).stack, (to).size)
#define AFTER_SWITCH(restore, bottom, size) __sanitizer_finish_switch_fiber(restore, bottom, size)
#else
#define BEFORE_SWITCH(save, to) (void)0
#define AFTER_SWITCH(restore, bottom, size) (void)0
#endif

namespace host {

static Fiber* came_from;

#if defined(__x86_64__) && !defined(HOST_UCONTEXT)
// jump(&save, at): keeps what a function must keep on the stack, notes the stack
// pointer in save and takes the other one. A few instructions where swapcontext
// makes two system calls.
extern "C" void host_fiber_jump(void** save, void* at);
asm(R"(
.text
.hidden host_fiber_jump
.globl host_fiber_jump
.type host_fiber_jump, @function
host_fiber_jump:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size host_fiber_jump, .-host_fiber_jump
)");

void prepare(Fiber& f, char* stack, size_t size, void (*body)()) {
  f.stack = stack;
  f.size = size;
  f.shadow = nullptr;
  void** top = (void**)(((uintptr_t)stack + size) & ~(uintptr_t)15);
  *--top = nullptr;  // where body would return to; keeps the stack aligned
  *--top = (void*)body;
  for (int i = 0; i < 6; i++) *--top = nullptr;
  f.at = top;
}

static void jump(Fiber& from, Fiber& to) { host_fiber_jump(&from.at, to.at); }
#else
void prepare(Fiber& f, char* stack, size_t size, void (*body)()) {
  f.stack = stack;
  f.size = size;
  f.shadow = nullptr;
  auto* c = (ucontext_t*)stack;  // at the low end, which the fiber does not reach
  getcontext(c);
  c->uc_stack.ss_sp = stack + sizeof(ucontext_t);
  c->uc_stack.ss_size = size - sizeof(ucontext_t);
  c->uc_link = nullptr;
  makecontext(c, body, 0);
  f.at = c;
}

static void jump(Fiber& from, Fiber& to) {
  ucontext_t mine;  // of a thread that is no fiber
  if (!from.at) from.at = &mine;
  swapcontext((ucontext_t*)from.at, (ucontext_t*)to.at);
  if (from.at == &mine) from.at = nullptr;
}
#endif

void arrived() {
  const void* bottom = nullptr;
  size_t size = 0;
  (void)bottom, (void)size;
  AFTER_SWITCH(nullptr, &bottom, &size);
  // Learn the stack of the thread that is no fiber.
  if (came_from && !came_from->stack) {
    came_from->stack = (char*)bottom;
    came_from->size = size;
  }
}

void switch_to(Fiber& from, Fiber& to) {
  came_from = &from;
  BEFORE_SWITCH(&from.shadow, to);
  jump(from, to);
  AFTER_SWITCH(from.shadow, nullptr, nullptr);
}

void leave_for(Fiber& from, Fiber& to) {
  BEFORE_SWITCH(nullptr, to);
  jump(from, to);
  abort();
}

}  // namespace host
