#include "provider/api.h"

#include <string>

namespace ffn {

uint32_t api_version = 0;

OrtStatus* take_api(const OrtApiBase* base, uint32_t oldest, const char* need) {
  const OrtApi* api = nullptr;
  uint32_t version = ORT_API_VERSION;
  while (version >= oldest && !(api = base->GetApi(version))) version--;
  if (!api) {
    const std::string problem = std::string(need) + " or newer, this is onnxruntime " + base->GetVersionString();
    return base->GetApi(1)->CreateStatus(ORT_INVALID_ARGUMENT, problem.c_str());
  }
  Ort::InitApi(api);
  api_version = version;
  return nullptr;
}

}  // namespace ffn
