// Streams and events of the host driver. Work that is put on a stream runs when
// somebody waits for it, so that a caller who forgets to wait sees stale data.
#pragma once
#include <cstdint>
#include <functional>

namespace host {

using Work = std::function<int()>;

// Puts work on a stream of the current device.
int enqueue(uint64_t stream, Work work);
void drain_streams();
long held_streams();
void drop_streams();
void drop_streams_of(int device);

}  // namespace host
