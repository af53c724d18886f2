#include "provider/provider.h"

#include "provider/kernel.h"
#include "provider/reading.h"

namespace ffn {
namespace {

struct Provider : OrtEp {
  const Kernels* kernels;
  Ort::KernelRegistry registry;

  explicit Provider(const Kernels* chosen) : OrtEp{}, kernels(chosen) {
    ort_version_supported = api_version;
    GetName = [](const OrtEp*) noexcept { return kProviderName; };
    OrtEp::GetCapability = [](OrtEp* self, const OrtGraph* graph, OrtEpGraphSupportInfo* support) noexcept {
      return guarded([&] { static_cast<Provider*>(self)->claim(Ort::ConstGraph{graph}, support); });
    };
    GetKernelRegistry = [](OrtEp* self, const OrtKernelRegistry** to) noexcept -> OrtStatus* {
      *to = static_cast<Provider*>(self)->registry;
      return nullptr;
    };
    if (kernels) {
      for (const std::string& name : operator_names()) register_kernel(name.c_str());
    }
  }

  void register_kernel(const char* name) {
    const Ort::KernelDef definition = Ort::KernelDefBuilder()
                                          .SetOperatorType(name)
                                          .SetDomain(kDomain)
                                          .SetSinceVersion(kVersion, kVersion)
                                          .SetExecutionProvider(kProviderName)
                                          .Build();
    const auto create = [](void* self, const OrtKernelInfo* info, OrtKernelImpl** to) noexcept {
      return guarded([&] { *to = make_kernel(info, *static_cast<Provider*>(self)->kernels); });
    };
    const Ort::Status status = registry.AddKernel(definition, create, this);
    if (!status.IsOK()) throw Ort::Exception(status.GetErrorMessage(), status.GetErrorCode());
  }

  // The runtime asks before it inlines functions, for each graph and each body of If, Loop and Scan.
  void claim(Ort::ConstGraph graph, OrtEpGraphSupportInfo* support) const {
    if (!kernels) return;
    for (const Ort::ConstNode& node : graph.GetNodes()) {
      FeedForwardNode feed_forward;
      FeedForwardSpec spec;
      if (from_graph(node, feed_forward) && read(feed_forward, kernels->format.precision, spec))
        Ort::ThrowOnError(Ort::GetEpApi().EpGraphSupportInfo_AddSingleNode(support, node));
    }
  }
};

}  // namespace

OrtEp* make_provider(const Kernels* kernels) { return new Provider(kernels); }
void release_provider(OrtEp* provider) { delete static_cast<Provider*>(provider); }

}  // namespace ffn
