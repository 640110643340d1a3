// The driver's result codes that the host driver knows, by their names in
// NVIDIA's documentation of the driver API.
#pragma once

namespace host {

enum Result {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kInvalidPtx = 218,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kLaunchFailed = 719,
  kAlreadyRegistered = 712,
  kNotRegistered = 713,
};

const char* result_name(int code);
const char* result_text(int code);

}  // namespace host
