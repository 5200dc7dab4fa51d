// SPDX-License-Identifier: Apache-2.0
// What spans and shared pointers among the arguments show, before it is copied. Part of
// tenon/compile.h.
#pragma once

#include <tenon/detail/copied_objects.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

namespace tenon::detail {

/// A visitor of the caller's arguments. Spans over parts of one array show one copy of it, and a pointer
/// to a part of what another one points to is aimed into that one's copy.
template <class Copier>
struct ShownObjects : TensorVisitor {
  struct Range {
    const void* type;
    Extent extent;
  };
  /// What a shared pointer of the caller points to, and how it is copied.
  struct Pointee {
    const void* type;
    Extent extent;
    const void* pointer;
    const CopiedObject& (*copy)(Copier& copier, const void* pointer);
  };
  int outside = 0;
  std::vector<Range> ranges;
  std::vector<Pointee> pointees;
  std::vector<Pointee> wholes;  ///< of the pointees, those that others are parts of

  template <class T, size_t N>
  void view(const std::span<T, N>& shown) {
    Range range{&node_type<std::remove_const_t<T>>, {address(shown.data()), shown.size_bytes()}};
    std::erase_if(ranges, [&](const Range& other) {
      if (other.type != range.type || !other.extent.overlaps(range.extent)) return false;
      Address end = std::max(other.extent.begin + other.extent.bytes,
                             range.extent.begin + range.extent.bytes);
      range.extent.begin = std::min(other.extent.begin, range.extent.begin);
      range.extent.bytes = static_cast<size_t>(end - range.extent.begin);
      return true;
    });
    if (range.extent.bytes > 0) ranges.push_back(range);
  }
  template <class T>
  void pointer(const std::shared_ptr<T>& p) {
    if (!p || outside) return;
    pointees.push_back({&node_type<std::remove_const_t<T>>,
                        {address(p.get()), sizeof(T)},
                        &p,
                        [](Copier& copier, const void* pointer) -> const CopiedObject& {
                          return copier.template copy_of<T>(pointer);
                        }});
  }
  template <class T>
  void pointer(const T&) {}
  template <class T>
  void tensor(const T&) {}
  template <class T>
  void scalar(const T&) {}

  /// Once all arguments are visited.
  void find_wholes() {
    std::ranges::sort(pointees, [](const Pointee& a, const Pointee& b) {
      if (a.extent.begin != b.extent.begin) return a.extent.begin < b.extent.begin;
      return a.extent.bytes > b.extent.bytes;
    });
    for (size_t i = 0, next = 0; i < pointees.size(); i = next) {
      const Extent& whole = pointees[i].extent;
      bool has_parts = false;
      for (next = i + 1; next < pointees.size() && whole.holds(pointees[next].extent.begin); ++next)
        has_parts |= pointees[next].extent.bytes < whole.bytes;
      if (has_parts) wholes.push_back(pointees[i]);
    }
  }
  /// What the pointer points to a part of; null: to no part.
  template <class T>
  const Pointee* whole_of(const T* part) const {
    auto behind = std::ranges::upper_bound(wholes, address(part), {}, &begin_of);
    if (behind == wholes.begin()) return nullptr;
    const Pointee& whole = *std::prev(behind);
    return whole.extent.bytes > sizeof(T) && whole.extent.holds(address(part)) ? &whole : nullptr;
  }
  /// What both this and a shared pointer point to, or null.
  template <class T>
  const Pointee* pointee_of(const std::weak_ptr<T>& weak) const {
    const std::shared_ptr<T> p = weak.lock();
    auto at = std::ranges::lower_bound(pointees, address(p.get()), {}, &begin_of);
    for (; at != pointees.end() && at->extent.begin == address(p.get()); ++at)
      if (at->type == &node_type<std::remove_const_t<T>>) return &*at;
    return nullptr;
  }
  /// All that spans show of the array.
  Extent around(const void* type, const Extent& part) const {
    for (const Range& range : ranges)
      if (range.type == type && range.extent.holds(part.begin)) return range.extent;
    return part;
  }

 private:
  static Address begin_of(const Pointee& pointee) { return pointee.extent.begin; }
};

}  // namespace tenon::detail
