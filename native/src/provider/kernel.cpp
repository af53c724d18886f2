#include "provider/kernel.h"

#include <cstdlib>
#include <stdexcept>
#include <utility>

#include "attention.h"
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

template <class Spec>
Spec spec_of(const Node& node) {
  Spec spec;
  if (!read(node, spec)) throw std::runtime_error("a node that was claimed has changed");
  return spec;
}

using Shape = std::vector<int64_t>;

// An input that may be left out: its data, which is null then, and its shape, which is empty then.
std::pair<const float*, Shape> optional_input(const Ort::KernelContext& context, size_t index) {
  if (index >= context.GetInputCount()) return {nullptr, {}};
  const auto value = context.GetInput(index);
  if (!value) return {nullptr, {}};
  return {floats_of(value), value.GetTensorTypeAndShapeInfo().GetShape()};
}

struct ProjectionsNode {
  Projections projections;
  size_t residual;

  void compute(Ort::KernelContext& context, const Parallel& threads) const {
    auto [x, shape] = optional_input(context, 0);
    if (shape.empty() || shape.back() != projections.columns_in())
      throw std::runtime_error("the input of FeedForward or Linear has the wrong width: its last axis must be " +
                               std::to_string(projections.columns_in()));
    int64_t tokens = 1;
    for (size_t i = 0; i + 1 < shape.size(); i++) tokens *= shape[i];
    std::vector<float*> y;
    for (size_t i = 0; i < projections.results(); i++) {
      shape.back() = projections.columns_out(i);
      y.push_back(context.GetOutput(i, shape).GetTensorMutableData<float>());
    }
    const auto [added, its_shape] = optional_input(context, residual);
    if (added && its_shape != shape)
      throw std::runtime_error("the residual of FeedForward or Linear must have the shape of the result");
    projections.run(x, added, y.data(), static_cast<long>(tokens), threads);
  }
};

struct AttentionNode {
  const AttentionKernels& kernels;
  AttentionSpec spec;

  void compute(Ort::KernelContext& context, const Parallel& threads) const {
    const auto [query, query_shape] = optional_input(context, 0);
    const auto [key, key_shape] = optional_input(context, 1);
    const auto [value, value_shape] = optional_input(context, 2);
    const auto [bias, bias_shape] = optional_input(context, 3);
    Attention attention{};
    const std::string problem = fit(spec, {query_shape, key_shape, value_shape, bias_shape}, attention);
    if (!problem.empty()) throw std::runtime_error(problem);
    const int width = attention.heads * attention.size;
    attention.query = query;
    const bool packed = key_shape.empty();
    attention.key = packed ? query + width : key;
    attention.value = packed ? attention.key + attention.groups * attention.size : value;
    attention.bias = bias;
    attention.to = context.GetOutput(0, {query_shape[0], query_shape[1], width}).GetTensorMutableData<float>();
    attend(kernels, attention, threads);
  }
};

template <class NodeOfKind>
struct Kernel : OrtKernelImpl {
  Kind kind;
  NodeOfKind node;

  Kernel(Kind kind, NodeOfKind made) : OrtKernelImpl{}, kind(kind), node(std::move(made)) {
    ort_version_supported = api_version;
    OrtKernelImpl::Compute = [](OrtKernelImpl* self, OrtKernelContext* raw) noexcept {
      return guarded([&] {
        Ort::KernelContext context(raw);
        static_cast<Kernel*>(self)->node.compute(context, SessionThreads(raw));
      });
    };
    Release = [](OrtKernelImpl* self) noexcept { delete static_cast<Kernel*>(self); };
    // The weights are packed already: nothing reads the originals again.
    PrePackWeight = [](OrtKernelImpl* self, const OrtValue*, int input, OrtAllocator*, OrtSharedPrePackedWeightCache*,
                       bool* packed) noexcept -> OrtStatus* {
      *packed = is_weight(static_cast<Kernel*>(self)->kind, input);
      return nullptr;
    };
  }
};

}  // namespace

Chosen kernels_of(Precision precision) {
  const InstructionSets sets = instruction_sets(std::getenv(kAllowedVariable));
  return {choose(precision, sets), choose_attention(precision, sets)};
}

OrtKernelImpl* make_kernel(const OrtKernelInfo* info, Kind kind, const Chosen& session) {
  const Node node = from_kernel(info);
  Chosen chosen = session;
  const Precision asked = session.products->format.precision;
  Precision precision;
  if (read_precision(node, asked, precision) && precision != asked) {
    chosen = kernels_of(precision);
    if (!chosen.products) chosen = kernels_of(Precision::kFloat32);  // more precise, and every processor here has it
  }
  switch (kind) {
    case Kind::kFeedForward:
      return new Kernel<ProjectionsNode>(
          kind, {Projections(*chosen.products, spec_of<FeedForwardSpec>(node)), kResidualOfFeedForward});
    case Kind::kLinear:
      return new Kernel<ProjectionsNode>(kind,
                                         {Projections(*chosen.products, spec_of<LinearSpec>(node)), kResidualOfLinear});
    case Kind::kAttention: return new Kernel<AttentionNode>(kind, {*chosen.attention, spec_of<AttentionSpec>(node)});
  }
  return nullptr;
}

}  // namespace ffn
