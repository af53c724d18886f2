// ONNX Runtime's API, taken from the runtime that loads the library, and what crosses its C boundary.
#pragma once

#define ORT_API_MANUAL_INIT
#include <exception>

#include "onnxruntime_cxx_api.h"

namespace ffn {

constexpr const char* kProviderName = "FfnExecutionProvider";

// The version of the API that the runtime and these headers both know; it is written into each structure.
extern uint32_t api_version;

// The data of a tensor of float32. Not by Ort::ConstValue, which asks for a function that came with version 23.
inline const float* floats_of(const OrtValue* tensor) {
  void* data = nullptr;
  Ort::ThrowOnError(Ort::GetApi().GetTensorMutableData(const_cast<OrtValue*>(tensor), &data));
  return static_cast<const float*>(data);
}

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
