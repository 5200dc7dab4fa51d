// Arguments made impossible: by kind of argument, what it becomes.
#include "argument_changes.h"

#include "ops/kernel_loops.h"

#include <tenon/ops.h>

#include <cmath>

namespace tenon::testing {

std::vector<Tensor> list_in(const Value& v) {
  if (v.tag != Tag::tensors) return {};
  return {v.as<Tensor>(), v.as<Tensor>() + v.count};
}

namespace {

constexpr int64_t huge = int64_t{1} << 40;
constexpr int64_t largest = (int64_t{1} << 62) - 1;

// ---- tensors

Tensor as_float(const Tensor& t) { return t.to(Dtype::f32); }

/// What a tensor can become, by name; undefined where a change does not apply to it.
const std::pair<const char*, Tensor (*)(const Tensor&)> tensor_changes[] = {
    {"one more dimension", [](const Tensor& t) { return t.unsqueeze(0); }},
    {"one dimension", [](const Tensor& t) { return t.dim() > 1 ? t.reshape({-1}) : Tensor(); }},
    {"no dimension",
     [](const Tensor& t) {
       return t.dim() && numel_of(t) ? t.reshape({-1}).select(0, 0).clone() : Tensor();
     }},
    {"first size less by one",
     [](const Tensor& t) {
       bool fits = t.dim() && t.size(0).word() > 1;
       return fits ? t.narrow(0, 0, t.size(0).word() - 1).clone() : Tensor();
     }},
    {"last size less by one",
     [](const Tensor& t) {
       bool fits = t.dim() > 1 && t.size(-1).word() > 1;
       return fits ? t.narrow(-1, 0, t.size(-1).word() - 1).clone() : Tensor();
     }},
    {"first size twice",
     [](const Tensor& t) {
       return t.dim() ? cat({t, t}, 0) : Tensor();
     }},
    {"last size twice",
     [](const Tensor& t) {
       return t.dim() > 1 ? cat({t, t}, -1) : Tensor();
     }},
    {"first size zero",
     [](const Tensor& t) { return t.dim() ? t.narrow(0, 0, 0).clone() : Tensor(); }},
    {"last size zero",
     [](const Tensor& t) { return t.dim() > 1 ? t.narrow(-1, 0, 0).clone() : Tensor(); }},
    {"as i64", [](const Tensor& t) { return t.to(Dtype::i64); }},
    {"as bool", [](const Tensor& t) { return t.to(Dtype::bool_); }},
    {"as f32", as_float},
    {"as f64", [](const Tensor& t) { return t.to(Dtype::f64); }},
};

Tensor changed(const Tensor& t, size_t k) {
  Tensor out = tensor_changes[k].second(t);
  bool is_same = out.defined() && out.dtype() == t.dtype() && to_text(out) == to_text(t);
  return is_same ? Tensor() : out;
}

void add_tensor_changes(std::vector<Change>& out, size_t arg) {
  for (size_t k = 0; k < std::size(tensor_changes); ++k)
    out.push_back({tensor_changes[k].first, [arg, k](CallValues& call) {
                     Value& v = call.values[arg];
                     if (v.tag != Tag::tensor || is_wrapped_number(*v.as<Tensor>())) return;
                     Tensor t = changed(*v.as<Tensor>(), k);
                     if (t.defined()) v = Value::of(call.tensors.emplace_back(std::move(t)));
                   }});
}

// ---- lists of tensors

void set_list(CallValues& call, size_t arg, std::vector<Tensor> list) {
  call.values[arg] = Value::of(TensorList(call.tensor_lists.emplace_back(std::move(list))));
}

void add_tensor_list_changes(std::vector<Change>& out, size_t arg) {
  out.push_back({"no tensor", [arg](CallValues& call) { set_list(call, arg, {}); }});
  out.push_back({"last tensor twice", [arg](CallValues& call) {
                   std::vector<Tensor> list = list_in(call.values[arg]);
                   if (list.empty()) return;
                   list.push_back(list.back());
                   set_list(call, arg, std::move(list));
                 }});
  out.push_back({"without the last tensor", [arg](CallValues& call) {
                   std::vector<Tensor> list = list_in(call.values[arg]);
                   if (!list.empty()) list.pop_back();
                   set_list(call, arg, std::move(list));
                 }});
  for (size_t k = 0; k < std::size(tensor_changes); ++k)
    out.push_back({message("last tensor: {}", tensor_changes[k].first), [arg, k](CallValues& call) {
                     std::vector<Tensor> list = list_in(call.values[arg]);
                     if (list.empty() || !list.back().defined()) return;
                     Tensor t = changed(list.back(), k);
                     if (!t.defined()) return;
                     list.back() = std::move(t);
                     set_list(call, arg, std::move(list));
                   }});
}

// ---- numbers and lists of them

constexpr int64_t integers[] = {-1, 0,   1,    2,     3,       5,        7,  64,
                                -7, -64, huge, -huge, largest, -largest, -2, int64_t{1} << 31};

void add_integer_changes(std::vector<Change>& out, size_t arg) {
  for (int64_t v : integers)
    out.push_back({message("{}", v),
                   [arg, v](CallValues& call) { call.values[arg] = Value::of(SymInt(v)); }});
}

void set_ints(CallValues& call, size_t arg, std::vector<int64_t> list) {
  call.values[arg] = Value::of(IntList(call.ints.emplace_back(std::move(list))));
}

std::vector<int64_t> ints_in(const Value& v) {
  if (v.tag != Tag::ints) return {};
  return {v.as<int64_t>(), v.as<int64_t>() + v.count};
}

void add_int_list_changes(std::vector<Change>& out, size_t arg) {
  out.push_back({"[]", [arg](CallValues& call) { set_ints(call, arg, {}); }});
  out.push_back({"one number more", [arg](CallValues& call) {
                   std::vector<int64_t> list = ints_in(call.values[arg]);
                   list.push_back(list.empty() ? 1 : list.back());
                   set_ints(call, arg, std::move(list));
                 }});
  out.push_back({"one number less", [arg](CallValues& call) {
                   std::vector<int64_t> list = ints_in(call.values[arg]);
                   if (!list.empty()) list.pop_back();
                   set_ints(call, arg, std::move(list));
                 }});
  for (bool last : {false, true})
    for (int64_t v : integers)
      out.push_back(
          {message("{} number {}", last ? "last" : "first", v), [arg, v, last](CallValues& call) {
             std::vector<int64_t> list = ints_in(call.values[arg]);
             if (list.empty() || (last && list.size() == 1)) return;
             (last ? list.back() : list.front()) = v;
             set_ints(call, arg, std::move(list));
           }});
}

void add_number_changes(std::vector<Change>& out, size_t arg) {
  for (double v : {-1.0, 0.0, 0.5, 2.0, 1e30, -1e30, std::nan(""), HUGE_VAL})
    out.push_back(
        {message("{}", v), [arg, v](CallValues& call) { call.values[arg] = Value::of(v); }});
}

void add_dtype_changes(std::vector<Change>& out, size_t arg) {
  for (Dtype v : {Dtype::bool_, Dtype::i64, Dtype::u8, Dtype::f32, Dtype::f64})
    out.push_back(
        {std::string(name_of(v)), [arg, v](CallValues& call) { call.values[arg] = Value::of(v); }});
}

}  // namespace

void add_changes(std::vector<Change>& out, const SchemaArg& schema, size_t arg) {
  const SchemaType& type = schema.type;
  if (type.optional)
    out.push_back({"none", [arg](CallValues& call) { call.values[arg] = Value{}; }});
  switch (type.base) {
    case BaseType::tensor:
      return type.is_list ? add_tensor_list_changes(out, arg) : add_tensor_changes(out, arg);
    case BaseType::integer:
    case BaseType::sym_int:
      return type.is_list ? add_int_list_changes(out, arg) : add_integer_changes(out, arg);
    case BaseType::scalar:
      if (type.is_list) return;
      add_number_changes(out, arg);
      return add_integer_changes(out, arg);
    case BaseType::floating:
    case BaseType::sym_float:
      if (!type.is_list) add_number_changes(out, arg);
      return;
    case BaseType::boolean:
      if (type.is_list) return;
      for (bool v : {false, true})
        out.push_back({v ? "true" : "false",
                       [arg, v](CallValues& call) { call.values[arg] = Value::of(v); }});
      return;
    case BaseType::scalar_type:
      return add_dtype_changes(out, arg);
    case BaseType::string:
      out.push_back(
          {"'nonsense'", [arg](CallValues& call) { call.values[arg] = Value::of("nonsense"); }});
      return;
    default:
      return;
  }
}

}  // namespace tenon::testing
