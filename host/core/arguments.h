// The walk over the arguments of a call: what they name, and the numbers in them.
//
// Arguments name values of a graph (tags ref and refs) in nodes, tensors (tags tensor and tensors)
// in calls. A list may have holes, which stay what they are.
#pragma once

#include "core/sym/sym_int.h"
#include "core/value.h"

#include <span>
#include <type_traits>
#include <vector>

namespace tenon {

/// Calls f(ValueId) for each value of a graph that the argument names.
template <class F>
void for_each_value(const Value& arg, F&& f) {
  if (arg.tag == Tag::ref) f(static_cast<ValueId>(arg.payload));
  if (arg.tag != Tag::refs) return;
  for (uint32_t i = 0; i < arg.count; ++i)
    if (arg.as<ValueId>()[i] != no_value) f(arg.as<ValueId>()[i]);
}

/// Calls f(Number) for each symbolic number in the argument.
template <class F>
void for_each_symbolic(const Value& arg, F&& f) {
  if (arg.is_number() && arg.number().is_symbolic()) f(arg.number());
  if (arg.tag != Tag::ints) return;
  for (uint32_t i = 0; i < arg.count; ++i)
    if (arg.as<SymInt>()[i].is_symbolic()) f(Number(arg.as<SymInt>()[i]));
}

/// What changed arguments point to. They hold as long as this does.
struct ArgumentLists {
  std::vector<std::vector<Tensor>> tensors;
  std::vector<std::vector<ValueId>> values;
  std::vector<std::vector<SymInt>> numbers;
};

/// For arguments whose numbers stay what they are.
struct KeepNumbers {};
inline constexpr KeepNumbers keep_numbers;

namespace detail {

inline Value list_of_values(const std::vector<ValueId>& ids) {
  return Value::pointer(Tag::refs, ids.data(), ids.size());
}

template <class OnTensor>
void map_tensor(Value& arg, ArgumentLists& lists, OnTensor& on_tensor) {
  const Tensor& given = *arg.as<Tensor>();
  if constexpr (std::is_same_v<std::invoke_result_t<OnTensor&, const Tensor&>, ValueId>) {
    arg = Value::ref(given.defined() ? on_tensor(given) : no_value);
  } else {
    Tensor other = given.defined() ? on_tensor(given) : Tensor();
    if (other.head() == given.head()) return;
    arg = Value::of(lists.tensors.emplace_back(1, std::move(other))[0]);
  }
}

template <class OnTensor>
void map_tensor_list(Value& arg, ArgumentLists& lists, OnTensor& on_tensor) {
  std::span<const Tensor> given(arg.as<Tensor>(), arg.count);
  if constexpr (std::is_same_v<std::invoke_result_t<OnTensor&, const Tensor&>, ValueId>) {
    std::vector<ValueId> list;
    for (const Tensor& t : given) list.push_back(t.defined() ? on_tensor(t) : no_value);
    arg = list_of_values(lists.values.emplace_back(std::move(list)));
  } else {
    std::vector<Tensor> list;
    for (const Tensor& t : given) list.push_back(t.defined() ? on_tensor(t) : Tensor());
    arg = Value::of(TensorList(lists.tensors.emplace_back(std::move(list))));
  }
}

template <class OnValue>
void map_value_list(Value& arg, ArgumentLists& lists, OnValue& on_value) {
  std::span<const ValueId> ids(arg.as<ValueId>(), arg.count);
  if constexpr (std::is_same_v<std::invoke_result_t<OnValue&, ValueId>, ValueId>) {
    std::vector<ValueId> list(ids.begin(), ids.end());
    for (ValueId& id : list) id = id == no_value ? no_value : on_value(id);
    arg = list_of_values(lists.values.emplace_back(std::move(list)));
  } else {
    std::vector<Tensor> list(ids.size());
    for (size_t i = 0; i < ids.size(); ++i)
      if (Value v = ids[i] == no_value ? Value{} : on_value(ids[i]); v.tag == Tag::tensor)
        list[i] = *v.template as<Tensor>();
    arg = Value::of(TensorList(lists.tensors.emplace_back(std::move(list))));
  }
}

template <class OnNumber>
void map_numbers(Value& arg, ArgumentLists& lists, OnNumber& on_number) {
  if (arg.tag != Tag::ints) return arg = Value::of(Number(on_number(arg.number()))), void();
  auto& list = lists.numbers.emplace_back(arg.as<SymInt>(), arg.as<SymInt>() + arg.count);
  for (SymInt& n : list)
    if (n.is_symbolic()) n = Number(on_number(Number(n))).sym_int();
  arg = Value::of(SymIntList(List<SymInt>(list)));
}

}  // namespace detail

/// Puts others in the place of what the arguments name and of their symbolic numbers. `on_value` is
/// one of
///
///     ValueId(ValueId)         another value of a graph
///     Value(ValueId)           what a call takes: a tensor that outlives it, a number, or none
///     Tensor(const Tensor&)    another tensor
///     ValueId(const Tensor&)   the value of a graph for it
///
/// and `on_number` Number(Number), or keep_numbers.
template <class OnValue, class OnNumber>
void map_arguments(std::span<Value> args, ArgumentLists& lists, OnValue&& on_value,
                   OnNumber&& on_number) {
  for (Value& arg : args) {
    if constexpr (std::is_invocable_v<OnValue&, const Tensor&>) {
      if (arg.tag == Tag::tensor) detail::map_tensor(arg, lists, on_value);
      if (arg.tag == Tag::tensors) detail::map_tensor_list(arg, lists, on_value);
    } else if (arg.tag == Tag::ref) {
      auto id = static_cast<ValueId>(arg.payload);
      if constexpr (std::is_same_v<std::invoke_result_t<OnValue&, ValueId>, ValueId>)
        arg = Value::ref(on_value(id));
      else
        arg = on_value(id);
      continue;
    } else if (arg.tag == Tag::refs) {
      detail::map_value_list(arg, lists, on_value);
      continue;
    }
    if constexpr (!std::is_same_v<std::remove_cvref_t<OnNumber>, KeepNumbers>)
      if (arg.is_symbolic()) detail::map_numbers(arg, lists, on_number);
  }
}

}  // namespace tenon
