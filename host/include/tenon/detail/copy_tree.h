// SPDX-License-Identifier: Apache-2.0
// Deep copies of trees: what smart pointers point to is copied too, so that a body may get other
// tensors in its arguments than the caller has in his. Part of tenon/compile.h.
#pragma once

#include <tenon/detail/copied_objects.h>
#include <tenon/detail/shown_objects.h>

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace tenon::detail {

/// Whether values of this type can be copied; the elements of a container are asked, too.
template <class T>
inline constexpr bool is_copied = std::is_copy_constructible_v<T>;
template <template <class...> class C, class... A>
requires is_container<C<A...>> &&
    (sizeof...(A) >
     0) inline constexpr bool is_copied<C<A...>> = std::is_copy_constructible_v<C<A...>> &&
                                                   (... && is_copied<A>);

/// Named in the compiler's message: a type that cannot be copied, and the cure.
template <class T>
struct cannot_be_copied_add_TENON_OPAQUE_to;
/// The same for an opaque result, which later calls copy.
template <class T>
struct return_a_shared_ptr_to_the_move_only;

/// Whether the places of what the keys point to say where entries are found.
template <class Keyed>
consteval bool is_ordered_by_place() {
  using Key = typename Keyed::key_type;
  if constexpr (!is_smart_pointer<Key> || points_to_opaque<Key>)
    return false;
  else if constexpr (requires { typename Keyed::key_compare; })
    return std::is_same_v<typename Keyed::key_compare, std::less<Key>>;
  else
    return std::is_same_v<typename Keyed::hasher, std::hash<Key>>;
}

/// Makes deep copies, of one tree or of several whose pointers belong together: each shared pointer
/// gets an object of its own, and those that shared one share its copy; and so for spans, where asked.
class TreeCopier : public CopiedObjects, public TensorVisitor {
 public:
  int outside = 0;  ///< as a visitor: what references refer to is not copied
  bool copies_spans = false;
  ShownObjects<TreeCopier> shown = {};

  template <class T>
  T copy(const T& v) {
    T copy = without_shared(v);
    split(copy);
    return copy;
  }
  /// The same for a value that the body gets to keep: what only this owns is not the caller's any more.
  template <class T>
  T copy_for_good(const T& v) {
    T copy = without_shared(v);
    owned_.clear();
    owned_opaque_.clear();
    split(copy);
    return copy;
  }
  /// Copies what the shared pointers of a copy point to.
  template <class T>
  void split(T& copy) {
    visit_tree(copy, *this);
    std::ranges::move(owned_opaque_, std::back_inserter(objects));
    owned_opaque_.clear();
  }

  /// An object that the caller keeps as the body leaves its copy.
  template <class T>
  void add_left_over(T& theirs, T& copy) {
    objects.push_back({&theirs, &copy, &object_type<T>});
    objects.back().is_left_over = true;
  }
  /// Throws UserError where one of these and another object, which have copies of their own, overlap.
  template <class Objects>
  void require_apart(const Objects& changed) const {
    if (objects.size() < 2 && blocks_.empty()) return;
    std::set<const void*> owners;
    for (const CopiedObject& object : changed) owners.insert(object.owner());
    std::vector<Piece> pieces = pieces_of_objects();
    std::ranges::sort(pieces, {}, [](const Piece& p) { return p.extent.begin; });
    for (size_t i = 0; i < pieces.size(); ++i)
      for (size_t k = i + 1; k < pieces.size() && pieces[i].extent.overlaps(pieces[k].extent); ++k)
        require(
            pieces[i].owner == pieces[k].owner ||
                !(owners.contains(pieces[i].owner) || owners.contains(pieces[k].owner)),
            "the body of a compiled callable assigns through a smart pointer or span to an object "
            "that overlaps what another one among its arguments points to, and has a copy of each; "
            "pass one of them");
  }

  // As a visitor of copies that still share. Constant fields of theirs are no different.
  template <class T>
  void pointer(const std::shared_ptr<T>& shared) {
    if (!shared || outside) return;
    auto& p = const_cast<std::shared_ptr<T>&>(shared);
    if (std::ranges::find(parts_, p.get()) != parts_.end()) return;
    if (const auto* whole = shown.whole_of(p.get())) {
      const CopiedObject& object = whole->copy(*this, whole->pointer);
      const auto offset = static_cast<size_t>(address(p.get()) - whole->extent.begin);
      auto* part = reinterpret_cast<T*>(static_cast<std::byte*>(object.to) + offset);
      p = std::shared_ptr<T>(object.copy, part);
      parts_.push_back(part);
    } else if (const CopiedObject& object = copy_of<T>(&p); object.to != p.get()) {
      p = std::static_pointer_cast<T>(object.copy);
    }
  }
  /// The copy of what a pointer of type std::shared_ptr<T> points to.
  template <class T>
  const CopiedObject& copy_of(const void* pointer) {
    using U = std::remove_const_t<T>;
    auto original = std::const_pointer_cast<U>(*static_cast<const std::shared_ptr<T>*>(pointer));
    if (const CopiedObject* known = find(original.get())) return *known;
    auto copy = std::make_shared<U>(without_shared<U>(*original));
    add({original.get(), copy.get(), &object_type<U>, original, copy});
    return objects.back();
  }
  template <class T>
  void pointer(const std::unique_ptr<T>& p) {
    if (outside || find(p.get())) return;
    for (auto [to, from] : owned_)
      if (to == p.get()) add({from, to, &object_type<std::remove_const_t<T>>});
  }
  template <class T>
  void pointer(const T&) {}
  template <class T>
  void whole(const std::weak_ptr<T>& weak) {
    if (const auto* pointee = outside ? nullptr : shown.pointee_of(weak))
      const_cast<std::weak_ptr<T>&>(weak) =
          std::static_pointer_cast<T>(pointee->copy(*this, pointee->pointer).copy);
  }
  template <class Keyed>
  void keys(const Keyed& keyed) {
    if constexpr (is_ordered_by_place<Keyed>())
      require(
          outside || keyed.empty(),
          "an argument of a compiled callable is a map or set whose keys are smart pointers; the "
          "body would get copies of what they point to, in another order; take a vector, or "
          "compare the keys by what they point to");
  }
  template <class T, size_t N>
  void view(const std::span<T, N>& span) {
    using U = std::remove_const_t<T>;
    if constexpr (!Opaque<U> && !points_to_opaque<U>) {
      if (!copies_spans || outside || span.empty()) return;
      auto place = const_cast<U*>(span.data());
      for (const Block& block : blocks_)
        if (Extent{block.to, block.from.bytes}.holds(address(place))) return;
      Block& block = block_of(place, span.size());
      if (!std::is_const_v<T> && !block.is_watched) watch<U>(block);
      auto* to = reinterpret_cast<U*>(const_cast<std::byte*>(block.to)) +
                 (place - reinterpret_cast<const U*>(block.from.begin));
      const_cast<std::span<T, N>&>(span) = std::span<T, N>(to, span.size());
    }
  }
  template <class T>
  void tensor(const T&) {}
  template <class T>
  void scalar(const T&) {}

 private:
  template <class T>
  struct FieldCopier {
    TreeCopier& copier;
    std::optional<T> made = {};
    template <class... Fields>
    void fields(const Fields&... e) {
      made.emplace(T{copier.without_shared(e)...});
    }
  };

  template <class T>
  T without_shared(const T& v) {
    if constexpr (is_instance<T, std::unique_ptr>) {
      using U = std::remove_const_t<typename T::element_type>;
      if (!v) return nullptr;
      if constexpr (std::is_polymorphic_v<U> && Opaque<U>) require_same_class(*v);
      auto copy = std::make_unique<U>(without_shared<U>(*v));
      owned_.emplace_back(copy.get(), const_cast<U*>(v.get()));
      if constexpr (Opaque<U>)  // walks do not look at what it points to
        owned_opaque_.push_back({const_cast<U*>(v.get()), copy.get(), &object_type<U>});
      return copy;
    } else if constexpr (is_copied<T>) {
      return v;
    } else if constexpr (is_instance<T, std::optional>) {
      return v ? T(without_shared<typename T::value_type>(*v)) : T();
    } else if constexpr (is_std_array<T>) {
      return std::apply(
          [&](const auto&... e) { return T{without_shared<typename T::value_type>(e)...}; }, v);
    } else if constexpr (is_instance<T, std::pair> || is_instance<T, std::tuple>) {
      return std::apply(
          [&](const auto&... e) {
            return T(without_shared<std::remove_cvref_t<decltype(e)>>(e)...);
          },
          v);
    } else if constexpr (is_instance<T, std::variant>) {
      return std::visit(
          [&]<class A>(const A& e) { return T(std::in_place_type<A>, without_shared<A>(e)); }, v);
    } else if constexpr (is_instance<T, std::map> || is_instance<T, std::unordered_map>) {
      T out;
      for (const auto& [key, e] : v) out.emplace(key, without_shared<typename T::mapped_type>(e));
      return out;
    } else if constexpr (is_list<T> && !is_instance<T, std::set>) {
      T out;
      for (const auto& e : v) out.push_back(without_shared<typename T::value_type>(e));
      return out;
    } else {
      if constexpr (Opaque<T>)
        static_assert(sizeof(return_a_shared_ptr_to_the_move_only<T>) > 0);
      else if constexpr (!std::is_aggregate_v<T>)
        static_assert(sizeof(cannot_be_copied_add_TENON_OPAQUE_to<T>) > 0);
      FieldCopier<T> fields{*this};
      visit_fields(v, fields);
      return std::move(*fields.made);
    }
  }

  // The copy of an array that spans show parts of.
  struct Block {
    Extent from;
    const void* type;
    Address to;
    std::shared_ptr<void> owner;
    bool is_watched = false;
  };
  struct Piece {
    Extent extent;
    const void* owner;
  };
  std::vector<Piece> pieces_of_objects() const {
    std::vector<Piece> pieces;
    for (const Block& block : blocks_) pieces.push_back({block.from, block.owner.get()});
    for (const CopiedObject& object : objects) {
      Places places(/*sees_views=*/false);
      object.type->add_places(object.from, places);
      for (const Extent& extent : places.extents)
        if (extent.bytes > 0) pieces.push_back({extent, object.owner()});
    }
    return pieces;
  }
  template <class U>
  Block& block_of(U* first, size_t size) {
    const void* type = &node_type<U>;
    for (Block& block : blocks_)
      if (block.type == type && block.from.holds(address(first))) return block;
    Extent from = shown.around(type, {address(first), size * sizeof(U)});
    std::span<U> theirs(reinterpret_cast<U*>(const_cast<std::byte*>(from.begin)),
                        from.bytes / sizeof(U));
    if constexpr (is_plain<U>) {
      auto copy = std::make_shared<PlainElements<U>>(theirs);
      blocks_.push_back({from, type, address(copy->ours.get()), copy});
    } else {
      auto copy = std::make_shared<std::vector<U>>();
      copy->reserve(theirs.size());
      for (const U& e : theirs) copy->push_back(without_shared<U>(e));
      blocks_.push_back({from, type, address(copy->data()), copy});
    }
    return blocks_.back();
  }
  // Keeps apart what the body assigns to elements.
  template <class U>
  void watch(Block& block) {
    block.is_watched = true;
    if constexpr (is_plain<U>) {
      add_element(block, {block.owner.get(), block.owner.get(), &plain_elements_type<U>});
    } else {
      auto* theirs = reinterpret_cast<U*>(const_cast<std::byte*>(block.from.begin));
      auto& copies = *static_cast<std::vector<U>*>(block.owner.get());
      for (size_t i = 0; i < copies.size(); ++i)
        add_element(block, {&theirs[i], &copies[i], &object_type<U>});
    }
  }
  void add_element(const Block& block, CopiedObject object) {
    object.array = block.owner.get();
    objects.push_back(std::move(object));
  }
  // By pointers: by the places of the original and of the copy. Templates, as others here, so that
  // programs without pointers need not compile them.
  template <class Object = CopiedObject>
  void add(Object object) {
    by_place_.emplace(Node(object.from, object.type), objects.size());
    by_place_.emplace(Node(object.to, object.type), objects.size());
    objects.push_back(std::move(object));
  }
  template <class T>
  const CopiedObject* find(const T* place) const {
    auto at = by_place_.find(Node(place, &object_type<std::remove_const_t<T>>));
    return at == by_place_.end() ? nullptr : &objects[at->second];
  }

  std::vector<std::pair<void*, void*>> owned_;  // by unique pointers: the copy and the caller's
  std::vector<CopiedObject> owned_opaque_;
  std::vector<Block> blocks_;
  // By type, too: an object and its first part share a place.
  using Node = std::pair<const void*, const void*>;
  std::map<Node, size_t> by_place_;
  std::vector<const void*> parts_;  // of copies, which pointers have been aimed at
};

/// A copy that shares nothing with `v` but opaque objects and the tensors themselves.
template <class T>
T copy_tree(const T& v) {
  if constexpr (std::is_same_v<T, Tensor> || is_plain<T>)
    return v;
  else
    return TreeCopier().copy(v);
}

/// Puts shared pointers to the caller's objects into the places of those to their copies.
struct PointerRejoiner : HandleRejoiner {
  using HandleRejoiner::HandleRejoiner;
  template <class T>
  void pointer(std::shared_ptr<T>& p) {
    for (const CopiedObject& o : objects) {
      if (!o.original) continue;
      if (o.to == p.get())
        p = std::static_pointer_cast<T>(o.original);
      else if (shares_owner(p, o.copy))
        if (Address theirs = place_in_original(o, address(p.get())))
          p = std::shared_ptr<T>(o.original, pointer_at<T>(theirs));
    }
  }
  template <class T>
  void pointer(const T&) {}
};

/// Whether a body that gets a copy of such a value may change objects that are not its own.
template <class T>
consteval bool may_be_assigned_through();
template <class T>
inline constexpr bool elements_are_assigned = false;
template <template <class...> class C, class... A>
inline constexpr bool elements_are_assigned<C<A...>> =
    (... || may_be_assigned_through<std::remove_cv_t<A>>());
template <class T, size_t N>
inline constexpr bool elements_are_assigned<std::array<T, N>> = may_be_assigned_through<T>();

template <class T>
consteval bool may_be_assigned_through() {
  constexpr bool lists_fields = requires(T & v) { v.tenon_visit_tree(v); }
  || requires(T & v) { tree_trait<T>::visit(v, v); };
  if constexpr (Opaque<T> || std::derived_from<T, Tensor> || is_scalar_leaf<T>)
    return false;
  else if constexpr (points_to_opaque<T>)
    return is_instance<T, std::unique_ptr>;  // in a list; its owner's copy has one of its own
  else if constexpr (is_smart_pointer<T> || is_span<T> || lists_fields)
    return true;
  else if constexpr (is_container<T>)
    return elements_are_assigned<T>;
  else
    return std::is_aggregate_v<T> && !std::is_array_v<T>;
}

// ---- arguments

template <class P>
inline constexpr bool is_const_reference =
    std::is_lvalue_reference_v<P>&& std::is_const_v<std::remove_reference_t<P>>;

/// Whether the caller keeps what the body leaves of an argument that it may move from.
template <class P, class U = std::remove_cvref_t<P>>
inline constexpr bool is_left_over =
    std::is_rvalue_reference_v<P> && !std::is_const_v<std::remove_reference_t<P>> && is_copied<U> &&
    std::is_move_assignable_v<U> && !Opaque<U> && !points_to_opaque<U>;

/// What a call keeps of an argument of type P: the caller's object where it is a reference.
template <class P>
using StoredArg =
    std::conditional_t<std::is_lvalue_reference_v<P> || is_left_over<P>,
                       ByReference<std::remove_reference_t<P>>, std::remove_cvref_t<P>>;

template <class T>
struct ElementsOf {};
template <class T>
struct ElementsOf<List<T>> {
  using type = std::vector<T>;
};
template <>
struct ElementsOf<SymIntList> {
  using type = std::vector<SymInt>;
};

/// Whether the body gets the caller's object: it is opaque or may be written.
template <class P, class U = std::remove_cvref_t<P>>
inline constexpr bool is_given_itself = Opaque<U> || points_to_opaque<U> ||
                                        (std::is_lvalue_reference_v<P> && !is_const_reference<P>);

/// Copies values that hold nothing of other objects.
struct ValueCopier {
  template <class T>
  T copy(const T& v) {
    return v;
  }
  template <class T>
  T copy_for_good(const T& v) {
    return v;
  }
};
/// Whether arguments of these types hold nothing of other objects.
template <class... P>
inline constexpr bool are_values = (... && (is_given_itself<P> ||
                                            std::is_same_v<std::remove_cvref_t<P>, Tensor> ||
                                            std::is_same_v<std::remove_cvref_t<P>, SymInt> ||
                                            std::is_same_v<std::remove_cvref_t<P>, SymFloat> ||
                                            is_plain<std::remove_cvref_t<P>>));

/// What the body's own copy of an argument is kept in: elements for a list that is not one of the
/// standard library, the caller's object where the body gets that. The tensors in it are about to be
/// replaced.
template <class P, class Copier>
auto own_argument(const StoredArg<P>& arg, Copier& copier) {
  using U = std::remove_cvref_t<P>;
  if constexpr (is_given_itself<P>)
    return arg;
  else if constexpr (!std::is_move_constructible_v<U>) {
    static_assert(sizeof(cannot_be_copied_add_TENON_OPAQUE_to<U>) > 0);
    return 0;
  } else if constexpr (std::is_same_v<U, Tensor>)
    return Tensor();
  else if constexpr (is_view<U> && !is_span<U>) {
    const U& view = arg;
    typename ElementsOf<U>::type elements(view.begin(), view.end());
    copier.split(elements);
    return elements;
  } else if constexpr (std::is_lvalue_reference_v<P>)
    return copier.copy(static_cast<const U&>(arg));
  else
    return copier.copy_for_good(static_cast<const U&>(arg));
}

}  // namespace tenon::detail
