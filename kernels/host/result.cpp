#include "result.h"

#include <cstddef>

namespace host {
namespace {

struct Row {
  int code;
  const char *name, *text;
};

const Row kRows[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "device busy or unavailable"},
    {100, "CUDA_ERROR_NO_DEVICE", "no device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {218, "CUDA_ERROR_INVALID_PTX", "the PTX could not be compiled"},
    {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the PTX is newer than the driver"},
    {304, "CUDA_ERROR_OPERATING_SYSTEM", "a call to the operating system failed"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {500, "CUDA_ERROR_NOT_FOUND", "symbol not found"},
    {600, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "illegal memory access"},
    {712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "memory is registered already"},
    {713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "memory is not registered"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "launch failed"},
    {800, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

const Row* find(int code) {
  for (const Row& r : kRows) {
    if (r.code == code) return &r;
  }
  return nullptr;
}

}  // namespace

const char* result_name(int code) {
  const Row* r = find(code);
  return r ? r->name : nullptr;
}

const char* result_text(int code) {
  const Row* r = find(code);
  return r ? r->text : nullptr;
}

}  // namespace host
