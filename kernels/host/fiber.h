// Fibers: functions with a stack of their own that take turns on one thread. Only
// one thread of the program may use them at a time.
#pragma once
#include <cstddef>

namespace host {

struct Fiber {
  char* stack = nullptr;   // lowest address; the fiber does not own it
  size_t size = 0;         // bytes
  void* at = nullptr;      // where it goes on, while it does not run
  void* shadow = nullptr;  // AddressSanitizer's, while it does not run
};

// Makes a fiber ready to call body on the given stack. body must not return:
// it ends with leave_for.
void prepare(Fiber& f, char* stack, size_t size, void (*body)());
// Goes on in `to`; returns when somebody comes back to `from`.
void switch_to(Fiber& from, Fiber& to);
// The last switch of a fiber that has ended: it does not return, but is not [[noreturn]], as before
// such a call AddressSanitizer clears its marks of the whole stack, with system calls.
void leave_for(Fiber& from, Fiber& to);
// What a fiber calls first.
void arrived();

}  // namespace host
