// Arguments of a graph's nodes: constants as numbers, sizes as indices.
#pragma once

#include "expressions.h"

#include <map>

namespace loopir {

// Each throws `declined` for what is not a constant of its kind.
int64_t int_arg(const tn_arg& a);
std::vector<int64_t> int_list(const tn_arg& a);
/// One number stands for n.
std::vector<int64_t> int_list(const tn_arg& a, size_t n);
double number_arg(const tn_arg& a);
/// A dimension, negative ones counted from the end.
inline size_t dimension(int64_t d, size_t ndim) {
  return static_cast<size_t>(d < 0 ? d + static_cast<int64_t>(ndim) : d);
}

/// The symbolic expressions of a graph as indices.
class Arguments {
 public:
  Arguments(const tenon::plugin::graph& graph, Indices& x) : graph_(graph), x_(x) {}

  /// The graph's symbols are those of the program, in order. Throws `declined` for one that no
  /// input shows: its size is known at run time only.
  void import_symbols();

  Id index_of(const tn_dim& d);
  Ids indices_of(std::span<const tn_dim> dims);
  /// An int, a symbolic int or a value that is one.
  Id index_arg(const tn_arg& a);
  Ids index_list(const tn_arg& a);

 private:
  tenon::plugin::graph graph_;
  Indices& x_;
  std::map<Id, Id> imported_;  // by expression of the graph
};

}  // namespace loopir
