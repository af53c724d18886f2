#include "provider/contract.h"

#include <algorithm>
#include <utility>

namespace ffn {
namespace {

constexpr int kNames = 64;
constexpr int64_t kWidest = int64_t{1} << 24;
constexpr int64_t kLongest = int64_t{1} << 28;
constexpr float kLargestFactor = 65536;  // of smoothing: far from where a product with it overflows

struct Named {
  Activation activation;
  bool takes_alpha;
};

const std::map<std::string, Named>& activations() {
  static const std::map<std::string, Named> table = {
      {"relu", {Activation::kRelu, false}},           {"relu2", {Activation::kRelu2, false}},
      {"gelu", {Activation::kGelu, false}},           {"gelu_tanh", {Activation::kGeluTanh, false}},
      {"silu", {Activation::kSwish, true}},           {"quick_gelu", {Activation::kSwish, true}},
      {"swish", {Activation::kSwish, true}},          {"mish", {Activation::kMish, false}},
      {"hardswish", {Activation::kHardSwish, false}}, {"tanh", {Activation::kTanh, false}},
      {"sigmoid", {Activation::kSigmoid, false}},     {"elu", {Activation::kElu, true}},
      {"leaky_relu", {Activation::kLeakyRelu, true}}, {"softplus", {Activation::kSoftplus, false}},
      {"softsign", {Activation::kSoftsign, false}},
  };
  return table;
}

const Input& input(const Node& node, size_t index) {
  static const Input none;
  return index < node.inputs.size() ? node.inputs[index] : none;
}

template <class Value>
Value attribute(const std::map<std::string, Value>& of, const char* name, Value otherwise) {
  const auto found = of.find(name);
  return found == of.end() ? otherwise : found->second;
}

bool flag(const Node& node, const char* name, bool& to) {
  const int64_t value = attribute<int64_t>(node.ints, name, 0);
  to = value == 1;
  return value == 0 || value == 1;
}

bool matrix(const Input& from, bool transposed, Matrix& to) {
  if (!from.constant || from.shape.size() != 2) return false;
  for (int64_t size : from.shape)
    if (size < 1 || size > kWidest) return false;
  const int rows = static_cast<int>(from.shape[0]), columns = static_cast<int>(from.shape[1]);
  to = transposed ? Matrix{from.data, columns, rows, 1, columns} : Matrix{from.data, rows, columns, columns, 1};
  return true;
}

// A vector of a size, which may be left out.
bool vector(const Input& from, int64_t size, const float*& to) {
  to = from.data;
  return !from.there || (from.constant && from.shape.size() == 1 && from.shape[0] == size);
}

// The factors of the rows of a matrix, which may be left out.
bool smoothing(const Node& node, const char* name, Matrix& to) {
  const auto found = node.vectors.find(name);
  if (found == node.vectors.end()) return true;
  const std::vector<float>& factors = found->second;
  to.smoothing = factors.data();
  return factors.size() == static_cast<size_t>(to.rows) && std::all_of(factors.begin(), factors.end(), [](float f) {
           return f >= 1 / kLargestFactor && f <= kLargestFactor;
         });
}

// The norm that begins at input `first`, over the width before or behind the products.
bool read_norm(const Node& node, size_t first, int columns_in, int columns_out, NormPlace& place, Norm& norm) {
  const std::string name = attribute<std::string>(node.strings, "norm", "");
  const Input &scale = input(node, first), &bias = input(node, first + 1);
  place = NormPlace::kNone;
  if (name.empty()) return !scale.there && !bias.there;
  if (name != "pre_layer" && name != "pre_rms" && name != "post_layer" && name != "post_rms") return false;
  if (!node.floats.count("epsilon") || !scale.there) return false;
  place = name.rfind("pre", 0) == 0 ? NormPlace::kPre : NormPlace::kPost;
  norm.rms = name.find("rms") != std::string::npos;
  norm.epsilon = node.floats.at("epsilon");
  norm.width = place == NormPlace::kPre ? columns_in : columns_out;
  return !(norm.rms && bias.there) && vector(scale, norm.width, norm.scale) && vector(bias, norm.width, norm.bias);
}

}  // namespace

const std::map<std::string, Kind>& operator_names() {
  static const std::map<std::string, Kind> names = [] {
    std::map<std::string, Kind> all;
    const std::pair<const char*, Kind> kinds[] = {
        {"FeedForward", Kind::kFeedForward}, {"Linear", Kind::kLinear}, {"Attention", Kind::kAttention}};
    for (const auto& [name, kind] : kinds) {
      all[name] = kind;
      for (int i = 2; i <= kNames; i++) all[std::string(name) + "_" + std::to_string(i)] = kind;
    }
    return all;
  }();
  return names;
}

const std::map<std::string, Attribute>& attributes() {
  static const std::map<std::string, Attribute> all = {
      {"activation", Attribute::kString}, {"norm", Attribute::kString},
      {"alpha", Attribute::kFloat},       {"epsilon", Attribute::kFloat},
      {"scale", Attribute::kFloat},       {"packed", Attribute::kInt},
      {"transposed", Attribute::kInt},    {"num_heads", Attribute::kInt},
      {"kv_num_heads", Attribute::kInt},  {"causal", Attribute::kInt},
      {"splits", Attribute::kInts},       {"precision", Attribute::kString},
      {"smoothing", Attribute::kFloats},  {"hidden_smoothing", Attribute::kFloats},
  };
  return all;
}

namespace {

template <class Spec>
bool readable(const Node& node) {
  Spec spec;
  return read(node, spec);
}

}  // namespace

bool read_precision(const Node& node, Precision asked, Precision& to) {
  to = asked;
  const auto named = node.strings.find("precision");
  if (named == node.strings.end()) return true;
  for (const NamedPrecision& each : kPrecisions) {
    if (named->second != each.name) continue;
    to = std::min(asked, each.precision);
    return true;
  }
  return false;
}

bool serves(Kind kind, const Node& node) {
  Precision precision;
  if (!read_precision(node, Precision::kInt8, precision)) return false;
  switch (kind) {
    case Kind::kFeedForward: return readable<FeedForwardSpec>(node);
    case Kind::kLinear: return readable<LinearSpec>(node);
    case Kind::kAttention: return readable<AttentionSpec>(node);
  }
  return false;
}

size_t inputs_of(Kind kind) { return kind == Kind::kFeedForward ? 10 : kind == Kind::kLinear ? 6 : 4; }

bool is_weight(Kind kind, int input) {
  switch (kind) {
    case Kind::kFeedForward: return input > 0 && input != static_cast<int>(kResidualOfFeedForward);
    case Kind::kLinear: return input > 0 && input != static_cast<int>(kResidualOfLinear);
    case Kind::kAttention: return false;
  }
  return false;
}

// x, w1, b1, w2, b2, w3, b3, residual, norm_scale, norm_bias
bool read(const Node& node, FeedForwardSpec& spec) {
  spec = {};
  const auto named = activations().find(attribute<std::string>(node.strings, "activation", ""));
  if (named == activations().end() || named->second.takes_alpha != (node.floats.count("alpha") == 1)) return false;
  spec.activation = named->second.activation;
  spec.alpha = attribute(node.floats, "alpha", 1.0f);

  const int64_t packed = attribute<int64_t>(node.ints, "packed", 0);
  bool transposed = false;
  if (node.inputs.size() > inputs_of(Kind::kFeedForward) || node.outputs != 1) return false;
  if (packed < 0 || packed > 2 || !flag(node, "transposed", transposed)) return false;
  if (!matrix(input(node, 1), transposed, spec.w1) || !matrix(input(node, 3), transposed, spec.w2)) return false;
  if (!vector(input(node, 2), spec.w1.columns, spec.b1) || !vector(input(node, 4), spec.w2.columns, spec.b2))
    return false;
  if (!smoothing(node, "smoothing", spec.w1) || !smoothing(node, "hidden_smoothing", spec.w2)) return false;

  const Input &w3 = input(node, 5), &b3 = input(node, 6);
  if (packed) {  // one matrix holds both projections, side by side
    if (w3.there || b3.there || spec.w1.columns % 2) return false;
    const int half = spec.w1.columns / 2, first = packed == 1 ? 0 : half;
    const Matrix both = spec.w1;
    const float* bias = spec.b1;
    spec.w1 = both.part(first, half);
    spec.w3 = both.part(half - first, half);
    if (bias) {
      spec.b1 = bias + first;
      spec.b3 = bias + half - first;
    }
  } else if (w3.there) {
    if (!matrix(w3, transposed, spec.w3) || !vector(b3, spec.w3.columns, spec.b3)) return false;
    spec.w3.smoothing = spec.w1.smoothing;
    if (spec.w3.rows != spec.w1.rows || spec.w3.columns != spec.w1.columns) return false;
  } else if (b3.there) {
    return false;
  }
  if (spec.w2.rows != spec.w1.columns) return false;
  return read_norm(node, kResidualOfFeedForward + 1, spec.w1.rows, spec.w2.columns, spec.norm_place, spec.norm);
}

// x, w, b, residual, norm_scale, norm_bias
bool read(const Node& node, LinearSpec& spec) {
  spec = {};
  bool transposed = false;
  if (node.inputs.size() > inputs_of(Kind::kLinear) || !flag(node, "transposed", transposed)) return false;
  if (!matrix(input(node, 1), transposed, spec.w) || !vector(input(node, 2), spec.w.columns, spec.b)) return false;
  if (!smoothing(node, "smoothing", spec.w)) return false;
  if (!read_norm(node, kResidualOfLinear + 1, spec.w.rows, spec.w.columns, spec.norm_place, spec.norm)) return false;

  const auto splits = node.lists.find("splits");
  if (splits == node.lists.end()) {
    spec.splits = {spec.w.columns};
    return node.outputs == 1;
  }
  if (input(node, kResidualOfLinear).there || spec.norm_place == NormPlace::kPost) return false;
  int64_t sum = 0;
  for (const int64_t columns : splits->second) {
    if (columns < 1 || columns > spec.w.columns) return false;
    spec.splits.push_back(static_cast<int>(columns));
    sum += columns;
  }
  return sum == spec.w.columns && node.outputs == spec.splits.size();
}

// query, key, value, bias
bool read(const Node& node, AttentionSpec& spec) {
  spec = {};
  const int64_t heads = attribute<int64_t>(node.ints, "num_heads", 0);
  const int64_t groups = attribute<int64_t>(node.ints, "kv_num_heads", 0);
  if (heads < 1 || groups < 1 || heads > kWidest || heads % groups || !node.floats.count("scale")) return false;
  if (node.inputs.empty() || node.inputs.size() > inputs_of(Kind::kAttention) || node.outputs != 1) return false;
  if (input(node, 1).there != input(node, 2).there || !flag(node, "causal", spec.causal)) return false;
  spec.heads = static_cast<int>(heads);
  spec.groups = static_cast<int>(groups);
  spec.scale = node.floats.at("scale");
  return true;
}

std::string fit(const AttentionSpec& spec, const AttentionShapes& shapes, Attention& to) {
  const auto &query = shapes.query, &key = shapes.key, &bias = shapes.bias;
  const bool packed = key.empty();
  if (query.size() != 3 || (!packed && key.size() != 3)) return "query, key and value of Attention have three axes";
  if (!packed && key != shapes.value) return "key and value of Attention must have the same shape";
  const int64_t heads = packed ? spec.heads + 2 * spec.groups : spec.heads;
  const int64_t size = query[2] / heads;
  if (query[2] % heads || size == 0) return "the last axis of Attention's query must be a multiple of its heads";
  if (!packed && key[2] != size * spec.groups) return "heads of query and key of Attention must have the same size";
  if (!packed && key[0] != query[0]) return "query and key of Attention must have the same first axis";
  const int64_t keys = packed ? query[1] : key[1];
  if (spec.causal && keys != query[1]) return "causal Attention needs as many keys as queries";
  for (const int64_t each : {query[0], query[1], keys, query[2]})
    if (each > kLongest) return "an axis of Attention is too long";

  to.batch = static_cast<int>(query[0]);
  to.heads = spec.heads;
  to.groups = spec.groups;
  to.queries = static_cast<int>(query[1]);
  to.keys = static_cast<int>(keys);
  to.size = static_cast<int>(size);
  to.query_stride = query[2];
  to.key_stride = to.value_stride = packed ? query[2] : key[2];
  to.scale = spec.scale;
  to.causal = spec.causal;
  if (bias.empty()) return "";

  if (bias.size() != 4) return "the bias of Attention has four axes";
  const int64_t full[] = {query[0], spec.heads, query[1], keys};
  long* const strides[] = {&to.bias_batch, &to.bias_head, &to.bias_query, &to.bias_key};
  long stride = 1;
  for (int axis = 3; axis >= 0; axis--) {
    const int64_t length = bias[static_cast<size_t>(axis)];
    if (length != 1 && length != full[axis]) return "the bias of Attention does not broadcast to its scores";
    *strides[axis] = length == 1 ? 0 : stride;
    stride *= length;
  }
  return "";
}

}  // namespace ffn
