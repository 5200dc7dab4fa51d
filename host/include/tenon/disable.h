// SPDX-License-Identifier: Apache-2.0
// Functions that are never recorded: disable, and regions that run as they are: NoCompile. Part of
// tenon/compile.h.
#pragma once

#include <tenon/detail/compiled.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace tenon {

struct DisableOptions {
  /// Compiled callables that `fn` calls run as they are, too; false: as compiled ones.
  bool recursive = true;
  /// Why, for reports of graph breaks.
  std::string reason = {};
  /// Where compiled callables must be one graph, they are cut here all the same.
  bool allow_in_fullgraph = false;
};

/// While one lives, compiled callables that this thread calls run as they are. In the body of one the
/// graph ends, and each operation runs by itself: such a body is recorded on every call.
class TENON_API NoCompile {
 public:
  explicit NoCompile(std::string_view reason = "NoCompile",
                     std::source_location where = std::source_location::current());
  ~NoCompile();
  NoCompile(const NoCompile&) = delete;
};

namespace detail {

/// The same for code that is not recorded.
class TENON_API UncompiledScope {
 public:
  explicit UncompiledScope(bool on);
  ~UncompiledScope();
  UncompiledScope(const UncompiledScope&) = delete;

 private:
  const bool on_;
};
TENON_API std::string what_of(const DisableOptions& options);

/// An argument for a function that is not recorded: the caller's own, or a copy with real tensors
/// where it holds tensors.
template <class T>
class RealArgument {
 public:
  using U = std::remove_cvref_t<T>;
  static constexpr bool is_tree = may_hold_tensors<U>();
  static constexpr bool is_given_back = is_tree && std::is_lvalue_reference_v<T> &&
                                        !is_const_reference<T> && std::is_move_assignable_v<U>;

  explicit RealArgument(std::remove_reference_t<T>& arg) : arg_(arg) {}
  void read(Leaves& leaves) {
    begin_ = leaves.tensors.size();
    if constexpr (is_tree) {
      LeafReader reader{leaves};
      visit_tree(std::as_const(arg_), reader);
    }
    end_ = leaves.tensors.size();
  }
  void show(ShownObjects<TreeCopier>& shown) const {
    if constexpr (is_tree) visit_tree(std::as_const(arg_), shown);
  }
  /// Takes the next tensors from `real`.
  void replace(LeafWriter& real, TreeCopier& copier) {
    if constexpr (is_tree && std::is_lvalue_reference_v<T>)
      visit_tree(copy_.emplace(copier.copy(std::as_const(arg_))), real);
    else if constexpr (is_tree)
      visit_tree(copy_.emplace(copier.copy_for_good(std::as_const(arg_))), real);
  }
  /// Once all arguments are replaced.
  void take_prints() {
    if constexpr (is_given_back) {
      visit_tree(*copy_, ours_);
      visit_tree(arg_, theirs_);
    }
  }
  /// What the function has assigned to the copy goes to the caller's object; all else stays, so that
  /// the object keeps what the function has assigned to it by another way, as through a capture. Its
  /// elements stay where they are, but where the copy's take their place: it has become longer or
  /// shorter, changes in it cannot be told, or results may be references to its elements.
  void give_back(std::span<const Tensor> real, std::span<const Tensor> before,
                 const TreeCopier& copier, bool is_referred_to) {
    if constexpr (is_given_back) {
      PrintedLeaves ours, theirs;
      visit_tree(*copy_, ours);
      visit_tree(arg_, theirs);
      const bool keeps_shape = theirs.looks_like(theirs_);
      if (!keeps_shape && ours.is_like(ours_)) return;
      LeafRestorer restorer{real.subspan(begin_, end_ - begin_),
                            before.subspan(begin_, end_ - begin_)};
      visit_tree(*copy_, restorer);
      PointerRejoiner rejoiner(copier.objects);
      visit_tree(*copy_, rejoiner);
      const bool by_leaf = keeps_shape && ours.looks_like(ours_);
      if (by_leaf && !is_referred_to && ours.can_assign_changes(ours_))
        return ours.assign_changes(ours_, theirs);
      if (by_leaf) ours.take_the_rest(ours_, theirs);
      arg_ = std::move(*copy_);
    }
  }
  T&& get() {
    if constexpr (is_tree)
      return static_cast<T&&>(*copy_);
    else
      return static_cast<T&&>(arg_);
  }
  /// Where the caller has what lies at `place` in the copy; null: it lies elsewhere. `theirs` are the
  /// leaves of all arguments.
  const void* of_caller(const void* place, const Leaves& theirs) const {
    if constexpr (is_tree) {
      size_t offset = reinterpret_cast<uintptr_t>(place) - reinterpret_cast<uintptr_t>(&*copy_);
      if (offset < sizeof(U)) return reinterpret_cast<const char*>(&arg_) + offset;
    }
    if constexpr (is_tree && !is_given_back) {  // what is given back takes its elements along
      Leaves ours;
      LeafReader reader{ours};
      visit_tree(std::as_const(*copy_), reader);
      for (size_t i = 0; i < ours.tensors.size() && begin_ + i < end_; ++i)
        if (ours.tensors[i] == place) return theirs.tensors[begin_ + i];
    }
    return nullptr;
  }

