// SPDX-License-Identifier: Apache-2.0
// What smart pointers and spans among the arguments point to. A body gets copies of these objects;
// what it changes in them goes to the caller's own. Part of tenon/compile.h.
//
// Model: an object is looked at by itself, without what the pointers in it point to. Where its leaves
// alone have changed they are assigned one by one, so that every object stays where it is; where it
// has become longer or shorter it is assigned as a whole.
#pragma once

#include <tenon/detail/leaves.h>
#include <tenon/detail/places.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace tenon::detail {

/// Makes a visitor stay in the object that it is given, in front of smart pointers.
template <class V>
struct WithinObject : V {
  static constexpr bool stays_in_object = true;
  explicit WithinObject(V visitor) : V(std::move(visitor)) {}
};

/// What is opaque and lies in the object that it is a part of.
template <class T>
concept OpaquePart = Opaque<T> && std::is_class_v<T> && !is_instance<T, std::reference_wrapper>;

/// What an object is like.
struct ObjectPrint {
  static constexpr bool stays_in_object = true;
  std::vector<uint64_t> leaves, shapes;
  bool has_pointers = false;
  bool owns_others = false;    ///< by unique pointers: another shape may have ended copies
  bool hides_changes = false;  ///< it has opaque parts that cannot be compared

  void tensor(const Tensor& t) { leaves.push_back(reinterpret_cast<uint64_t>(t.head())); }
  template <class T>
  void scalar(const Scalar<T>& s) {
    tensor(s.tensor());
    if (!s.tensor().defined()) number(s.value());
  }
  template <class T>
  void sym(const T& v) {
    leaves.push_back(static_cast<uint64_t>(Number(v).word()));
  }
  template <class T>
  void number(const T& v) {
    each_word(v, [this](uint64_t word) { leaves.push_back(word); });
  }
  void text(std::string_view s) { leaves.push_back(std::hash<std::string_view>()(s)); }
  void opaque(const void* address) { leaves.push_back(reinterpret_cast<uint64_t>(address)); }
  /// Of an opaque part the address says nothing: it is one of a copy.
  template <OpaquePart T>
  void whole(const T& v) {
    if constexpr (is_instance<T, std::weak_ptr>)
      opaque(v.lock().get());
    else if constexpr (std::is_trivially_copyable_v<T> && !std::is_empty_v<T>)
      text({reinterpret_cast<const char*>(std::addressof(v)), sizeof(T)});
    else
      hides_changes = hides_changes || !std::is_empty_v<T>;
  }
  void shape(uint64_t n) { shapes.push_back(n); }
  /// A key cannot be assigned: an object with other keys is one of another shape.
  template <class T>
  void key(const T& v) {
    ObjectPrint print;
    visit_tree(v, print);
    shapes.insert(shapes.end(), print.leaves.begin(), print.leaves.end());
    shapes.insert(shapes.end(), print.shapes.begin(), print.shapes.end());
    has_pointers = has_pointers || print.has_pointers;
  }
  template <class T>
  void whole(const std::unique_ptr<T>& p) {  // to an opaque object
    pointer(p);
  }
  template <class P>
  void pointer(const P& p) {
    if constexpr (is_smart_pointer<P>) {
      shapes.push_back(reinterpret_cast<uint64_t>(p.get()));
      has_pointers = true;
      owns_others = owns_others || (is_instance<P, std::unique_ptr> && p);
    }
  }
};

/// Looks at the leaves of an object one by one, of whatever kind: V::whole(leaf).
template <class V>
struct EachLeaf {
  static constexpr bool stays_in_object = true;
  template <class T>
  void tensor(T& t) {
    self().whole(t);
  }
  template <class T>
  void scalar(T& s) {
    self().whole(s);
  }
  template <class T>
  void sym(T& v) {
    self().whole(v);
  }
  template <class T>
  void number(T& v) {
    self().whole(v);
  }
  template <class T>
  void text(T& v) {
    self().whole(v);
  }
  void opaque(const void*) {}
  void shape(uint64_t) {}

 private:
  V& self() { return static_cast<V&>(*this); }
};

