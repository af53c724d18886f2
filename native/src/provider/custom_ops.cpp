// What ONNX Runtime calls when the library is registered with the options of a session: RegisterCustomOps. It is for
// what has no kernel registries of plugins: ONNX Runtime 1.17 to 1.23, and models in the ORT format.
//
// The same kernels compute the same nodes, with two differences. A custom operator stands for every node of its name,
// so a node that the kernels do not serve ends loading, where the provider leaves it to its body. And ONNX Runtime
// keeps the original weights beside the packed ones.
#include <array>
#include <deque>
#include <stdexcept>
#include <string>

#include "provider/api.h"
#include "provider/kernel.h"
#include "provider/reading.h"
#include "provider/session_precision.h"

namespace ffn {
namespace {

constexpr uint32_t kOldest = 17;  // the first version in which a kernel can use the threads of the session

struct CustomOp : OrtCustomOp {
  std::string name;
  Kind kind;
  Chosen chosen;

  CustomOp(const std::string& its_name, Kind its_kind, const Chosen& kernels)
      : OrtCustomOp{}, name(its_name), kind(its_kind), chosen(kernels) {
    version = api_version;
    GetName = [](const OrtCustomOp* op) noexcept { return self(op).name.c_str(); };
    GetExecutionProviderType = [](const OrtCustomOp*) noexcept -> const char* { return nullptr; };  // the CPU's
    GetInputTypeCount = [](const OrtCustomOp* op) noexcept { return inputs_of(self(op).kind); };
    GetInputType = [](const OrtCustomOp*, size_t) noexcept { return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT; };
    GetInputCharacteristic = [](const OrtCustomOp*, size_t index) noexcept {
      return index == 0 ? INPUT_OUTPUT_REQUIRED : INPUT_OUTPUT_OPTIONAL;
    };
    GetInputMemoryType = [](const OrtCustomOp*, size_t) noexcept { return OrtMemTypeDefault; };
    GetOutputTypeCount = [](const OrtCustomOp*) noexcept -> size_t { return 1; };
    GetOutputType = [](const OrtCustomOp*, size_t) noexcept { return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT; };
    GetOutputCharacteristic = [](const OrtCustomOp* op, size_t) noexcept {
      return self(op).kind == Kind::kLinear ? INPUT_OUTPUT_VARIADIC : INPUT_OUTPUT_REQUIRED;
    };
    GetVariadicInputMinArity = GetVariadicInputHomogeneity = [](const OrtCustomOp*) noexcept { return 1; };
    GetVariadicOutputMinArity = GetVariadicOutputHomogeneity = GetVariadicInputMinArity;
    GetStartVersion = GetEndVersion = [](const OrtCustomOp*) noexcept { return kVersion; };
    CreateKernelV2 = [](const OrtCustomOp* op, const OrtApi*, const OrtKernelInfo* info, void** kernel) noexcept {
      return guarded([&] { *kernel = self(op).create(info); });
    };
    KernelComputeV2 = [](void* kernel, OrtKernelContext* context) noexcept {
      return static_cast<OrtKernelImpl*>(kernel)->Compute(static_cast<OrtKernelImpl*>(kernel), context);
    };
    KernelDestroy = [](void* kernel) noexcept {
      static_cast<OrtKernelImpl*>(kernel)->Release(static_cast<OrtKernelImpl*>(kernel));
    };
  }

  static const CustomOp& self(const OrtCustomOp* op) { return *static_cast<const CustomOp*>(op); }

  OrtKernelImpl* create(const OrtKernelInfo* info) const {
    if (!serves(kind, from_kernel(info)))
      throw std::runtime_error("the kernels of onnxruntime-ep-ffn do not serve this node of " + name +
                               ": load the model without the library, and it runs by its body");
    return make_kernel(info, kind, chosen);
  }
};

// The operators of a precision. They live as long as the process, as sessions that use them may.
struct Operators {
  std::deque<CustomOp> all;
  Ort::CustomOpDomain domain{kDomain};

  explicit Operators(const Chosen& chosen) {
    for (const auto& [name, kind] : operator_names()) {
      all.emplace_back(name, kind, chosen);
      domain.Add(&all.back());
    }
  }
};

const Operators& operators(Precision precision) {
  static const auto made = [] {
    std::array<Operators*, 3> each{};
    for (Precision p : {Precision::kFloat32, Precision::kBfloat16, Precision::kInt8}) {
      const Chosen chosen = kernels_of(p);
      if (chosen.products) each[static_cast<size_t>(p)] = new Operators(chosen);
    }
    return each;
  }();
  const Operators* found = made[static_cast<size_t>(precision)];
  if (!found) throw std::runtime_error("onnxruntime-ep-ffn has no kernel of this precision for this processor");
  return *found;
}

}  // namespace
}  // namespace ffn

FFN_EXPORT OrtStatus* RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) {
  if (OrtStatus* too_old = ffn::take_api(base, ffn::kOldest, "the custom operators of onnxruntime-ep-ffn need 1.17"))
    return too_old;
  return ffn::guarded([&] {
    Ort::ThrowOnError(Ort::GetApi().AddCustomOpDomain(options, ffn::operators(ffn::precision_of(options)).domain));
  });
}
