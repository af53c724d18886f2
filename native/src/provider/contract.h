// The contract of docs/functions.md: which nodes of the domain `ai.ffn_export` the kernels serve, and what they ask
// for.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "projections.h"

namespace ffn {

constexpr const char* kDomain = "ai.ffn_export";
constexpr int kVersion = 2;  // of the domain: the contract of another version is not known

enum class Kind { kFeedForward, kLinear, kAttention };

// The names that are registered: of each kind the name itself and NAME_2 on, as structures of a model are numbered. A
// node of a higher number runs by its body.
const std::map<std::string, Kind>& operator_names();

// An input of a node. The shape of a constant is known. Its data is null while nodes are claimed.
struct Input {
  bool there = false, constant = false;
  std::vector<int64_t> shape;
  const float* data = nullptr;
};

// A node as it is written. Attributes that the contract does not name are not read.
struct Node {
  std::vector<Input> inputs;
  size_t outputs = 1;
  std::map<std::string, std::string> strings;
  std::map<std::string, int64_t> ints;
  std::map<std::string, float> floats;
  std::map<std::string, std::vector<int64_t>> lists;
  std::map<std::string, std::vector<float>> vectors;
};

enum class Attribute { kString, kInt, kFloat, kInts, kFloats };
const std::map<std::string, Attribute>& attributes();

// Heads, and how scores are scaled: shapes are those of a call.
struct AttentionSpec {
  int heads = 0, groups = 0;
  float scale = 1;
  bool causal = false;
};

// False where the node is left to its body: its shapes, activation or attributes are none that the kernels serve. A
// spec points into its node.
bool read(const Node& node, FeedForwardSpec& spec);
bool read(const Node& node, LinearSpec& spec);
bool read(const Node& node, AttentionSpec& spec);

// Whether the kernels serve a node.
bool serves(Kind kind, const Node& node);

// The names of precisions, the most precise first.
struct NamedPrecision {
  const char* name;
  Precision precision;
};
constexpr NamedPrecision kPrecisions[] = {
    {"f32", Precision::kFloat32}, {"bf16", Precision::kBfloat16}, {"int8", Precision::kInt8}};

// The precision of a node in a session that asks for one: that of its attribute `precision`, where it is more precise.
// False for a name that is none.
bool read_precision(const Node& node, Precision asked, Precision& to);

// The most inputs that a node has.
size_t inputs_of(Kind kind);
// Whether an input is packed when the kernel is made, so that the runtime may free it.
bool is_weight(Kind kind, int input);
// The input that is added to the result of a feed-forward or linear, if it is there.
constexpr size_t kResidualOfFeedForward = 7, kResidualOfLinear = 3;

// Fills in the shapes of a call; `bias` is null where there is none. Returns what is wrong, or an empty string. Where
// keys and values are packed behind the queries, their shapes are empty and the attention finds them by itself.
struct AttentionShapes {
  std::vector<int64_t> query, key, value, bias;
};
std::string fit(const AttentionSpec& spec, const AttentionShapes& shapes, Attention& to);

}  // namespace ffn
