#include "stream.h"

#include <chrono>
#include <cstring>
#include <deque>

#include "machine.h"
#include "memory.h"

namespace host {
namespace {

struct Stream {
  int device;
  std::deque<Work> work;
  int failure = kSuccess;  // a failure stays, as on a device
};

struct Event {
  int device;
  bool timed;
  bool pending = false;   // recorded, and not reached yet
  bool reached = false;
  uint64_t stream = 0;    // it was recorded on
  long record = 0;        // counts its recordings
  long passed = 0;        // the last of them that its stream has come to
  std::chrono::steady_clock::time_point when;
};

uint64_t last_handle = 1000;

std::map<uint64_t, Stream>& streams() {
  static auto* all = new std::map<uint64_t, Stream>;
  return *all;
}

std::map<uint64_t, Event>& events() {
  static auto* all = new std::map<uint64_t, Event>;
  return *all;
}

Stream* find_stream(uint64_t h) {
  auto s = streams().find(h);
  return s == streams().end() ? nullptr : &s->second;
}

Event* find_event(uint64_t h) {
  auto e = events().find(h);
  return e == events().end() ? nullptr : &e->second;
}

// Runs what is on a stream, in its order.
int drain(Stream& s) {
  while (!s.work.empty()) {
    Work w = std::move(s.work.front());
    s.work.pop_front();
    int code = w();
    if (code && !s.failure) s.failure = code;
  }
  return s.failure;
}

// Runs what is on a stream before a recording of an event, which may have been
// recorded again since.
int reach(Event& e, uint64_t stream, long record) {
  Stream* s = find_stream(stream);
  while (s && e.passed < record && !s->work.empty()) {
    Work w = std::move(s->work.front());
    s->work.pop_front();
    int code = w();
    if (code && !s->failure) s->failure = code;
  }
  return s ? s->failure : kSuccess;
}

int reach(Event& e) { return reach(e, e.stream, e.record); }

}  // namespace

int enqueue(uint64_t stream, Work work) {
  Stream* s = find_stream(stream);
  if (!s || s->device != current_device) return kInvalidHandle;
  if (s->failure) return s->failure;
  s->work.push_back(std::move(work));
  return kSuccess;
}

void drain_streams() {
  for (auto& s : streams()) drain(s.second);
}

long held_streams() { return (long)(streams().size() + events().size()); }

void drop_streams() {
  streams().clear();
  events().clear();
}

void drop_streams_of(int device) {
  for (auto s = streams().begin(); s != streams().end();) s = s->second.device == device ? streams().erase(s) : ++s;
  for (auto e = events().begin(); e != events().end();) e = e->second.device == device ? events().erase(e) : ++e;
}

}  // namespace host

using namespace host;

EXPORT int cuStreamCreate(uint64_t* h, unsigned) {
  ENTER(cuStreamCreate);
  NEED_CONTEXT;
  *h = ++last_handle;
  streams()[*h].device = current_device;
  return kSuccess;
}

EXPORT int cuStreamDestroy_v2(uint64_t h) {
  ENTER(cuStreamDestroy_v2);
  NEED_CONTEXT;
  Stream* s = find_stream(h);
  if (!s) return kInvalidHandle;
  drain(*s);
  streams().erase(h);
  return kSuccess;
}

EXPORT int cuStreamSynchronize(uint64_t h) {
  ENTER(cuStreamSynchronize);
  NEED_CONTEXT;
  Stream* s = find_stream(h);
  return s ? drain(*s) : kInvalidHandle;
}

EXPORT int cuStreamWaitEvent(uint64_t h, uint64_t event, unsigned) {
  ENTER(cuStreamWaitEvent);
  NEED_CONTEXT;
  Event* e = find_event(event);
  if (!e) return kInvalidHandle;
  if (!e->pending) return kSuccess;
  long record = e->record;
  uint64_t stream = e->stream;
  return enqueue(h, [event, stream, record] {
    Event* e = find_event(event);
    return e ? reach(*e, stream, record) : kSuccess;
  });
}

EXPORT int cuEventCreate(uint64_t* h, unsigned flags) {
  ENTER(cuEventCreate);
  NEED_CONTEXT;
  *h = ++last_handle;
  Event& e = events()[*h];
  e.device = current_device;
  e.timed = !(flags & 2);
  return kSuccess;
}

EXPORT int cuEventDestroy_v2(uint64_t h) {
  ENTER(cuEventDestroy_v2);
  NEED_CONTEXT;
  return events().erase(h) ? kSuccess : kInvalidHandle;
}

EXPORT int cuEventRecord(uint64_t h, uint64_t stream) {
  ENTER(cuEventRecord);
  NEED_CONTEXT;
  Event* e = find_event(h);
  if (!e) return kInvalidHandle;
  long record = e->record + 1;
  int code = enqueue(stream, [h, record] {
    Event* e = find_event(h);
    if (e && e->passed < record) e->passed = record;
    if (e && e->record == record) {
      e->pending = false;
      e->reached = true;
      e->when = std::chrono::steady_clock::now();
    }
    return kSuccess;
  });
  if (code) return code;
  e->record = record;
  e->pending = true;
  e->reached = false;
  e->stream = stream;
  return kSuccess;
}

EXPORT int cuEventSynchronize(uint64_t h) {
  ENTER(cuEventSynchronize);
  NEED_CONTEXT;
  Event* e = find_event(h);
  return e ? reach(*e) : kInvalidHandle;
}

EXPORT int cuEventElapsedTime(float* ms, uint64_t from, uint64_t to) {
  ENTER(cuEventElapsedTime);
  NEED_CONTEXT;
  Event *a = find_event(from), *b = find_event(to);
  if (!a || !b || !a->timed || !b->timed) return kInvalidHandle;
  if (a->pending || b->pending) return kNotReady;
  if (!a->reached || !b->reached) return kInvalidHandle;
  *ms = std::chrono::duration<float, std::milli>(b->when - a->when).count();
  return kSuccess;
}

EXPORT int cuMemcpyHtoDAsync_v2(uintptr_t to, const void* from, size_t bytes, uint64_t stream) {
  ENTER(cuMemcpyHtoDAsync_v2);
  NEED_CONTEXT;
  if (!is_device_memory(current_device, (void*)to, bytes)) return kInvalidValue;
  return enqueue(stream, [=] { return memcpy((void*)to, from, bytes), (int)kSuccess; });
}

EXPORT int cuMemcpyDtoHAsync_v2(void* to, uintptr_t from, size_t bytes, uint64_t stream) {
  ENTER(cuMemcpyDtoHAsync_v2);
  NEED_CONTEXT;
  if (!is_device_memory(current_device, (void*)from, bytes)) return kInvalidValue;
  return enqueue(stream, [=] { return memcpy(to, (void*)from, bytes), (int)kSuccess; });
}

EXPORT int cuMemsetD8Async(uintptr_t at, unsigned char v, size_t bytes, uint64_t stream) {
  ENTER(cuMemsetD8Async);
  NEED_CONTEXT;
  if (!is_device_memory(current_device, (void*)at, bytes)) return kInvalidValue;
  return enqueue(stream, [=] { return memset((void*)at, v, bytes), (int)kSuccess; });
}
