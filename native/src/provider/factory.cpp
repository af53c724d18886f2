// What ONNX Runtime calls when the library is registered: CreateEpFactories, and a provider for each session.
//
//     library  ->  factory  ->  device: this processor, with the precisions that it has kernels for
//                           ->  provider, one a session, in the precision of its options  ->  kernels, one a node
#include <cstdlib>
#include <string>

#include "provider/provider.h"

namespace ffn {

uint32_t api_version = 0;

namespace {

constexpr uint32_t kOldest = 24;  // the first version with kernel registries for plugins

struct Named {
  const char* name;
  Precision precision;
};
constexpr Named kPrecisions[] = {
    {"f32", Precision::kFloat32}, {"bf16", Precision::kBfloat16}, {"int8", Precision::kInt8}};

InstructionSets allowed_sets() { return instruction_sets(std::getenv(kAllowedVariable)); }

// The session option `precision` of the provider; f32 unless a session asks for another.
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
  for (const Named& each : kPrecisions)
    if (value == each.name) return each.precision;
  throw Ort::Exception("the option precision of FfnExecutionProvider is f32, bf16 or int8, not '" + value + "'",
                       ORT_INVALID_ARGUMENT);
}

struct Factory : OrtEpFactory {
  Factory() : OrtEpFactory{} {
    ort_version_supported = api_version;
    GetName = [](const OrtEpFactory*) noexcept { return kProviderName; };
    GetVendor = [](const OrtEpFactory*) noexcept { return "ffn_export"; };
    GetVendorId = [](const OrtEpFactory*) noexcept -> uint32_t { return 0; };
    GetVersion = [](const OrtEpFactory*) noexcept { return FFN_VERSION; };
    OrtEpFactory::GetSupportedDevices = [](OrtEpFactory* self, const OrtHardwareDevice* const* devices, size_t count,
                                           OrtEpDevice** to, size_t most, size_t* found) noexcept {
      return guarded([&] { static_cast<Factory*>(self)->offer(devices, count, to, most, *found); });
    };
    OrtEpFactory::CreateEp = [](OrtEpFactory*, const OrtHardwareDevice* const*, const OrtKeyValuePairs* const*, size_t,
                                const OrtSessionOptions* options, const OrtLogger*, OrtEp** to) noexcept {
      return guarded([&] {
        const Precision precision = precision_of(options);
        *to = make_provider({choose(precision, allowed_sets()), choose_attention(precision, allowed_sets())});
      });
    };
    ReleaseEp = [](OrtEpFactory*, OrtEp* provider) noexcept { release_provider(provider); };
    // Values stay in the memory of the CPU provider.
    CreateAllocator = [](OrtEpFactory*, const OrtMemoryInfo*, const OrtKeyValuePairs*,
                         OrtAllocator** to) noexcept -> OrtStatus* {
      *to = nullptr;
      return nullptr;
    };
    ReleaseAllocator = [](OrtEpFactory*, OrtAllocator*) noexcept {};
    CreateDataTransfer = [](OrtEpFactory*, OrtDataTransferImpl** to) noexcept -> OrtStatus* {
      *to = nullptr;
      return nullptr;
    };
    IsStreamAware = [](const OrtEpFactory*) noexcept { return false; };
  }

  // Offers the processor, unless no kernel fits it. The metadata of the device name the kernel of each precision.
  void offer(const OrtHardwareDevice* const* devices, size_t count, OrtEpDevice** to, size_t most, size_t& found) {
    found = 0;
    Ort::KeyValuePairs metadata;
    bool any = false;
    for (const Named& each : kPrecisions) {
      if (const Kernels* kernels = choose(each.precision, allowed_sets())) {
        metadata.Add(each.name, kernels->name);
        any = true;
      }
    }
    for (size_t i = 0; any && i < count && found < most; i++) {
      if (Ort::GetApi().HardwareDevice_Type(devices[i]) != OrtHardwareDeviceType_CPU) continue;
      Ort::ThrowOnError(Ort::GetEpApi().CreateEpDevice(this, devices[i], metadata, nullptr, &to[found++]));
    }
  }
};

}  // namespace
}  // namespace ffn

#define FFN_EXPORT extern "C" __attribute__((visibility("default")))

FFN_EXPORT OrtStatus* CreateEpFactories(const char*, const OrtApiBase* base, const OrtLogger*, OrtEpFactory** factories,
                                        size_t most, size_t* count) {
  const OrtApi* api = nullptr;
  uint32_t version = ORT_API_VERSION;
  while (version >= ffn::kOldest && !(api = base->GetApi(version))) version--;
  if (!api)
    return base->GetApi(1)->CreateStatus(ORT_INVALID_ARGUMENT, "FfnExecutionProvider needs onnxruntime 1.24 or newer");
  Ort::InitApi(api);
  ffn::api_version = version;
  if (most < 1) return api->CreateStatus(ORT_INVALID_ARGUMENT, "CreateEpFactories: no room for a factory");
  return ffn::guarded([&] {
    factories[0] = new ffn::Factory;
    *count = 1;
  });
}

FFN_EXPORT OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) {
  delete static_cast<ffn::Factory*>(factory);
  return nullptr;
}
