// SPDX-License-Identifier: Apache-2.0
// What is behind a compiled callable: the frame of one call, the sites that keep code, and the call
// operator. Part of tenon/compile.h; programs need none of it by itself.
#pragma once

#include <tenon/detail/copy_tree.h>
#include <tenon/detail/leaves.h>
#include <tenon/detail/result_value.h>
#include <tenon/detail/result_views.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <source_location>
#include <string>
#include <tuple>
#include <typeindex>
#include <vector>

namespace tenon {

struct Options;
struct CallStats;
struct CompiledEntry;

namespace detail {

/// Runs the user's callable on the tensors and symbols given in place of its arguments' leaves.
/// `outputs` receives the tensor leaves of the result; the rest of it stays in the context.
struct Body {
  void* context;
  void (*run)(void* context, const Tensor* tensors, const Number* numbers, ResultTensors& outputs,
              Leaves& plain_outputs);
  /// After run: the result without its tensors, for calls to come.
  std::shared_ptr<void> (*prototype)(void* context);
  void (*run_eager)(void* context);  ///< on the caller's own arguments; keeps the result in context
  const void* closure;               ///< the callable's bytes, for finding captured tensors
  size_t closure_bytes;
};

/// What a call gives: output tensors and the rest of the result, or nothing after run_eager.
struct CallResult {
  ResultTensors tensors;
  std::vector<Number> numbers;      ///< of SymInt and SymFloat leaves
  const void* prototype = nullptr;  ///< null: the rest is what the body has left in its context
};

class Site;
TENON_API std::shared_ptr<Site> make_site(const Options& options);
/// Throws UserError for names that there are not, and for a mode beside options.
TENON_API void check_options(const Options& options);
TENON_API void call_site(Site& site, const Leaves& leaves, const Body& body, CallResult& result);
TENON_API CallStats site_stats(const Site& site);
TENON_API std::string explain_site(const Site& site);
TENON_API void add_entries(const Site& site, std::vector<CompiledEntry>& entries);
TENON_API void reset_site(Site& site);

/// The parameters of a call operator.
template <class M>
struct CallSignature {
  static constexpr bool known = false;
};
template <class C, class R, class... A>
struct CallSignature<R (C::*)(A...) const> {
  static constexpr bool known = true;
  using Params = std::tuple<A...>;
};
template <class C, class R, class... A>
struct CallSignature<R (C::*)(A...)> : CallSignature<R (C::*)(A...) const> {};
template <class C, class R, class... A>
struct CallSignature<R (C::*)(A...) noexcept> : CallSignature<R (C::*)(A...) const> {};
template <class C, class R, class... A>
struct CallSignature<R (C::*)(A...) const noexcept> : CallSignature<R (C::*)(A...) const> {};

template <class F>
struct SignatureOf {
  static constexpr bool known = false;
};
template <class F>
requires requires { &F::operator(); }
struct SignatureOf<F> : CallSignature<decltype(&F::operator())> {};
template <class R, class... A>
struct SignatureOf<R (*)(A...)> : CallSignature<R (SignatureOf<void>::*)(A...) const> {};
template <class R, class... A>
struct SignatureOf<R (*)(A...) noexcept> : SignatureOf<R (*)(A...)> {};
template <class C, class R, class... A>
struct SignatureOf<R (C::*)(A...) noexcept> : SignatureOf<R (C::*)(A...)> {};
template <class C, class R, class... A>
struct SignatureOf<R (C::*)(A...) const noexcept> : SignatureOf<R (C::*)(A...) const> {};
/// A member function takes its object first.
template <class C, class R, class... A>
struct SignatureOf<R (C::*)(A...)> {
  static constexpr bool known = true;
  using Params = std::tuple<std::reference_wrapper<C>, A...>;
};
template <class C, class R, class... A>
struct SignatureOf<R (C::*)(A...) const> {
  static constexpr bool known = true;
  using Params = std::tuple<std::reference_wrapper<const C>, A...>;
};

/// Named in the compiler's message: the type of the parameter, and the cure.
template <class P>
struct take_this_parameter_by_value_or_const_reference;
/// Whether a body may have a parameter `P&` that is not const: opaque objects and plain numbers.
template <class P>
inline constexpr bool is_taken =
    !std::is_lvalue_reference_v<P> || is_const_reference<P> || Opaque<std::remove_reference_t<P>> ||
    std::is_arithmetic_v<std::remove_reference_t<P>>;
template <class P>
void check_parameter() {
  if constexpr (!is_taken<P>)
    static_assert(sizeof(take_this_parameter_by_value_or_const_reference<P>) > 0);
}

/// Throws UserError for a callable that is stated pure, whose hits do not run the body.
TENON_API void require_changes_are_seen(const Site& site);
TENON_API void require_views_are_seen(const Site& site);

/// The argument for a parameter of type P. What cannot be copied is moved: an object serves one run of
/// the body.
template <class P, class Kept>
decltype(auto) hand_over(Kept& kept) {
  if constexpr (is_by_reference<Kept> && std::is_rvalue_reference_v<P>)
    return static_cast<P>(*kept.object);
  else if constexpr (std::is_reference_v<P> || is_copied<P>)
    return static_cast<P>(kept);
  else
    return P(std::move(kept));
}

/// Has spans copied, each array once, and pointers to parts of what others point to aimed into their
/// copies.
template <class Args>
void copy_spans(const Args& args, TreeCopier& copier) {
  copier.copies_spans = true;
  visit_tree(args, copier.shown);
  copier.shown.find_wholes();
}

/// One call with parameters of known types: the arguments, the result, and how to run the body.
template <class F, class... P>
struct CallFrame {
  using Result = std::invoke_result_t<F&, P...>;
  static constexpr bool is_void = std::is_void_v<Result>;
  using Stored = std::conditional_t<is_void, std::monostate, ValueOf<Result>>;