/// Where the leaves of an object are, and how they are assigned.
struct LeafPlaces : EachLeaf<LeafPlaces> {
  struct Place {
    void* leaf;
    void (*assign)(void* to, const void* from);  ///< null: it is constant
  };
  std::vector<Place> places;

  template <class T>
  void key(const T&) {}
  template <class T>
  void whole(T& v) {
    places.push_back(place_of(v));
  }
  template <class T>
  static Place place_of(T& v) {
    if constexpr (std::is_const_v<T> || !std::is_copy_assignable_v<T>)
      return {nullptr, nullptr};
    else
      return {&v, [](void* to, const void* from) {
                *static_cast<T*>(to) = *static_cast<const T*>(from);
              }};
  }
};

/// The opaque parts among them.
struct OpaquePlaces : EachLeaf<OpaquePlaces> {
  std::vector<LeafPlaces::Place> places;

  template <class T>
  void key(const T&) {}
  template <class T>
  void whole(T& v) {
    if constexpr (OpaquePart<std::remove_const_t<T>>) places.push_back(LeafPlaces::place_of(v));
  }
};

/// The leaves of an object, and what each is like: functions alone cannot be compared.
struct PrintedLeaves : EachLeaf<PrintedLeaves> {
  LeafPlaces at;
  std::vector<uint64_t> shapes;
  std::vector<std::optional<uint64_t>> prints;  ///< by place; none: it cannot be compared

  template <class T>
  void whole(T& v) {
    at.whole(v);
    prints.push_back(print_of(std::as_const(v)));
  }
  void shape(uint64_t n) { shapes.push_back(n); }
  template <class T>
  void key(const T& v) {
    ObjectPrint print;
    print.key(v);
    shapes.insert(shapes.end(), print.shapes.begin(), print.shapes.end());
  }
  template <class P>
  void pointer(const P& p) {
    if constexpr (is_smart_pointer<P>) shapes.push_back(reinterpret_cast<uint64_t>(p.get()));
  }
  bool holds_at(size_t i, const PrintedLeaves& before) const {
    return prints[i] && prints[i] == before.prints[i];
  }
  bool looks_like(const PrintedLeaves& before) const {
    return shapes == before.shapes && prints.size() == before.prints.size();
  }
  bool is_like(const PrintedLeaves& before) const {
    bool same = looks_like(before);
    for (size_t i = 0; same && i < prints.size(); ++i) same = holds_at(i, before);
    return same;
  }
  /// Whether what has changed, of what looks like it did, is known and can be assigned.
  bool can_assign_changes(const PrintedLeaves& before) const {
    for (size_t i = 0; i < prints.size(); ++i)
      if (!prints[i] || !(holds_at(i, before) || at.places[i].assign)) return false;
    return true;
  }
  void assign_changes(const PrintedLeaves& before, PrintedLeaves& to) const {
    for (size_t i = 0; i < prints.size(); ++i)
      if (!holds_at(i, before)) at.places[i].assign(to.at.places[i].leaf, at.places[i].leaf);
  }
  /// The other way round.
  void take_the_rest(const PrintedLeaves& before, const PrintedLeaves& from) {
    for (size_t i = 0; i < prints.size(); ++i)
      if (holds_at(i, before) && at.places[i].assign)
        at.places[i].assign(at.places[i].leaf, from.at.places[i].leaf);
  }

 private:
  template <class T>
  static std::optional<uint64_t> print_of(const T& v) {
    constexpr bool shows_itself =
        !Opaque<T> || std::is_pointer_v<T> || is_instance<T, std::reference_wrapper>;
    if constexpr (!shows_itself) return std::nullopt;
    ObjectPrint print;
    visit_tree(v, print);
    uint64_t all = 0;
    for (uint64_t n : print.leaves) all = (all ^ n) * 0x9E3779B97F4A7C15u + 1;
    for (uint64_t n : print.shapes) all = (all ^ n) * 0x9E3779B97F4A7C15u + 1;
    return all;
  }
};

