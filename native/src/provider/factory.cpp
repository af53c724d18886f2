// What ONNX Runtime calls when the library is registered: CreateEpFactories, and a provider for each session.
//
//     library  ->  factory  ->  device: this processor, with the precisions that it has kernels for
//                           ->  provider, one a session, in the precision of its options  ->  kernels, one a node
#include "provider/api.h"
#include "provider/provider.h"
#include "provider/session_precision.h"

namespace ffn {

namespace {

constexpr uint32_t kOldest = 24;  // the first version with kernel registries for plugins

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
      return guarded([&] { *to = make_provider(kernels_of(precision_of(options))); });
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
    for (const NamedPrecision& each : kPrecisions) {
      if (const Kernels* kernels = kernels_of(each.precision).products) {
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

FFN_EXPORT OrtStatus* CreateEpFactories(const char*, const OrtApiBase* base, const OrtLogger*, OrtEpFactory** factories,
                                        size_t most, size_t* count) {
  if (OrtStatus* too_old = ffn::take_api(base, ffn::kOldest, "FfnExecutionProvider needs onnxruntime 1.24"))
    return too_old;
  if (most < 1) return Ort::GetApi().CreateStatus(ORT_INVALID_ARGUMENT, "CreateEpFactories: no room for a factory");
  return ffn::guarded([&] {
    factories[0] = new ffn::Factory;
    *count = 1;
  });
}

FFN_EXPORT OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) {
  delete static_cast<ffn::Factory*>(factory);
  return nullptr;
}
