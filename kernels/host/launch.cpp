#include "launch.h"

#include <algorithm>
#include <memory>

#include "fiber.h"
#include "program.h"

namespace host {

Position here;

namespace {

// Not a power of two, or all stacks would compete for the same lines of the cache.
const size_t kStack = (32 << 10) + 192;
const u32 kLanes = 32;

enum class State { kReady, kAtBarrier, kAtShuffle, kDone };

struct Thread {
  Fiber fiber;
  Index index;
  State state;
  u32 shuffles;  // that it has come to
};

// What a thread brings to two shuffles one after the other.
struct Brought {
  u64 words[2][kMostWords];
};

// The block that runs.
struct Block {
  const Kernel* kernel;
  void** params;
  std::vector<Thread> threads;
  std::vector<Brought> brought;  // by each
  Fiber scheduler;
  Thread* running = nullptr;
  const char* failure = nullptr;
};
Block* block;  // only while its threads may wait
bool waited_alone;

// Of the threads of a block, kept for the next launch: fresh ones cost more than most launches of tests.
std::unique_ptr<char[]> stacks;
size_t stacked;  // threads

void have_stacks(size_t threads) {
  if (threads <= stacked) return;
  stacks.reset(new char[threads * kStack]);
  stacked = threads;
}

void drop_stacks() {
  stacks.reset();
  stacked = 0;
}

// Notes that the thread is the one that runs, and returns its fiber.
Fiber& run_next(Thread& t) {
  block->running = &t;
  here.thread = t.index;
  return t.fiber;
}

// What goes on when a thread waits or ends: the next thread of its warp that is ready, or the scheduler.
Fiber& next_of(const Thread* t) {
  Block& b = *block;
  size_t at = (size_t)(t - b.threads.data());
  for (size_t i = at + 1; i < b.threads.size() && i % kLanes; i++) {
    if (b.threads[i].state == State::kReady) return run_next(b.threads[i]);
  }
  return b.scheduler;
}

void yield(State s) {
  Thread* t = block->running;
  t->state = s;
  switch_to(t->fiber, next_of(t));
}

void body() {
  arrived();
  block->kernel->call(block->params);
  Thread* t = block->running;
  t->state = State::kDone;
  leave_for(t->fiber, next_of(t));
}

// Lets each ready thread of the warp [from, to) run until it waits or ends.
bool turn(Block& b, size_t from, size_t to) {
  for (size_t i = from; i < to; i++) {
    if (b.threads[i].state != State::kReady) continue;
    switch_to(b.scheduler, run_next(b.threads[i]));  // which has the next go on, and so forth
    return true;
  }
  return false;
}

// Readies the threads of [from, to) if all of them wait at s, or, where those
// that have ended are excused, all of the others.
bool release(Block& b, size_t from, size_t to, State s, bool excuse_done) {
  bool any = false;
  for (size_t i = from; i < to; i++) {
    State have = b.threads[i].state;
    if (have == s) {
      any = true;
    } else if (!(excuse_done && have == State::kDone)) {
      return false;
    }
  }
  for (size_t i = from; any && i < to; i++) {
    if (b.threads[i].state == s) b.threads[i].state = State::kReady;
  }
  return any;
}

// Has a warp's threads bring n words each, and take what the thread brings that from(own number) says,
// if the warp has it. All lanes have brought theirs once one goes on, and none comes to the shuffle after the
// next before each has taken.
template <class From>
void exchange(u64* words, u32 n, From&& from) {
  if (!block) {
    waited_alone = true;
    return;
  }
  Thread* t = block->running;
  size_t at = (size_t)(t - block->threads.data());
  u32 turn = t->shuffles++ % 2;
  std::copy(words, words + n, block->brought[at].words[turn]);
  yield(State::kAtShuffle);
  size_t other = from(at);
  if (other / kLanes != at / kLanes || other >= block->threads.size()) return;
  const u64* of = block->brought[other].words[turn];
  std::copy(of, of + n, words);
}

bool all_done(const Block& b) {
  for (const Thread& t : b.threads) {
    if (t.state != State::kDone) return false;
  }
  return true;
}

void run_waiting_block(Block& b) {
  size_t n = b.threads.size();
  for (size_t i = 0; i < n; i++) {
    Thread& t = b.threads[i];
    prepare(t.fiber, stacks.get() + i * kStack, kStack, body);
    t.state = State::kReady;
    t.shuffles = 0;
  }
  block = &b;
  while (!b.failure && !all_done(b)) {
    bool moved = false;
    for (size_t warp = 0; warp < n; warp += kLanes) {
      size_t end = warp + kLanes < n ? warp + kLanes : n;
      // A warp runs on through its shuffles until it meets a barrier or its end.
      do {
        moved |= turn(b, warp, end);
      } while (release(b, warp, end, State::kAtShuffle, false));
    }
    moved |= release(b, 0, n, State::kAtBarrier, true);
    if (!moved) b.failure = "its threads wait for each other at different places";
  }
  block = nullptr;
}

}  // namespace

void wait_warp() {
  if (!block) {
    waited_alone = true;
    return;
  }
  yield(State::kAtShuffle);
}

void wait_block() {
  if (!block) {
    waited_alone = true;
    return;
  }
  yield(State::kAtBarrier);
}

u32 exchange_down(u32 v, u32 down) {
  u64 word = v;
  exchange(&word, 1, [&](size_t at) { return at + down; });
  return (u32)word;
}

void exchange_xor(const u64* v, u64* got, u32 n, u32 other) {
  std::copy(v, v + n, got);
  exchange(got, n, [&](size_t at) { return at ^ other; });
}

std::string run(const Kernel& k, Index blocks, Index threads, void** params) {
  Block b;
  b.kernel = &k;
  b.params = params;
  program = k.program;
  for (u32 z = 0; z < threads.z; z++) {
    for (u32 y = 0; y < threads.y; y++) {
      for (u32 x = 0; x < threads.x; x++) b.threads.push_back({{}, {x, y, z}, State::kReady, 0});
    }
  }
  if (k.waits) {
    have_stacks(b.threads.size());
    b.brought.resize(b.threads.size());
  }
  for (u32 z = 0; z < blocks.z; z++) {
    for (u32 y = 0; y < blocks.y; y++) {
      for (u32 x = 0; x < blocks.x; x++) {
        here = {{0, 0, 0}, {x, y, z}, threads, blocks};
        if (k.waits) {
          run_waiting_block(b);
          if (b.failure) {
            drop_stacks();  // on which threads have not ended
            return b.failure;
          }
          continue;
        }
        for (const Thread& t : b.threads) {
          here.thread = t.index;
          k.call(params);
        }
        if (waited_alone) {
          waited_alone = false;
          return "its threads wait for each other, and table.h says that they do not";
        }
      }
    }
  }
  return "";
}

}  // namespace host