  F& fn;
  std::tuple<StoredArg<P>...>& args;
  const Site* site;
  std::optional<Stored> eager_result, traced_result;
  using Copies = std::tuple<decltype(own_argument<P>(std::declval<const StoredArg<P>&>(),
                                                     std::declval<TreeCopier&>()))...>;
  static constexpr bool may_assign =
      (... || (is_left_over<P> || may_be_assigned_through<std::remove_cvref_t<P>>()));
  static constexpr bool may_show = sizeof...(P) > 0 && may_show_others<Stored>();
  /// What the body gets in place of the arguments: it has changed some, and the result may show them.
  struct Given {
    TreeCopier copier;
    std::optional<Copies> copies;
    std::vector<CopiedObject> changed;
    ResultViews views;
  };
  std::conditional_t<may_assign || may_show, std::optional<Given>, std::monostate> given = {};

  template <class Args>
  static Stored invoke(F& fn, Args& args) {
    return std::apply(
        [&](auto&... a) -> Stored {
          if constexpr (is_void) {
            std::invoke(fn, hand_over<P>(a)...);
            return {};
          } else {
            return std::invoke(fn, hand_over<P>(a)...);
          }
        },
        args);
  }
  static void run(void* self, const Tensor* tensors, const Number* numbers, ResultTensors& outputs,
                  Leaves& plain_outputs) {
    auto& frame = *static_cast<CallFrame*>(self);
    if constexpr (may_assign || may_show) {
      Given& copied = frame.given.emplace();
      EndCopies end{frame};
      copy_spans(frame.args, copied.copier);
      std::apply(
          [&](const StoredArg<P>&... a) {
            copied.copies.emplace(own_argument<P>(a, copied.copier)...);
          },
          frame.args);
      CopyWriter writer(tensors, numbers);
      visit_tree(*copied.copies, writer);
      frame.add_left_overs(copied);
      copied.copier.take_prints();
      frame.run_on(*copied.copies, outputs, plain_outputs);
      end.by_exception = false;
      CopyEmptier emptier;
      visit_tree(*copied.copies, emptier);
      for (const CopiedObject& object : copied.copier.objects) object.type->empty(object.to);
    } else {
      std::conditional_t<are_values<P...>, ValueCopier, TreeCopier> copier;
      Copies copies = std::apply(
          [&](const StoredArg<P>&... a) { return Copies(own_argument<P>(a, copier)...); },
          frame.args);
      std::conditional_t<are_values<P...>, LeafWriter, CopyWriter> writer(tensors, numbers);
      visit_tree(copies, writer);
      frame.run_on(copies, outputs, plain_outputs);
    }
  }
  void add_left_overs(Given& copied) {
    auto add = [&]<class Param>(std::type_identity<Param>, const StoredArg<Param>& arg,
                                auto& copy) {
      if constexpr (is_left_over<Param>) copied.copier.add_left_over(*arg.object, copy);
    };
    std::apply(
        [&](const StoredArg<P>&... a) {
          std::apply([&](auto&... c) { (add(std::type_identity<P>(), a, c), ...); },
                     *copied.copies);
        },
        args);
  }
  // What an exception leaves of them.
  struct EndCopies {
    CallFrame& frame;
    bool by_exception = true;
    ~EndCopies() {
      if (by_exception) frame.given.reset();
    }
  };
  void run_on(Copies& copies, ResultTensors& outputs, Leaves& plain_outputs) {
    Stored& result = traced_result.emplace(invoke(fn, copies));
    LeafReader reader{.leaves = plain_outputs, .is_of_results = true};
    visit_tree(std::as_const(result), reader);
    if constexpr (may_assign) take_changes(reader);
    if constexpr (may_show) take_views(result);
    LeafEmptier emptier(/*only_fakes=*/true);  // other tensors are the program's
    std::span<const Tensor* const> read = plain_outputs.tensors.span();
    if constexpr (std::is_same_v<Stored, Tensor>) {
      bool is_of_trace = result.defined() && result.is_fake();
      outputs.push(is_of_trace ? std::move(result) : result);
      read = read.subspan(1);
    }
    for (const Tensor* t : read) outputs.push(*t);
    visit_tree(result, emptier);
  }
  // They are results like others.
  void take_changes(LeafReader& reader) {
    given->changed = given->copier.changed();
    if (given->changed.empty()) return;
    if (!std::ranges::all_of(given->changed, &CopiedObject::is_left_over))
      require_changes_are_seen(*site);
    given->copier.require_apart(given->changed);
    for (const CopiedObject& object : given->changed) object.type->read(object.to, reader);
  }
  /// The tensors and numbers of the call behind those of the result are the caller's changes.
  void give_changes(LeafFiller filler) {
    given->copier.give_hidden();
    for (const CopiedObject& object : given->changed) object.type->fill(object.to, filler);
    for (const CopiedObject& object : given->changed) given->copier.give(object);
  }
  template <class Param, class V>
  static void add_places(const V& value, Places& places) {
    if constexpr (!is_given_itself<Param> &&
                  !std::is_same_v<std::remove_cvref_t<Param>, SymIntList>)
      visit_tree(value, places);
  }
  // Where parts of the arguments, or of their copies, lie.
  template <class Values>
  std::vector<Extent> places_of(const Values& values, bool of_copies) {
    Places places(/*sees_views=*/true);
    std::apply([&](const auto&... v) { (add_places<P>(v, places), ...); }, values);
    for (const CopiedObject& object : given->copier.objects)
      object.type->add_places(of_copies ? object.to : object.from, places);
    return std::move(places.extents);
  }
  void take_views(Stored& result) {
    ResultViews& views = given->views;
    visit_tree(result, views);
    if (views.views.empty()) return;
    views.keep_those_of(places_of(*given->copies, true), given->copier.objects);
    if (!views.views.empty()) require_views_are_seen(*site);
  }
  static std::shared_ptr<void> prototype(void* self) {
    auto copy = std::make_shared<Stored>(copy_tree(*static_cast<CallFrame*>(self)->traced_result));
    LeafEmptier emptier;
    visit_tree(*copy, emptier);
    return copy;
  }
  static void run_eager(void* self) {
    auto& frame = *static_cast<CallFrame*>(self);
    frame.eager_result.emplace(invoke(frame.fn, frame.args));
  }
  /// What the call returns, once it has changed what the body has changed.
  auto take_result(CallResult& result) {
    if constexpr (is_void) {
      if (!eager_result) fill_rest(LeafFiller(result.tensors.data(), result.numbers.data()));
    } else {
      if (eager_result) return std::move(*eager_result);
      if constexpr (std::is_same_v<Stored, Tensor>) {
        fill_rest(LeafFiller(result.tensors.data() + 1, result.numbers.data()));
        return std::move(result.tensors[0]);
      } else {
        if (result.prototype)
          traced_result.emplace(copy_tree(*static_cast<const Stored*>(result.prototype)));
        LeafFiller filler(result.tensors.data(), result.numbers.data());
        visit_tree(*traced_result, filler);
        fill_rest(filler);
        if constexpr (may_show)
          if (given && !given->views.views.empty()) given->views.aim_at(places_of(args, false));
        return Stored(std::move(*traced_result));
      }
    }
  }
  void fill_rest(LeafFiller filler) {
    if constexpr (may_assign)
      if (given) give_changes(filler);
  }
};

/// The callable and its sites, one for each list of parameter types (one in all unless generic).
template <class F>
struct Compiled {
  Compiled(F f, std::shared_ptr<const Options> o) : fn(std::move(f)), options(std::move(o)) {
    if constexpr (SignatureOf<F>::known) only_site = make_site(*options);
  }
  F fn;
  std::shared_ptr<const Options> options;
  std::mutex sites_lock;
  std::map<std::type_index, std::shared_ptr<Site>> sites;
  std::shared_ptr<Site> only_site;

