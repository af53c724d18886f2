#include "provider/reading.h"

#include <algorithm>

namespace ffn {
namespace {

Tensor* tensor(FeedForwardNode& node, size_t input) {
  Tensor* const order[] = {&node.w1, &node.b1, &node.w2, &node.b2, &node.w3, &node.b3};
  return input >= 1 && input <= 6 ? order[input - 1] : nullptr;
}

bool is_float(const Ort::ConstValueInfo& value) {
  const auto type = value.TypeInfo();
  return type.GetONNXType() == ONNX_TYPE_TENSOR &&
         type.GetTensorTypeAndShapeInfo().GetElementType() == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
}

// Whether the attribute is there. ONNX Runtime answers with an error where it is not.
template <class Get>
bool attribute(const Get& get) {
  OrtStatus* status = get();
  if (!status) return true;
  Ort::GetApi().ReleaseStatus(status);
  return false;
}

}  // namespace

bool from_graph(const Ort::ConstNode& node, FeedForwardNode& to) {
  if (node.GetDomain() != kDomain || node.GetSinceVersion() != kVersion) return false;
  static const std::vector<std::string> names = operator_names();
  if (std::find(names.begin(), names.end(), node.GetOperatorType()) == names.end()) return false;

  const auto inputs = node.GetInputs();
  if (inputs.size() < 4 || inputs.size() > 7 || !inputs[0] || !is_float(inputs[0])) return false;
  static const float unread = 0;
  for (size_t i = 1; i < inputs.size(); i++) {
    if (!inputs[i]) continue;
    if (!inputs[i].IsConstantInitializer() || !is_float(inputs[i])) return false;
    *tensor(to, i) = {&unread, inputs[i].TypeInfo().GetTensorTypeAndShapeInfo().GetShape()};
  }
  bool readable = true;
  const auto read = [&](const Ort::ConstOpAttr& from, auto& value) { readable &= from.GetValue(value).IsOK(); };
  for (const auto& each : node.GetAttributes()) {
    const std::string name = each.GetName();
    if (name == "activation") read(each, to.activation);
    if (name == "packed") read(each, to.packed);
    if (name == "transposed") read(each, to.transposed);
    if (name == "alpha") {
      to.has_alpha = true;
      read(each, to.alpha);
    }
  }
  return readable;
}

FeedForwardNode from_kernel(const OrtKernelInfo* raw) {
  const OrtApi& api = Ort::GetApi();
  const Ort::ConstKernelInfo info(raw);
  FeedForwardNode node;
  const size_t inputs = info.GetInputCount();
  for (size_t i = 1; i < inputs; i++) {
    int constant = 0;
    const OrtValue* value = nullptr;
    Ort::ThrowOnError(api.KernelInfoGetConstantInput_tensor(raw, i, &constant, &value));
    if (!constant || !value) continue;
    const Ort::ConstValue tensor_value(value);
    *tensor(node, i) = {tensor_value.GetTensorData<float>(), tensor_value.GetTensorTypeAndShapeInfo().GetShape()};
  }
  node.activation = info.GetAttribute<std::string>("activation");
  node.has_alpha = attribute([&] { return api.KernelInfoGetAttribute_float(raw, "alpha", &node.alpha); });
  attribute([&] { return api.KernelInfoGetAttribute_int64(raw, "packed", &node.packed); });
  attribute([&] { return api.KernelInfoGetAttribute_int64(raw, "transposed", &node.transposed); });
  return node;
}

}  // namespace ffn
