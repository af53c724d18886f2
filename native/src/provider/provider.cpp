#include "provider/provider.h"

#include "provider/reading.h"

namespace ffn {
namespace {

struct Provider : OrtEp {
  Chosen chosen;
  Ort::KernelRegistry registry;

  explicit Provider(const Chosen& kernels) : OrtEp{}, chosen(kernels) {
    ort_version_supported = api_version;
    GetName = [](const OrtEp*) noexcept { return kProviderName; };
    OrtEp::GetCapability = [](OrtEp* self, const OrtGraph* graph, OrtEpGraphSupportInfo* support) noexcept {
      return guarded([&] { static_cast<Provider*>(self)->claim(Ort::ConstGraph{graph}, support); });
    };
    GetKernelRegistry = [](OrtEp* self, const OrtKernelRegistry** to) noexcept -> OrtStatus* {
      *to = static_cast<Provider*>(self)->registry;
      return nullptr;
    };
    for (const auto& [name, kind] : operator_names()) {
      if (chosen.products) register_kernel(name.c_str(), kind);
    }
  }

  template <Kind kKind>
  static OrtStatus* create(void* self, const OrtKernelInfo* info, OrtKernelImpl** to) noexcept {
    return guarded([&] { *to = make_kernel(info, kKind, static_cast<Provider*>(self)->chosen); });
  }

  void register_kernel(const char* name, Kind kind) {
    const Ort::KernelDef definition = Ort::KernelDefBuilder()
                                          .SetOperatorType(name)
                                          .SetDomain(kDomain)
                                          .SetSinceVersion(kVersion, kVersion)
                                          .SetExecutionProvider(kProviderName)
                                          .Build();
    const OrtKernelCreateFunc makes[] = {&create<Kind::kFeedForward>, &create<Kind::kLinear>,
                                         &create<Kind::kAttention>};
    const Ort::Status status = registry.AddKernel(definition, makes[static_cast<int>(kind)], this);
    if (!status.IsOK()) throw Ort::Exception(status.GetErrorMessage(), status.GetErrorCode());
  }

  // The runtime asks before it inlines functions, for each graph and each body of If, Loop and Scan.
  void claim(Ort::ConstGraph graph, OrtEpGraphSupportInfo* support) const {
    if (!chosen.products) return;
    for (const Ort::ConstNode& node : graph.GetNodes()) {
      Kind kind;
      Node written;
      if (from_graph(node, kind, written) && serves(kind, written))
        Ort::ThrowOnError(Ort::GetEpApi().EpGraphSupportInfo_AddSingleNode(support, node));
    }
  }
};

}  // namespace

OrtEp* make_provider(const Chosen& chosen) { return new Provider(chosen); }
void release_provider(OrtEp* provider) { delete static_cast<Provider*>(provider); }

}  // namespace ffn
