// Device memory, page-locked memory and registrations of the host driver.
#pragma once
#include <cstddef>

namespace host {

long held_memory();
void drop_memory();
long held_contexts();
void drop_contexts();
// Gives back what a device's context holds.
void drop_memory_of(int device);
// Whether [at, at+bytes) lies within one allocation of the device.
bool is_device_memory(int device, const void* at, size_t bytes);

}  // namespace host
