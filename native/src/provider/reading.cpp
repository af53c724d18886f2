#include "provider/reading.h"

namespace ffn {
namespace {

bool is_float(const Ort::ConstValueInfo& value) {
  const auto type = value.TypeInfo();
  return type.GetONNXType() == ONNX_TYPE_TENSOR &&
         type.GetTensorTypeAndShapeInfo().GetElementType() == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
}

// Whether a call succeeded. ONNX Runtime answers with an error where a node has no such attribute or input.
bool succeeded(OrtStatus* status) { return Ort::Status(status).IsOK(); }

}  // namespace

bool from_graph(const Ort::ConstNode& node, Kind& kind, Node& to) {
  if (node.GetDomain() != kDomain || node.GetSinceVersion() != kVersion) return false;
  const auto name = operator_names().find(node.GetOperatorType());
  if (name == operator_names().end()) return false;
  kind = name->second;

  for (const Ort::ConstValueInfo& value : node.GetInputs()) {
    Input input;
    if (value) {
      if (!is_float(value)) return false;
      input.there = true;
      input.constant = value.IsConstantInitializer();
      if (input.constant) input.shape = value.TypeInfo().GetTensorTypeAndShapeInfo().GetShape();
    }
    to.inputs.push_back(input);
  }
  if (to.inputs.empty() || !to.inputs[0].there) return false;
  to.outputs = 0;
  for (const Ort::ConstValueInfo& value : node.GetOutputs()) {
    if (!value) return false;
    to.outputs++;
  }

  bool readable = true;
  const auto read = [&](const Ort::ConstOpAttr& from, auto& value) { readable &= from.GetValue(value).IsOK(); };
  for (const auto& each : node.GetAttributes()) {
    const std::string attribute = each.GetName();
    const auto known = attributes().find(attribute);
    if (known == attributes().end()) continue;
    switch (known->second) {
      case Attribute::kString: read(each, to.strings[attribute]); break;
      case Attribute::kInt: read(each, to.ints[attribute]); break;
      case Attribute::kFloat: read(each, to.floats[attribute]); break;
      case Attribute::kInts: readable &= each.GetValueArray(to.lists[attribute]).IsOK(); break;
      case Attribute::kFloats: readable &= each.GetValueArray(to.vectors[attribute]).IsOK(); break;
    }
  }
  return readable;
}

Node from_kernel(const OrtKernelInfo* raw) {
  const OrtApi& api = Ort::GetApi();
  const Ort::ConstKernelInfo info(raw);
  Node node;
  node.outputs = info.GetOutputCount();
  const size_t inputs = info.GetInputCount();
  for (size_t i = 0; i < inputs; i++) {
    Input input;
    int constant = 0;
    const OrtValue* value = nullptr;
    input.there = !info.GetInputName(i).empty();
    if (succeeded(api.KernelInfoGetConstantInput_tensor(raw, i, &constant, &value)) && constant && value) {
      const Ort::ConstValue tensor(value);
      input.constant = true;
      input.shape = tensor.GetTensorTypeAndShapeInfo().GetShape();
      input.data = floats_of(value);
    }
    node.inputs.push_back(input);
  }

  for (const auto& [name, type] : attributes()) {
    switch (type) {
      case Attribute::kString: {
        size_t size = 0;
        if (!succeeded(api.KernelInfoGetAttribute_string(raw, name.c_str(), nullptr, &size))) break;
        node.strings[name] = info.GetAttribute<std::string>(name.c_str());
        break;
      }
      case Attribute::kInt: {
        int64_t value = 0;
        if (succeeded(api.KernelInfoGetAttribute_int64(raw, name.c_str(), &value))) node.ints[name] = value;
        break;
      }
      case Attribute::kFloat: {
        float value = 0;
        if (succeeded(api.KernelInfoGetAttribute_float(raw, name.c_str(), &value))) node.floats[name] = value;
        break;
      }
      case Attribute::kInts: {
        size_t size = 0;
        if (!succeeded(api.KernelInfoGetAttributeArray_int64(raw, name.c_str(), nullptr, &size))) break;
        std::vector<int64_t> values(size);
        if (succeeded(api.KernelInfoGetAttributeArray_int64(raw, name.c_str(), values.data(), &size)))
          node.lists[name] = values;
        break;
      }
      case Attribute::kFloats: {
        size_t size = 0;
        if (!succeeded(api.KernelInfoGetAttributeArray_float(raw, name.c_str(), nullptr, &size))) break;
        std::vector<float> values(size);
        if (succeeded(api.KernelInfoGetAttributeArray_float(raw, name.c_str(), values.data(), &size)))
          node.vectors[name] = values;
        break;
      }
    }
  }
  return node;
}

}  // namespace ffn
