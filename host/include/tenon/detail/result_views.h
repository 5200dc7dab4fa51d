// SPDX-License-Identifier: Apache-2.0
// Results that show or point to parts of the arguments. A body makes them of its copies; the caller
// gets the same parts of his own objects. Part of tenon/compile.h.
#pragma once

#include <tenon/detail/copied_objects.h>
#include <tenon/detail/places.h>

#include <concepts>
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace tenon::detail {

[[noreturn]] inline void fail_reference_to_argument() {
  fail(
      "the body of a compiled callable returns an object with a reference to a part of an "
      "argument, "
      "of which it has a copy; return the part by value");
}

/// The spans, text views and pointers of a result, as a visitor.
struct ResultViews : TensorVisitor {
  struct View {
    const void* view;
    Address shown;
    size_t bytes;
    void (*aim)(const void* view, const View& now);  ///< null: a reference
    /// Null: no shared pointer.
    bool (*is_owned_by)(const void* view, const std::shared_ptr<void>& copy) = nullptr;
    std::shared_ptr<void> original = nullptr;  ///< what a shared pointer then owns
    size_t extent = 0, offset = 0;
  };
  std::vector<View> views;

  template <class T, size_t N>
  void view(const std::span<T, N>& v) {
    add(v, v.data(), v.size_bytes(), [](const void* at, const View& now) {
      auto& old = *static_cast<std::span<T, N>*>(const_cast<void*>(at));
      old = std::span<T, N>(pointer_to<T>(now), old.size());
    });
  }
  template <class T>
  void view(const List<T>& v) {
    add(v, v.data(), v.size() * sizeof(T), [](const void* at, const View& now) {
      auto& old = *static_cast<List<T>*>(const_cast<void*>(at));
      old = List<T>(pointer_to<const T>(now), old.size());
    });
  }
  template <std::same_as<std::string_view> Text>
  void view(const Text& v) {
    add(v, v.data(), v.size(), [](const void* at, const View& now) {
      auto& old = *static_cast<std::string_view*>(const_cast<void*>(at));
      old = std::string_view(pointer_to<const char>(now), old.size());
    });
  }
  template <class T>
  requires std::is_object_v<T>
  void view(T* const& v) {
    add(v, v, sizeof(void*), [](const void* at, const View& now) {
      *static_cast<T**>(const_cast<void*>(at)) = pointer_to<T>(now);
    });
  }
  template <class T>
  void pointer(const std::shared_ptr<T>& p) {
    add(p, p.get(), 0, [](const void* at, const View& now) {
      *static_cast<std::shared_ptr<T>*>(const_cast<void*>(at)) =
          std::shared_ptr<T>(now.original, pointer_to<T>(now));
    });
    if (p)
      views.back().is_owned_by = [](const void* at, const std::shared_ptr<void>& copy) {
        return shares_owner(*static_cast<const std::shared_ptr<T>*>(at), copy);
      };
  }
  template <class T>
  void pointer(const T&) {}
  template <class T>
  void reference(const T& part) {
    add(part, std::addressof(part), sizeof(T), nullptr);
  }
  template <class T>
  void tensor(const T&) {}
  template <class T>
  void scalar(const T&) {}

  /// Keeps those that show what lies at `ours`, or point to copies of shared objects.
  template <class Extents>
  void keep_those_of(const Extents& ours, std::span<const CopiedObject> objects) {
    std::erase_if(views, [&](View& view) {
      if (view.is_owned_by) {
        for (const CopiedObject& o : objects)
          if (o.copy && view.is_owned_by(view.view, o.copy)) view.original = o.original;
        if (!view.original) return true;
      }
      view.extent = find(ours, view);
      if (view.extent == ours.size()) return true;
      if (!view.aim) fail_reference_to_argument();
      view.offset = static_cast<size_t>(view.shown - ours[view.extent].begin);
      return false;
    });
  }
  /// The pieces of the caller's objects, in the order of those of the copies.
  void aim_at(const std::vector<Extent>& theirs) {
    for (View& view : views) {
      view.shown = theirs[view.extent].begin + view.offset;
      view.aim(view.view, view);
    }
  }

 private:
  template <class T>
  static T* pointer_to(const View& view) {
    return pointer_at<T>(view.shown);
  }
  template <class V>
  void add(const V& view, const void* shown, size_t bytes,
           void (*aim)(const void*, const View& now)) {
    if (shown) views.push_back({std::addressof(view), static_cast<Address>(shown), bytes, aim});
  }
  // One that shows nothing may point behind the end.
  template <class Extents>
  static size_t find(const Extents& ours, const View& view) {
    for (size_t i = 0; i < ours.size(); ++i)
      if (ours[i].holds(view.shown)) return i;
    for (size_t i = 0; i < ours.size() && view.bytes == 0; ++i)
      if (ours[i].bytes && view.shown == ours[i].begin + ours[i].bytes) return i;
    return ours.size();
  }
};

}  // namespace tenon::detail
