// ONNX Runtime's API, taken from the runtime that loads the library, and what crosses its C boundary.
#pragma once

#define ORT_API_MANUAL_INIT
#include <exception>

#include "onnxruntime_cxx_api.h"

namespace ffn {

constexpr const char* kProviderName = "FfnExecutionProvider";

// The version of the API that the runtime and these headers both know; it is written into each structure.
extern uint32_t api_version;

// No exception may cross the boundary.
template <class Work>
OrtStatus* guarded(const Work& work) noexcept {
  try {
    work();
    return nullptr;
  } catch (const Ort::Exception& error) {
    return Ort::GetApi().CreateStatus(error.GetOrtErrorCode(), error.what());
  } catch (const std::exception& error) {
    return Ort::GetApi().CreateStatus(ORT_EP_FAIL, error.what());
  }
}

}  // namespace ffn