struct HandleRejoiner;
/// What is done with the leaves of an object of some type.
struct ObjectType {
  ObjectPrint (*print)(const void* object);
  void (*read)(const void* object, LeafReader& reader);
  void (*empty)(void* object);  ///< of fakes
  void (*fill)(void* object, LeafFiller& filler);
  void (*restore)(void* object, LeafRestorer& restorer);
  void (*rejoin)(void* object, HandleRejoiner& rejoiner);
  void (*assign_leaves)(void* to, void* from);
  void (*assign_opaque)(void* to, void* from);  ///< its opaque parts alone
  void (*assign)(void* to, void* from);         ///< null: values of this type cannot be assigned
  void (*add_places)(const void* object, Places& places);
};

template <class T, class V>
void visit_object(void* object, V& visitor) {
  WithinObject<V> within(visitor);
  visit_tree(*static_cast<T*>(object), within);
  visitor = static_cast<V&>(within);
}

/// What `Chosen` finds of an object; the two have one shape.
template <class T, class Chosen>
void assign_places(void* to, void* from) {
  Chosen theirs, ours;
  visit_tree(*static_cast<T*>(to), theirs);
  visit_tree(*static_cast<T*>(from), ours);
  for (size_t i = 0; i < ours.places.size(); ++i)
    if (ours.places[i].assign) ours.places[i].assign(theirs.places[i].leaf, ours.places[i].leaf);
}

template <class T>
constexpr auto assign_of() -> void (*)(void*, void*) {
  if constexpr (std::is_move_assignable_v<T>)
    return [](void* to, void* from) { *static_cast<T*>(to) = std::move(*static_cast<T*>(from)); };
  else
    return nullptr;
}

template <class T>
inline constexpr ObjectType object_type = {
    .print =
        [](const void* object) {
          ObjectPrint print;
          visit_tree(*static_cast<const T*>(object), print);
          return print;
        },
    .read =
        [](const void* object, LeafReader& reader) {
          WithinObject<LeafReader> within(reader);
          visit_tree(*static_cast<const T*>(object), within);
        },
    .empty =
        [](void* object) {
          WithinObject<CopyEmptier> within{CopyEmptier()};
          visit_tree(*static_cast<T*>(object), within);
        },
    .fill = &visit_object<T, LeafFiller>,
    .restore = &visit_object<T, LeafRestorer>,
    .rejoin = &visit_object<T, HandleRejoiner>,
    .assign_leaves = &assign_places<T, LeafPlaces>,
    .assign_opaque = &assign_places<T, OpaquePlaces>,
    .assign = assign_of<T>(),
    .add_places = [](const void* object,
                     Places& places) { visit_tree(*static_cast<const T*>(object), places); },
};

/// Elements that are one leaf each, without a tensor or symbol.
template <class T>
inline constexpr bool is_plain = std::is_arithmetic_v<T> || std::is_enum_v<T> ||
                                 std::is_same_v<T, std::string> || is_instance<T, std::complex>;
/// Such elements that a span shows: they are one object, of which only what differs is assigned.
template <class T>
struct PlainElements {
  std::span<T> theirs;
  std::shared_ptr<T[]> ours, before;

  explicit PlainElements(std::span<T> from)
      : theirs(from), ours(copied(from)), before(copied(from)) {}
  bool has_changed(size_t i) const {
    if constexpr (std::is_trivially_copyable_v<T>)
      return std::memcmp(&ours[i], &before[i], sizeof(T)) != 0;
    else
      return !(ours[i] == before[i]);
  }
  void assign() const {
    for (size_t i = 0; i < theirs.size(); ++i)
      if (has_changed(i)) theirs[i] = ours[i];
  }

 private:
  static std::shared_ptr<T[]> copied(std::span<T> from) {
    std::shared_ptr<T[]> out(new T[from.size()]);
    std::copy(from.begin(), from.end(), out.get());
    return out;
  }
};
template <class T>
inline constexpr ObjectType plain_elements_type = {
    .print =
        [](const void* object) {
          auto& elements = *static_cast<const PlainElements<T>*>(object);
          ObjectPrint print;
          for (size_t i = 0; i < elements.theirs.size() && print.leaves.empty(); ++i)
            if (elements.has_changed(i)) print.leaves.push_back(i);
          return print;
        },
    .read = [](const void*, LeafReader&) {},
    .empty = [](void*) {},
    .fill = [](void*, LeafFiller&) {},
    .restore = [](void*, LeafRestorer&) {},
    .rejoin = [](void*, HandleRejoiner&) {},
    .assign_leaves = [](void*, void* from) { static_cast<PlainElements<T>*>(from)->assign(); },
    .assign_opaque = [](void*, void*) {},
    .assign = nullptr,
    .add_places = [](const void*, Places&) {},
};

