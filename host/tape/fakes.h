// The tensors and sizes of a tape as fakes and symbols.
#pragma once

#include "core/sym/shape_env.h"
#include "graph/graph.h"
#include "tape/walk.h"

#include <map>
#include <vector>

namespace tenon::tape {

class TapeFakes {
 public:
  /// With `changed`, only those numbers are symbols; the others stay as they are.
  TapeFakes(const TapeWalk& walk, ShapeEnv& env, const std::vector<bool>* changed);

  /// By collected tensor.
  const std::vector<Tensor>& lifted() const { return lifted_; }
  const Tensor& lifted_of(const Tensor& real) const;
  const Tensor* find_lifted(const Tensor& real) const;  ///< null where it was not collected
  /// By packed place: what its hook is to give.
  const std::vector<Tensor>& unpacked() const { return unpacked_; }
  const autograd::StandIns& stand_ins() const { return stand_ins_; }
  /// By collected number; null for those that are no symbols.
  std::vector<const Expr*> symbols() const;
  /// Conditions that hold for every tape: that a size is not negative.
  bool always_holds(const Expr* condition) const;
  /// A contiguous fake that looks so.
  Tensor gradient(const autograd::GradMeta& meta) const;
  /// Binds the symbols that the graph uses to its inputs, with numbers as further inputs; the
  /// collected number of each. To be done right before the graph is compiled: what was found equal
  /// until then is written as one of the symbols.
  std::vector<uint32_t> bind_symbols(Graph& graph) const;

 private:
  const Expr* symbol(uint32_t n) const;
  SymInt number(uint32_t n) const { return numbers_[n]; }
  Tensor fake_like(const Tensor& real, uint32_t first_number) const;
  void make_numbers(const std::vector<bool>* changed);
  void make_stand_ins();

  const TapeWalk& walk_;
  ShapeEnv& env_;
  std::vector<SymInt> numbers_;
  std::map<uint32_t, SymFloat> floats_;  ///< those of the numbers that are
  std::vector<Tensor> lifted_, unpacked_;
  autograd::StandIns stand_ins_;
};

}  // namespace tenon::tape
