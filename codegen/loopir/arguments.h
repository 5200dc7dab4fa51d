// Arguments of a graph's nodes: constants as numbers, sizes as indices.
#pragma once

#include "expressions.h"
#include "reals.h"

#include <map>

namespace loopir {

// Each throws `declined` for what is not a constant of its kind.
int64_t int_arg(const tn_arg& a);
std::vector<int64_t> int_list(const tn_arg& a);
/// One number stands for n.
std::vector<int64_t> int_list(const tn_arg& a, size_t n);
double number_arg(const tn_arg& a);
/// A dimension, negative ones counted from the end. Throws `declined` for one that is not there,
/// also of a tensor without dimensions.
size_t dimension(int64_t d, size_t ndim);

/// The symbolic expressions of a graph as indices, and as real numbers of the program's table.
class Arguments {
 public:
  Arguments(const tenon::plugin::graph& graph, Expressions& x, std::vector<Real>& reals)
      : graph_(graph), x_(x), reals_(reals) {}

  /// The graph's symbols are those of the program, in order. Throws `declined` for one that no
  /// input shows: its size is known at run time only.
  void import_symbols();

  Id index_of(const tn_dim& d);
  Ids indices_of(std::span<const tn_dim> dims);
  /// Whether two sizes are equal in every call, as far as the host knows: by ranges and by what the
  /// graph takes for granted. They stay two indices: what the graph asserts may be tested late.
  bool are_known_equal(Id a, Id b) const;
  /// An int, a symbolic int or a value that is one.
  Id index_arg(const tn_arg& a);
  /// A position in a dimension, counted from its start; one that is negative counts from the end.
  Id position_arg(const tn_arg& a, Id size);
  /// The same for where a slice starts: within [0, size], 0 where the argument is none.
  Id start_arg(const tn_arg& a, Id size);
  Ids index_list(const tn_arg& a);

  /// Whether it is one number, constant or symbolic, of a kind that loops compute with.
  bool is_number(const tn_arg& a) const;
  /// What type promotion takes that number for.
  int32_t dtype_of_number(const tn_arg& a) const;
  /// That number as an element of the dtype holds it. Throws `declined` for what is none.
  Id number(const tn_arg& a, int32_t dtype);
  /// The place of a symbolic real number in the table, or nothing where the argument is none.
  std::optional<uint32_t> place_of_real(const tn_arg& a);
  /// A place in the table for a draw of `elements` random numbers.
  uint32_t place_of_draw(Id elements);

 private:
  Id imported(uint32_t expr, Id index);
  std::optional<uint32_t> expression_for(Id index) const;
  std::optional<uint32_t> real_expression(const tn_arg& a) const;
  uint32_t place_of(uint32_t expr);
  uint32_t place_of_made(const tenon::plugin::expression& e);
  Id narrow_number(const tn_arg& a, int32_t dtype);
  uint32_t add_real(Real r);

  tenon::plugin::graph graph_;
  Expressions& x_;
  std::vector<Real>& reals_;
  std::map<Id, Id> imported_;              // by expression of the graph
  std::map<Id, uint32_t> expressions_;     // the reverse
  std::map<uint32_t, uint32_t> reals_of_;  // the same: place in the table
};

}  // namespace loopir
