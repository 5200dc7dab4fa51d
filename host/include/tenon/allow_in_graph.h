// SPDX-License-Identifier: Apache-2.0
// allow_in_graph: a function of the program as one operation of captured graphs.
//
//     auto norm = tenon::compiler::allow_in_graph("app::norm", [](const tenon::Tensor& x, double eps) {
//       return x / (x.pow(2).mean() + eps).sqrt();
//     });
//     auto f = tenon::compile([&](const tenon::Tensor& x) { return norm(x, 1e-6) * 2; });
//
// The captured graph has one node, app::norm. What results look like is found by running the function
// on tensors without data; derivatives, and backends that get operations taken apart, see the
// operations inside. Elsewhere the function just runs. It may write what it makes itself, no
// argument. One that looks at data, as item() does, runs between two graphs; with fullgraph it is an error.
// One with an autograd::Function inside runs as it is where gradients are computed.
//
// Unsafe: nothing looks at what else the function reads or does. What it captures, tensors among it,
// is in compiled code what it was when that was compiled: give it as an argument instead. Its side
// effects happen when it is run for shapes and derivatives, too.
#pragma once

#include <tenon/compile.h>
#include <tenon/library.h>

#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace tenon {

namespace detail {

/// Named in the compiler's message.
template <class T>
struct allow_in_graph_takes_no_arguments_of_this_type;

/// How a schema writes a type.
template <class T>
constexpr const char* schema_type() {
  using U = std::remove_cvref_t<T>;
  if constexpr (std::is_same_v<U, Tensor>)
    return "Tensor";
  else if constexpr (std::is_same_v<U, std::optional<Tensor>>)
    return "Tensor?";
  else if constexpr (std::is_same_v<U, std::vector<Tensor>> || std::is_same_v<U, TensorList>)
    return "Tensor[]";
  else if constexpr (std::is_same_v<U, bool>)
    return "bool";
  else if constexpr (op_integer<U>)
    return "int";
  else if constexpr (std::is_same_v<U, SymInt>)
    return "SymInt";
  else if constexpr (op_real<U>)
    return "float";
  else if constexpr (std::is_same_v<U, Number>)
    return "Scalar";
  else if constexpr (std::is_same_v<U, std::string_view> || std::is_same_v<U, std::string>)
    return "str";
  else if constexpr (std::is_same_v<U, SymIntList>)
    return "SymInt[]";
  else if constexpr (std::is_same_v<U, std::vector<int64_t>>)
    return "int[]";
  else if constexpr (std::is_same_v<U, std::vector<double>>)
    return "float[]";
  else
    static_assert(sizeof(allow_in_graph_takes_no_arguments_of_this_type<U>) > 0);
}

/// The result of an added op: a tensor or a tuple of tensors.
template <class R>
constexpr bool is_op_result = std::is_same_v<R, Tensor>;
template <class... T>
constexpr bool is_op_result<std::tuple<T...>> = (std::is_same_v<T, Tensor> && ...);

template <class R>
struct ResultSchema {
  static_assert(
      is_op_result<R>,
      "allow_in_graph: the function returns a type that is neither a Tensor nor a tuple of "
      "Tensors, such as a std::vector<Tensor>; return a std::tuple with a Tensor for each "
      "result");
  static std::string text() { return "Tensor"; }
};
template <class... T>
struct ResultSchema<std::tuple<T...>> {
  static_assert(is_op_result<std::tuple<T...>>,
                "allow_in_graph: the function returns a tuple with elements that are no Tensors; "
                "return a std::tuple with a Tensor for each result");
  static std::string text() {
    std::string out;
    ((out += std::string(out.empty() ? "" : ", ") + schema_type<T>()), ...);
    return "(" + out + ")";
  }
};

template <class... P>
std::string schema_of_parameters(std::tuple<P...>*) {
  std::string out;
  int n = 0;
  ((out += std::string(n ? ", " : "") + schema_type<P>() + " a" + std::to_string(n), ++n), ...);
  return out;
}

/// Adds the op; throws UserError for a name that is taken or not "ns::name".
TENON_API void add_allowed_op(const std::string& name, const std::string& arguments,
                              const std::string& results, ReturningFn fn);

}  // namespace detail

namespace compiler {

/// A function that captured graphs hold as one node; called like the original. Copies are the same.
template <class R, class Params>
class AllowedFunction;
template <class R, class... P>
class AllowedFunction<R, std::tuple<P...>> {
 public:
  explicit AllowedFunction(std::string name) : op_(std::make_shared<const Held>(std::move(name))) {}
  R operator()(P... args) const { return op_->call(std::forward<P>(args)...); }
  /// "ns::name", as graphs show it.
  const std::string& name() const { return op_->name; }

 private:
  struct Held {
    explicit Held(std::string n) : name(std::move(n)), call(name.c_str()) {}
    Held(const Held&) = delete;
    const std::string name;
    Op<R(P...)> call;
  };
  std::shared_ptr<const Held> op_;
};

/// Makes `fn`, a function or lambda with parameters of known types, an operation called "ns::name" for
/// the rest of the process. It takes tensors, lists of them, numbers, bools and texts (std::string, or a
/// view of one), and gives a
/// tensor or a tuple of up to eight tensors, no list of them: their number is a part of the graph.
/// Results share no memory with arguments. Throws UserError for a name that is taken or of another
/// form. Any thread; `fn` may be called on any threads at once.
template <class F>
auto allow_in_graph(const std::string& name, F fn) {
  using Fn = detail::OpFunction<F>;
  using Params = typename Fn::Params;
  using R = typename Fn::Result;
  detail::add_allowed_op(name, detail::schema_of_parameters(static_cast<Params*>(nullptr)),
                         detail::ResultSchema<R>::text(), detail::returning(std::move(fn)));
  return AllowedFunction<R, Params>(name);
}

}  // namespace compiler

using compiler::allow_in_graph;

}  // namespace tenon
