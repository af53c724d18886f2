#include "shared_weights.h"

#include <cstring>
#include <functional>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ffn {
namespace {

struct Entry {
  const Weights* address;
  std::weak_ptr<const Weights> weights;
};

std::mutex mutex;
// Never destroyed: a session may end after the library's other globals.
std::unordered_multimap<size_t, Entry>& registry() {
  static auto* entries = new std::unordered_multimap<size_t, Entry>;
  return *entries;
}

std::string_view panels_of(const Weights& w) {
  const size_t units = w.bias.size() * static_cast<size_t>(w.units);
  return {reinterpret_cast<const char*>(w.data.get()), units * sizeof(int32_t)};
}

// By bytes: NaN equals itself, and 0 differs from -0.
bool equal(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

bool equal(const Weights& a, const Weights& b) {
  return a.rows == b.rows && a.columns == b.columns && a.panels == b.panels && a.units == b.units &&
         a.gated == b.gated && a.groups == b.groups && equal(a.bias, b.bias) && equal(a.scales, b.scales) &&
         equal(a.sums, b.sums) && equal(a.inverse, b.inverse) && panels_of(a) == panels_of(b);
}

// Takes the entry away before the memory, so that no other weights have its address meanwhile.
struct Forget {
  size_t hash;
  void operator()(const Weights* weights) const {
    {
      std::lock_guard<std::mutex> lock(mutex);
      const auto [begin, end] = registry().equal_range(hash);
      for (auto entry = begin; entry != end; ++entry) {
        if (entry->second.address != weights) continue;
        registry().erase(entry);
        break;
      }
    }
    delete weights;
  }
};

}  // namespace

SharedWeights share(Weights&& packed) {
  const size_t hash = std::hash<std::string_view>{}(panels_of(packed));
  const SharedWeights made(new Weights(std::move(packed)), Forget{hash});
  // Both outlive the lock, which dropping the last reference to weights takes.
  std::vector<SharedWeights> alike;
  std::lock_guard<std::mutex> lock(mutex);
  const auto [begin, end] = registry().equal_range(hash);
  for (auto entry = begin; entry != end; ++entry) {
    SharedWeights other = entry->second.weights.lock();
    if (!other) continue;  // it is about to be forgotten
    alike.push_back(std::move(other));
    if (equal(*made, *alike.back())) return alike.back();
  }
  registry().emplace(hash, Entry{made.get(), made});
  return made;
}

size_t weights_held() {
  std::lock_guard<std::mutex> lock(mutex);
  return registry().size();
}

}  // namespace ffn
