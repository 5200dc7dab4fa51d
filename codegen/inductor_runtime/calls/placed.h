// Shapes of one call, and what was prepared for them.
#pragma once

#include <loopir/program.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace inductor {

/// A view with numbers for its sizes.
struct Placed {
  loopir::Id buffer;
  int64_t offset;
  std::vector<int64_t> sizes, strides;

  Placed(const loopir::Program& p, const loopir::View& v, std::span<const int64_t> symbols)
      : buffer(v.buffer), offset(p.expressions.evaluate(v.offset, symbols)) {
    for (loopir::Id s : v.sizes) sizes.push_back(p.expressions.evaluate(s, symbols));
    for (loopir::Id s : v.strides) strides.push_back(p.expressions.evaluate(s, symbols));
  }
  float* data(std::span<void* const> pointers) const {
    return static_cast<float*>(pointers[buffer]) + offset;
  }
  /// The same of elements of any dtype.
  void* address(std::span<void* const> pointers, int32_t dtype) const {
    return static_cast<std::byte*>(pointers[buffer]) + offset * loopir::item_size(dtype);
  }
  bool is_empty() const { return std::find(sizes.begin(), sizes.end(), 0) != sizes.end(); }
};

/// The symbols that some views depend on, as positions; null: a view that is not there.
inline std::vector<uint32_t> symbols_of(const loopir::Program& p,
                                        std::initializer_list<const loopir::View*> views) {
  std::set<uint32_t> out;
  for (const loopir::View* v : views) {
    if (!v) continue;
    p.expressions.add_symbols(v->offset, out);
    for (const loopir::Ids* list : {&v->sizes, &v->strides})
      for (loopir::Id id : *list) p.expressions.add_symbols(id, out);
  }
  return {out.begin(), out.end()};
}

/// Plans by the values of the symbols that they depend on; almost always one.
template <class Plan>
class Plans {
 public:
  /// Positions of those symbols.
  explicit Plans(std::vector<uint32_t> symbols) : symbols_(std::move(symbols)) {}

  template <class Make>
  std::shared_ptr<const Plan> get(std::span<const int64_t> symbols, Make&& make) const {
    if (symbols_.empty() && is_made_.load(std::memory_order_acquire)) return only_;
    std::lock_guard lock(guarding_);
    std::vector<int64_t> key;
    for (uint32_t s : symbols_) key.push_back(symbols[s]);
    auto found = plans_.find(key);
    if (found == plans_.end()) {
      if (plans_.size() >= most) plans_.clear();
      found = plans_.emplace(std::move(key), std::make_shared<const Plan>(make())).first;
    }
    if (symbols_.empty() && !is_made_) {
      only_ = found->second;
      is_made_.store(true, std::memory_order_release);
    }
    return found->second;
  }

 private:
  static constexpr size_t most = 256;
  std::vector<uint32_t> symbols_;
  mutable std::atomic<bool> is_made_{false};
  mutable std::shared_ptr<const Plan> only_;  // where no symbol matters; set once
  mutable std::mutex guarding_;
  mutable std::map<std::vector<int64_t>, std::shared_ptr<const Plan>> plans_;
};

}  // namespace inductor
