// Random programs over tensors: what tests of capture and of training have in common.
#pragma once

#include "core/error.h"

#include <tenon/tenon.h>

#include <random>
#include <string>
#include <vector>

namespace tenon {

using Pool = std::vector<Tensor>;

/// One statement: an operation, two operands by place in the pool (taken modulo its size), and a
/// number that chooses dimensions.
struct Statement {
  uint32_t op, a, b, n;
};
using Program = std::vector<Statement>;

inline int64_t pick_dim(const Tensor& t, uint32_t n) { return t.dim() ? n % t.dim() : 0; }

// Two operands of one shape: the second is cut to a number when it does not fit.
inline Tensor fitting(const Tensor& a, const Tensor& b) {
  bool same = a.dim() == b.dim();
  for (int64_t d = 0; same && d < a.dim(); ++d) same = static_cast<bool>(a.size(d) == b.size(d));
  return same ? b : b.mean();
}

/// Of `least` to `least + more - 1` statements.
inline Program random_program(std::mt19937& random, size_t least, size_t more) {
  Program program(least + random() % more);
  for (Statement& s : program)
    s = {static_cast<uint32_t>(random()), static_cast<uint32_t>(random()),
         static_cast<uint32_t>(random()), static_cast<uint32_t>(random())};
  return program;
}

inline std::string text_of(const Program& program) {
  std::string text;
  for (const Statement& s : program) text += message("{{{}, {}, {}, {}}}, ", s.op, s.a, s.b, s.n);
  return text;
}

}  // namespace tenon