  /// Whether these are all parameters; calls that leave out arguments with defaults have fewer.
  template <class Params>
  static constexpr bool is_whole_list() {
    if constexpr (SignatureOf<F>::known)
      return std::tuple_size_v<Params> == std::tuple_size_v<typename SignatureOf<F>::Params>;
    else
      return false;
  }

  template <class Params>
  Site& site() {
    if constexpr (is_whole_list<Params>()) {
      return *only_site;
    } else {
      std::lock_guard lock(sites_lock);
      auto& slot = sites[std::type_index(typeid(Params))];
      if (!slot) slot = make_site(*options);
      return *slot;
    }
  }
};

[[noreturn]] TENON_API void fail_empty_callable();
[[noreturn]] TENON_API void fail_null_callable();

/// One call: arguments to leaves, the site, and the result from what it gives.
template <class F, class... P, class... A>
auto call_compiled(const std::shared_ptr<Compiled<F>>& state, std::tuple<P...>*, A&&... args) {
  (check_parameter<P>(), ...);
  if (!state) fail_empty_callable();
  std::shared_ptr<Compiled<F>> kept = state;  // the body may assign or destroy the callable
  Compiled<F>& compiled = *kept;
  std::tuple<StoredArg<P>...> stored(std::forward<A>(args)...);
  using Frame = CallFrame<F, P...>;
  Site& site = compiled.template site<std::tuple<P...>>();
  Frame frame{compiled.fn, stored, &site, {}, {}};
  Leaves leaves;
  LeafReader reader{leaves};
  visit_tree(std::as_const(stored), reader);
  Body body{&frame, &Frame::run, &Frame::prototype, &Frame::run_eager, &compiled.fn, sizeof(F)};
  CallResult result;
  call_site(site, leaves, body, result);
  return frame.take_result(result);
}

template <class F, class = void>
struct ParamsOf {
  using type = void;  // a generic callable: the parameters are those of each call
};
template <class F>
struct ParamsOf<F, std::enable_if_t<SignatureOf<F>::known>> {
  using type = typename SignatureOf<F>::Params;
};

template <class F, class Params = typename ParamsOf<F>::type>
class CallOperator;
template <class F, class... P>
class CallOperator<F, std::tuple<P...>> {
 public:
  auto operator()(P... args) const {
    return call_compiled(state_, static_cast<std::tuple<P...>*>(nullptr), std::forward<P>(args)...);
  }
  /// With arguments left out that have defaults.
  template <class... A>
  requires(sizeof...(A) < sizeof...(P) && std::is_invocable_v<F&, A...>) auto operator()(
      A&&... args) const {
    return call_first(std::index_sequence_for<A...>(), std::forward<A>(args)...);
  }
  /// A member function of the object that a pointer points to.
  template <class O, class... A>
  requires(std::is_member_function_pointer_v<F> && sizeof...(A) < sizeof...(P) &&
           std::is_invocable_v<F&, O&, A...> && requires(O & o) { *o; }) auto
  operator()(O&& object, A&&... args) const {
    return (*this)(*object, std::forward<A>(args)...);
  }

