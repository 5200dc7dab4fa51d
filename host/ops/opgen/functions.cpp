// From schemas to C++ functions without ambiguous calls.
//
// Problem. Overloads that Python tells apart by keywords or by the kind of a value can be ambiguous
// in C++: `all(x)` fits `all(self)` and `all(self, dims = {})`.
// Model. Two overloads clash at n arguments when both can be called with n and no position among
// them is decisive. A position is decisive when its types differ, unless both are constructed from
// a number (SymInt and Number: C++ prefers neither) or one is mistaken for the other.
//
// Method. Each clash is resolved by the first rule that fits, until none is left:
//
//   1. A keyword-only parameter stands at the place of the other's positional one:
//      the keyword overload moves to the name `<op>_<overload>`.
//   2. The longer overload loses the default that makes it callable with n arguments.
//   3. Where it has no more than n, it moves to `<op>_<overload>`.
//
// Besides, C++ turns a number into a bool before it constructs a list from it, so that
// `std(x, 0)` would mean `unbiased = false`: a bool beside a sibling's number or list at the same
// place takes nothing but a bool.
// Cost. Overloads of one name squared times parameters squared; a name has about twenty at most.
#include "ops/opgen/functions.h"

#include "ops/opgen/cpp_types.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

namespace tenon::opgen {

namespace {

// Members of Tensor that are written by hand.
constexpr std::string_view reserved_methods[] = {
    "defined",       "dtype",          "device",     "dim",           "sizes",
    "strides",       "size",           "stride",     "numel",         "storage_offset",
    "requires_grad", "requires_grad_", "is_fake",    "is_contiguous", "version",
    "is_same",       "data_ptr",       "to_vector",  "data",          "item",
    "head",          "adopt",          "release",    "backward",      "grad",
    "set_grad",      "is_leaf",        "retain_grad"};

bool is_public(const Schema& schema) {
  return schema.ns != "sym" && schema.ns != "tenon" && !schema.name.starts_with("__");
}

bool is_out_arg(const SchemaArg& arg) { return arg.kwarg_only && arg.mutated(); }

// False when an argument has no C++ form.
bool add_params(Function& f) {
  for (bool outs : {true, false}) {
    for (size_t i = 0; i < f.schema.args.size(); ++i) {
      const SchemaArg& arg = f.schema.args[i];
      if (is_out_arg(arg) != outs) continue;
      if (arg.type.base == BaseType::generator) {
        if (!arg.has_default()) return false;
        continue;
      }
      Param param{param_type(arg.type), identifier(arg.name), "", i, arg.kwarg_only};
      if (param.type.empty()) return false;
      if (arg.has_default())
        param.default_text = default_text(arg);
      else
        f.required = f.params.size() + 1;
      f.params.push_back(std::move(param));
    }
  }
  return true;
}

// "ValuesIndices" for values and indices, "HistBinEdgesList" where the second is a list; empty where
// one has no name.
std::string named_result(const Function& f) {
  std::string all;
  for (size_t i = 0; i < f.result_types.size(); ++i) {
    const std::string& name = f.schema.returns[i].name;
    if (name.empty()) return "";
    bool starts_word = true;
    for (char c : name) {
      if (c != '_')
        all += starts_word ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
      starts_word = c == '_';
    }
    if (f.result_types[i] != "Tensor") all += "List";
  }
  return "results::" + all;
}

bool add_result(Function& f) {
  std::string list;
  for (const SchemaReturn& result : f.schema.returns) {
    std::string type = result_type(result.type);
    if (type.empty()) return false;
    list += (list.empty() ? "" : ", ") + type;
    f.result_types.push_back(type);
  }
  size_t n = f.schema.returns.size();
  f.result = n == 0 ? "void" : n == 1 ? list : "std::tuple<" + list + ">";
  bool is_out = std::any_of(f.schema.args.begin(), f.schema.args.end(), is_out_arg);
  if (std::string named = named_result(f); n > 1 && !named.empty() && !is_out)
    f.tuple = std::exchange(f.result, named);
  return true;
}

// Names that PyTorch gives functions only. A new one leaves class Tensor alone, and with it all that
// includes tensor.h.
bool is_function_only(std::string_view name) {
  for (std::string_view start : {"_", "fft_", "linalg_", "special_"})
    if (name.starts_with(start)) return true;
  return name.ends_with("_backward");
}

bool fits_method(const Function& f) {
  if (!f.space().empty() || f.params.empty() || f.params[0].arg != 0) return false;
  if (is_function_only(f.schema.name)) return false;
  const SchemaArg& first = f.schema.args[0];
  return first.name == "self" && first.type == SchemaType{} &&
         std::find(std::begin(reserved_methods), std::end(reserved_methods), f.schema.name) ==
             std::end(reserved_methods);
}

std::optional<Function> make_function(const Schema& schema) {
  Function f;
  f.schema = schema;
  if (!is_public(schema) || !add_params(f) || !add_result(f)) return std::nullopt;
  bool is_out = std::any_of(schema.args.begin(), schema.args.end(), is_out_arg);
  f.schema_required = f.required;
  f.name = is_out ? schema.name + "_out" : identifier(schema.name);
  f.is_method = fits_method(f);
  return f;
}

// C++ takes a bool for a number rather than for an optional<bool>, {0, 0} for a string_view, and
// {0, 1} for a list of doubles as well as of integers.
bool is_mistaken(std::string_view given, std::string_view taken) {
  if (given == "std::optional<bool>") return taken == "int64_t" || taken == "double";
  bool is_list = taken == "IntList" || taken == "SymIntList";
  if (given == "DoubleList") return is_list;
  return given == "std::string_view" && is_list;
}

bool is_decisive(const Param& a, const Param& b) {
  return a.type != b.type && !is_mistaken(a.type, b.type) && !is_mistaken(b.type, a.type) &&
         !(constructs_from_number(a.type) && constructs_from_number(b.type));
}

// The smallest number of arguments at which both can be called and neither is preferred.
std::optional<size_t> find_clash(const Function& a, const Function& b) {
  size_t from = std::max(a.required, b.required), to = std::min(a.params.size(), b.params.size());
  for (size_t i = 0; i < to; ++i)
    if (is_decisive(a.params[i], b.params[i])) to = i;
  return from <= to ? std::optional(from) : std::nullopt;
}

void move_to_overload_name(Function& f) {
  f.name += "_" + f.schema.overload;
  f.required = f.schema_required;
}

// The overload that gives way: the longer one, the one with more keywords, the named one.
Function& weaker(Function& a, Function& b) {
  auto weight = [](const Function& f) {
    auto keywords = std::count_if(f.params.begin(), f.params.end(),
                                  [](const Param& p) { return p.kwarg_only; });
    return std::tuple(f.params.size(), keywords, std::string_view(f.schema.overload));
  };
  return weight(a) > weight(b) ? a : b;
}

void resolve(Function& a, Function& b, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    if (a.params[i].kwarg_only == b.params[i].kwarg_only) continue;
    Function& keyword = a.params[i].kwarg_only ? a : b;
    if (!keyword.schema.overload.empty()) return move_to_overload_name(keyword);
  }
  Function& loser = weaker(a, b);
  if (loser.params.size() > n)
    loser.required = n + 1;
  else
    move_to_overload_name(loser);
}

void make_bools_exact(Function& f, const Function& sibling) {
  size_t n = std::min(f.params.size(), sibling.params.size());
  for (size_t i = 0; i < n; ++i) {
    if (f.params[i].type == "bool" && takes_numbers(sibling.params[i].type))
      f.params[i].exact = true;
    if (is_decisive(f.params[i], sibling.params[i])) return;
  }
}

using Groups = std::map<std::string, std::vector<Function*>>;

Groups group_by_name(std::vector<Function>& functions) {
  Groups groups;
  for (Function& f : functions) groups[f.space() + "::" + f.name].push_back(&f);
  return groups;
}

// Visits each ordered pair of overloads with one name.
template <class Visit>
void for_each_pair(Groups& groups, Visit&& visit) {
  for (auto& [name, overloads] : groups)
    for (Function* a : overloads)
      for (Function* b : overloads)
        if (a != b) visit(*a, *b);
}

// Resolves clashes once over; true when there was one.
bool resolve_clashes(std::vector<Function>& functions) {
  Groups groups = group_by_name(functions);
  bool any = false;
  for_each_pair(groups, [&](Function& a, Function& b) {
    if (a.name != b.name) return;  // one of them has just moved
    if (std::optional<size_t> n = find_clash(a, b)) {
      resolve(a, b, *n);
      any = true;
    }
  });
  return any;
}

}  // namespace

std::vector<Function> make_functions(const std::vector<Schema>& schemas) {
  std::vector<Function> functions;
  for (const Schema& schema : schemas)
    if (std::optional<Function> f = make_function(schema)) functions.push_back(std::move(*f));
  while (resolve_clashes(functions)) {
  }
  Groups groups = group_by_name(functions);
  for_each_pair(groups, make_bools_exact);
  return functions;
}

}  // namespace tenon::opgen
