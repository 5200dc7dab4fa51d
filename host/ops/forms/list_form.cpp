// Which op stands for one over lists, and how its arguments are those of the list's.
//
// An argument of the op takes that of the same name, else the one in its place if nothing else takes
// that, else its default: `_foreach_norm(self, ord, dtype)` calls
// `linalg_vector_norm(self, ord, dim=None, keepdim=False, dtype)`.
#include "ops/forms/list_form.h"

#include "core/error.h"

#include <algorithm>
#include <cmath>

namespace tenon {

namespace {

constexpr std::string_view list_prefix = "_foreach_";

/// Those that are not called like their list form, or whose overloads are called otherwise.
struct NamedOtherwise {
  std::string_view name, overload;  ///< less the prefix; an empty overload: of any
  std::string_view op;
};
constexpr NamedOtherwise named_otherwise[] = {
    {"maximum", "List", "maximum.default"},     {"maximum", "", "clamp_min.default"},
    {"maximum_", "List", "clamp_min_.Tensor"},  {"maximum_", "", "clamp_min_.default"},
    {"minimum", "List", "minimum.default"},     {"minimum", "", "clamp_max.default"},
    {"minimum_", "List", "clamp_max_.Tensor"},  {"minimum_", "", "clamp_max_.default"},
    {"norm", "", "linalg_vector_norm.default"}, {"pow", "List", "pow.Tensor_Tensor"},
    {"pow", "Scalar", "pow.Tensor_Scalar"},     {"pow", "ScalarList", "pow.Tensor_Scalar"},
    {"pow", "ScalarAndTensor", "pow.Scalar"},   {"pow_", "List", "pow_.Tensor"},
};

/// Of those that are: add.List is add.Tensor, add.ScalarList is add.Scalar; where there is no such
/// overload it is the default one.
const OpEntry& op_on_one(const OpEntry& op) {
  std::string_view name = std::string_view(op.schema.name).substr(list_prefix.size());
  std::string_view overload = op.schema.overload;
  for (const NamedOtherwise& row : named_otherwise)
    if (row.name == name && (row.overload.empty() || row.overload == overload))
      return entry_of(op_id(message("aten.{}", row.op)));
  std::string_view form = overload == "List"         ? "Tensor"
                          : overload == "ScalarList" ? "Scalar"
                          : overload.empty()         ? "default"
                                                     : overload;
  const OpEntry* found = find_op(message("aten.{}.{}", name, form));
  return found ? *found : entry_of(op_id(message("aten.{}.default", name)));
}

/// By argument of the op: which of the list form's, or -1.
std::vector<int> places_of(const OpEntry& op, const OpEntry& one) {
  std::vector<int> places;
  for (size_t j = 0; j < one.n_args; ++j) {
    int at = op.schema.find_arg(one.schema.args[j].name);
    bool is_free = j < op.n_args && one.schema.find_arg(op.schema.args[j].name) < 0;
    places.push_back(at < 0 && is_free ? static_cast<int>(j) : at);
  }
  return places;
}

// A list holds doubles; whole ones are integers for tensors of integers.
Value number_for(const Tensor& t, double number) {
  bool is_whole = !is_floating(t.dtype()) && !is_complex(t.dtype()) && number == std::trunc(number);
  return is_whole ? Value::of(static_cast<int64_t>(number)) : Value::of(number);
}

size_t length_of(const CallArgs& call) {
  std::optional<size_t> length;
  for (uint32_t i = 0; i < call.n_args; ++i) {
    const Value& v = call.args[i];
    if (v.tag != Tag::tensors && v.tag != Tag::floats && v.tag != Tag::ints) continue;
    require(!length || *length == v.count, "{}: lists have {} and {} entries; pass equally many",
            call.op->name, length.value_or(v.count), v.count);
    length = v.count;
  }
  require(length.value_or(0) > 0, "{}: expected at least one tensor", call.op->name);
  return *length;
}

Value entry_at(const Value& list, size_t i, const Tensor& first) {
  if (list.tag == Tag::tensors) return Value::of(list.as<Tensor>()[i]);
  if (list.tag == Tag::floats) return number_for(first, list.as<double>()[i]);
  if (list.tag == Tag::ints) return Value::of(list.as<SymInt>()[i]);
  return list;
}

const Tensor& first_tensor(const CallArgs& call, size_t i) {
  for (uint32_t a = 0; a < call.n_args; ++a)
    if (call.args[a].tag == Tag::tensors) return call.args[a].as<Tensor>()[i];
  fail_internal("an op over lists has a list of tensors");
}

}  // namespace

void run_on_each(const CallArgs& call) {
  const OpEntry& one = op_on_one(*call.op);
  std::vector<int> places = places_of(*call.op, one);
  std::vector<Tensor> out;
  for (size_t i = 0, n = length_of(call); i < n; ++i) {
    const Tensor& first = first_tensor(call, i);
    std::vector<Value> args;
    for (size_t j = 0; j < places.size(); ++j)
      args.push_back(places[j] < 0 ? default_of(one, j) : entry_at(call.args[places[j]], i, first));
    Value result;
    dispatch(one, args.data(), one.n_args, &result, 1);
    out.push_back(take<Tensor>(result));
  }
  if (call.n_results) call.results[0] = Value::own(std::move(out));
}

}  // namespace tenon