 protected:
  std::shared_ptr<Compiled<F>> state_;

 private:
  template <size_t... I, class... A>
  auto call_first(std::index_sequence<I...>, A&&... args) const {
    using Params = std::tuple<P...>;
    using First = std::tuple<std::tuple_element_t<I, Params>...>;
    return call_compiled(state_, static_cast<First*>(nullptr),
                         static_cast<std::tuple_element_t<I, Params>&&>(std::forward<A>(args))...);
  }
};
template <class F>
class CallOperator<F, void> {
 public:
  template <class... A>
  auto operator()(A&&... args) const {
    return call_compiled(state_, static_cast<std::tuple<Generic<A>...>*>(nullptr),
                         std::forward<A>(args)...);
  }

 protected:
  std::shared_ptr<Compiled<F>> state_;

 private:
  // An opaque object that may be written stays so; all else is read.
  template <class A>
  using Generic = std::conditional_t<
      std::is_array_v<std::remove_reference_t<A>>, const char*,
      std::conditional_t<Opaque<std::remove_reference_t<A>>, A&, const std::remove_cvref_t<A>&>>;
};

/// Whether this thread records a body, or follows one: its tensors may have no data.
TENON_API bool is_recording();
/// Ends the segment, hands real tensors for the fakes in `tensors`, and suspends recording until
/// leave_disabled; returns what leave_disabled needs, null when nothing is recorded. An announced
/// break is none that callables which must be one graph forbid.
TENON_API void* enter_disabled(std::vector<Tensor>& tensors, std::string_view what,
                               std::source_location where, bool is_announced = false);
TENON_API void leave_disabled(void* token);
/// Suspends recording until leave_disabled, for code that gets no tensor of the body.
TENON_API void* pause_recording();
struct DisabledScope {
  void* token;
  ~DisabledScope() { leave_disabled(token); }
};

}  // namespace detail

}  // namespace tenon