/// An object of the caller, and the copy that the body gets.
struct CopiedObject {
  void* from;
  void* to;
  const ObjectType* type;
  std::shared_ptr<void> original = nullptr, copy = nullptr;  ///< of shared ones
  const void* array = nullptr;  ///< the copy of what a span shows, of an element
  bool is_left_over = false;    ///< the body may have moved from it
  ObjectPrint before = {};

  const void* owner() const { return array ? array : to; }
  bool has_changed_shape() const { return type->print(to).shapes != before.shapes; }
  bool has_changed() const {
    ObjectPrint now = type->print(to);
    return now.leaves != before.leaves || now.shapes != before.shapes;
  }
  /// Whether the caller's object can become like the copy.
  bool can_assign() const {
    ObjectPrint now = type->print(to);
    if (now.shapes == before.shapes) return true;
    return type->assign && !before.owns_others && (is_left_over || !now.has_pointers);
  }
  void assign() const { (has_changed_shape() ? type->assign : type->assign_leaves)(from, to); }
};

/// Where the original has what lies at `place` in the copy; null: it lies elsewhere. Templates, here and
/// below, so that programs without pointers need not compile them.
template <class Object>
Address place_in_original(const Object& object, Address place) {
  Places ours(/*sees_views=*/false), theirs(/*sees_views=*/false);
  object.type->add_places(object.to, ours);
  object.type->add_places(object.from, theirs);
  for (size_t i = 0; i < ours.extents.size() && i < theirs.extents.size(); ++i)
    if (ours.extents[i].holds(place))
      return theirs.extents[i].begin + (place - ours.extents[i].begin);
  return nullptr;
}

/// Aims weak and plain pointers at the caller's objects, where they are aimed at copies.
struct HandleRejoiner : TensorVisitor {
  std::span<const CopiedObject> objects;
  explicit HandleRejoiner(std::span<const CopiedObject> copied) : objects(copied) {}
  template <class T>
  void whole(std::weak_ptr<T>& weak) {
    const std::shared_ptr<T> p = weak.lock();
    for (const CopiedObject& o : objects)
      if (p && o.original && o.to == p.get()) weak = std::static_pointer_cast<T>(o.original);
  }
  template <class T>
  requires(!std::is_function_v<T>) void whole(T*& p) {
    for (const CopiedObject& o : objects)
      if (p && o.to == p) p = static_cast<T*>(o.from);
  }
  template <class T>
  void tensor(const T&) {}
  template <class T>
  void scalar(const T&) {}
};

/// All of an argument list; those that contain others come first.
struct CopiedObjects {
  std::vector<CopiedObject> objects;

  void take_prints() {
    for (CopiedObject& o : objects) o.before = o.type->print(o.to);
  }
  /// Those that differ from their prints. Throws UserError where one cannot be assigned.
  std::vector<CopiedObject> changed() const {
    std::vector<CopiedObject> out;
    for (const CopiedObject& o : objects) {
      if (!o.has_changed()) continue;
      if (!o.can_assign()) fail_assigned_argument();
      out.push_back(o);
    }
    return out;
  }
  /// The caller's object becomes like the copy.
  template <class Object>
  void give(const Object& object) const {
    rejoin(object);
    object.assign();
  }
  /// What may have changed unseen; an object of another shape is given as a whole.
  template <class Object = CopiedObject>
  void give_hidden() const {
    for (const Object& o : objects)
      if (o.before.hides_changes && !o.has_changed_shape()) {
        rejoin(o);
        o.type->assign_opaque(o.from, o.to);
      }
  }

 private:
  template <class Object>
  void rejoin(const Object& object) const {
    HandleRejoiner rejoiner(objects);
    object.type->rejoin(object.to, rejoiner);
  }
};

}  // namespace tenon::detail
