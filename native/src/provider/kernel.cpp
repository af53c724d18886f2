#include "provider/kernel.h"

#include <cstdlib>
#include <stdexcept>
#include <utility>

#include "attention.h"
#include "provider/broadcast.h"
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

Fed fed(const Ort::KernelContext& context, size_t index) {
  if (index >= context.GetInputCount()) return {};
  const auto value = context.GetInput(index);
  if (!value) return {};
  return {floats_of(value), value.GetTensorTypeAndShapeInfo().GetShape(), true};
}

struct ProjectionsNode {
  Projections projections;
  size_t residual;

  void compute(Ort::KernelContext& context, const Parallel& threads) const {
    Fed x = fed(context, 0), added = fed(context, residual);
    if (x.shape.empty() || x.shape.back() != projections.columns_in())
      throw std::runtime_error("the input of FeedForward or Linear has the wrong width: its last axis must be " +
                               std::to_string(projections.columns_in()));
    Shape shape = x.shape;
    if (added.given) {
      shape.back() = projections.columns_out(0);
      if (!broadcast(shape, added.shape) || shape.back() != projections.columns_out(0))
        throw std::runtime_error("the residual of FeedForward or Linear does not broadcast to the result");
      added.expand(shape);
      shape.back() = projections.columns_in();
      x.expand(shape);
    }
    int64_t tokens = 1;
    for (size_t i = 0; i + 1 < shape.size(); i++) tokens *= shape[i];
    std::vector<float*> y;
    for (size_t i = 0; i < projections.results(); i++) {
      shape.back() = projections.columns_out(i);
      y.push_back(context.GetOutput(i, shape).GetTensorMutableData<float>());
    }
    projections.run(x.data, added.data, y.data(), static_cast<long>(tokens), threads);
  }
};

struct AttentionNode {
  const AttentionKernels& kernels;
  AttentionSpec spec;

  void compute(Ort::KernelContext& context, const Parallel& threads) const {
    Fed query = fed(context, 0), key = fed(context, 1), value = fed(context, 2), bias = fed(context, 3);
    if (bias.shape.size() == 4 || !bias.given) expand_batch(query, key, value, bias.shape);
    Attention attention{};
    const std::string problem = fit(spec, {query.shape, key.shape, value.shape, bias.shape}, attention);
    if (!problem.empty()) throw std::runtime_error(problem);
    const int width = attention.heads * attention.size;
    attention.query = query.data;
    const bool packed = key.shape.empty();
    attention.key = packed ? query.data + width : key.data;
    attention.value = packed ? attention.key + attention.groups * attention.size : value.data;
    attention.bias = bias.data;
    attention.to = context.GetOutput(0, {query.shape[0], query.shape[1], width}).GetTensorMutableData<float>();
    attend(kernels, attention, threads);
  }

 private:
  // Gives query, key and value the first axis that they and the bias broadcast to.
  static void expand_batch(Fed& query, Fed& key, Fed& value, const Shape& bias) {
    int64_t batch = 1;
    const Shape* const shapes[] = {&query.shape, &key.shape, &value.shape, &bias};
    for (const Shape* shape : shapes)
      if (!shape->empty() && shape->front() != 1) batch = shape->front();
    for (Fed* each : {&query, &key, &value}) {
      if (each->shape.empty() || each->shape[0] != 1 || batch == 1) continue;
      Shape shape = each->shape;
      shape[0] = batch;
      each->expand(shape);
    }
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
