#include "provider/session_precision.h"

#include <string>

namespace ffn {

Precision precision_of(const OrtSessionOptions* options) {
  const OrtApi& api = Ort::GetApi();
  const char* key = "ep.ffnexecutionprovider.precision";
  int there = 0;
  Ort::ThrowOnError(api.HasSessionConfigEntry(options, key, &there));
  if (!there) return Precision::kFloat32;
  size_t size = 0;
  Ort::ThrowOnError(api.GetSessionConfigEntry(options, key, nullptr, &size));
  std::string value(size, '\0');
  Ort::ThrowOnError(api.GetSessionConfigEntry(options, key, value.data(), &size));
  value = value.c_str();  // without the terminating zero
  for (const NamedPrecision& each : kPrecisions)
    if (value == each.name) return each.precision;
  throw Ort::Exception("the option precision of FfnExecutionProvider is f32, bf16 or int8, not '" + value + "'",
                       ORT_INVALID_ARGUMENT);
}

}  // namespace ffn