 private:
  std::remove_reference_t<T>& arg_;
  std::optional<std::conditional_t<is_tree, U, std::monostate>> copy_;
  PrintedLeaves ours_, theirs_;  // before the call: of the copy, of the caller's object
  size_t begin_ = 0, end_ = 0;
};

/// The same of several arguments.
template <class... A>
const void* place_of_caller(const std::tuple<RealArgument<A>...>& arguments, const void* place,
                            const Leaves& theirs) {
  const void* found = nullptr;
  std::apply([&](const auto&... r) { ((found = found ? found : r.of_caller(place, theirs)), ...); },
             arguments);
  return found;
}

/// Whether a result refers to objects; such a result may refer to copies of the arguments.
template <class R>
inline constexpr bool holds_references = std::is_reference_v<R>;
template <class T>
inline constexpr bool holds_references<std::reference_wrapper<T>> = std::is_object_v<T>;
template <class... T>
inline constexpr bool holds_references<std::tuple<T...>> = (... || holds_references<T>);
template <class A, class B>
inline constexpr bool holds_references<std::pair<A, B>> =
    holds_references<A> || holds_references<B>;

/// A result, or a part of one, that refers to the caller's objects where it refers to copies of them.
/// `place_of` gives the place of the caller's object, or null.
template <class R, class F>
R as_of_caller(std::remove_reference_t<R>& result, const F& place_of) {
  if constexpr (std::is_reference_v<R>) {
    using T = std::remove_reference_t<R>;
    const void* theirs = place_of(std::addressof(result));
    return static_cast<R>(theirs ? *const_cast<T*>(static_cast<const T*>(theirs)) : result);
  } else if constexpr (is_instance<R, std::reference_wrapper>) {
    return R(as_of_caller<typename R::type&>(result.get(), place_of));
  } else if constexpr (holds_references<R>) {
    return [&]<size_t... i>(std::index_sequence<i...>) {
      return R(as_of_caller<std::tuple_element_t<i, R>>(std::get<i>(result), place_of)...);
    }
    (std::make_index_sequence<std::tuple_size_v<R>>());
  } else {
    return std::move(result);
  }
}

/// Aims shared pointers in a result at the caller's objects, where they point to copies.
template <class T>
void rejoin(T& part, PointerRejoiner& rejoiner) {
  if constexpr (is_instance<T, std::shared_ptr>)
    rejoiner.pointer(part);
  else if constexpr (is_instance<T, std::optional>) {
    if (part) rejoin(*part, rejoiner);
  } else if constexpr (is_instance<T, std::pair> || is_instance<T, std::tuple>)
    std::apply([&](auto&... e) { (rejoin(e, rejoiner), ...); }, part);
  else if constexpr (is_container<T> && elements_are_assigned<T> && requires { part.begin(); })
    for (auto& e : part) rejoin(e, rejoiner);
}

/// Calls `fn` outside of what is being recorded.
template <class F, class... A>
decltype(auto) call_disabled(const F& fn, const DisableOptions& options, std::source_location where,
                             A&&... args) {
  std::tuple<RealArgument<A>...> real(args...);
  Leaves leaves;
  std::apply([&](auto&... r) { (r.read(leaves), ...); }, real);
  std::vector<Tensor> before, tensors;
  for (const Tensor* t : leaves.tensors.span()) before.push_back(*t);
  tensors = before;
  DisabledScope scope{enter_disabled(tensors, what_of(options), where, options.allow_in_fullgraph)};
  std::vector<Number> numbers(leaves.numbers.span().begin(), leaves.numbers.span().end());
  LeafWriter writer(tensors.data(), numbers.data());
  TreeCopier copier;
  std::apply([&](auto&... r) { (r.show(copier.shown), ...); }, real);
  copier.shown.find_wholes();
  std::apply([&](auto&... r) { (r.replace(writer, copier), ...); }, real);
  copier.take_prints();
  std::apply([](auto&... r) { (r.take_prints(), ...); }, real);
  using Result = std::invoke_result_t<const F&, A...>;
  constexpr bool is_referred_to = holds_references<Result>;
  auto give_back = [&] {
    copier.give_hidden();
    for (const CopiedObject& object : copier.changed()) {
      LeafRestorer restorer(tensors, before);
      object.type->restore(object.to, restorer);
      copier.give(object);
    }
    std::apply([&](auto&... r) { (r.give_back(tensors, before, copier, is_referred_to), ...); },
               real);
  };
  auto run = [&]() -> decltype(auto) {
    try {
      return std::apply([&](auto&... r) -> decltype(auto) { return std::invoke(fn, r.get()...); },
                        real);
    } catch (...) {
      give_back();
      throw;
    }
  };
  if constexpr (std::is_void_v<Result>) {
    run();
    give_back();
  } else if constexpr (holds_references<Result>) {
    Result result = run();
    auto place_of = [&](const void* place) { return place_of_caller(real, place, leaves); };
    Result of_caller = as_of_caller<Result>(result, place_of);
    give_back();
    return static_cast<Result>(static_cast<Result&&>(of_caller));
  } else {
    Result result = run();
    give_back();
    PointerRejoiner rejoiner(copier.objects);
    rejoin(result, rejoiner);
    return result;
  }
}

}  // namespace detail

/// A callable that is never recorded: inside a compiled one it runs on real tensors, with the
/// arguments as they are; those that hold tensors are copies with real ones, and what it assigns to
/// them goes back to the caller's, which keep what it assigns to them through a capture. References
/// to them that it returns, by themselves or in a tuple or pair, are to the caller's. Reports name the
/// place of the call of disable().
template <class F>
auto disable(F fn, DisableOptions options = {},
             std::source_location where = std::source_location::current()) {
  return
      [fn = std::move(fn), options = std::move(options), where](auto&&... args) -> decltype(auto) {
        detail::UncompiledScope around(options.recursive);
        if (!detail::is_recording()) return std::invoke(fn, std::forward<decltype(args)>(args)...);
        return detail::call_disabled(fn, options, where, std::forward<decltype(args)>(args)...);
      };
}

}  // namespace tenon
