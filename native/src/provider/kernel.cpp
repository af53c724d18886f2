#include "provider/kernel.h"

#include <stdexcept>

#include "provider/reading.h"

namespace ffn {
namespace {

// The threads of the session.
class SessionThreads final : public Parallel {
 public:
  explicit SessionThreads(const OrtKernelContext* context) : context_(context) {}
  void run(size_t count, Task task, void* data) const override {
    Ort::ThrowOnError(Ort::GetApi().KernelContext_ParallelFor(context_, task, count, 0, data));
  }

 private:
  const OrtKernelContext* context_;
};

FeedForwardSpec spec_of(const OrtKernelInfo* info, const Kernels& kernels) {
  FeedForwardSpec spec;
  if (!read(from_kernel(info), kernels.format.precision, spec))
    throw std::runtime_error("a node that was claimed as a feed-forward has changed");
  return spec;
}

struct Kernel : OrtKernelImpl {
  FeedForward feed_forward;

  Kernel(const OrtKernelInfo* info, const Kernels& kernels)
      : OrtKernelImpl{}, feed_forward(kernels, spec_of(info, kernels)) {
    ort_version_supported = api_version;
    OrtKernelImpl::Compute = [](OrtKernelImpl* self, OrtKernelContext* context) noexcept {
      return guarded([&] { static_cast<Kernel*>(self)->compute(context); });
    };
    Release = [](OrtKernelImpl* self) noexcept { delete static_cast<Kernel*>(self); };
    // The constructor has packed the weights: nothing reads the originals again. Input 0 is x, which may be constant
    // too.
    PrePackWeight = [](OrtKernelImpl*, const OrtValue*, int input, OrtAllocator*, OrtSharedPrePackedWeightCache*,
                       bool* packed) noexcept -> OrtStatus* {
      *packed = input > 0;
      return nullptr;
    };
  }

  void compute(OrtKernelContext* raw) const {
    Ort::KernelContext context(raw);
    const auto x = context.GetInput(0);
    std::vector<int64_t> shape = x.GetTensorTypeAndShapeInfo().GetShape();
    if (shape.empty() || shape.back() != feed_forward.columns_in())
      throw std::runtime_error("the input of FeedForward has the wrong width: its last axis must be " +
                               std::to_string(feed_forward.columns_in()));
    int64_t tokens = 1;
    for (size_t i = 0; i + 1 < shape.size(); i++) tokens *= shape[i];
    shape.back() = feed_forward.columns_out();
    auto y = context.GetOutput(0, shape);
    feed_forward.run(x.GetTensorData<float>(), y.GetTensorMutableData<float>(), static_cast<long>(tokens),
                     SessionThreads(raw));
  }
};

}  // namespace

OrtKernelImpl* make_kernel(const OrtKernelInfo* info, const Kernels& kernels) { return new Kernel(info, kernels); }

}  // namespace ffn
