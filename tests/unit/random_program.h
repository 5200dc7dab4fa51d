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

/// `t` two times, along a new first dimension of stride 0.
inline Tensor stacked_twice(const Tensor& t) {
  std::vector<int64_t> sizes(static_cast<size_t>(t.dim()) + 1, -1);
  sizes[0] = 2;
  return t.unsqueeze(0).expand(sizes);
}

/// A view of one of seven kinds; those of the last kind have up to `most_dims` dimensions.
inline Tensor view_of(const Tensor& t, uint32_t kind, uint32_t n, int64_t most_dims) {
  int64_t d = pick_dim(t, n);
  if (t.dim() == 0) return kind % 2 ? t.unsqueeze(0) : t.detach();
  switch (kind) {
    case 0:
      return t.transpose(0, d);
    case 1:
      return t.narrow(d, 0, (t.size(d) + 1) / 2);
    case 2:
      return t.size(d) > 0 ? t.select(d, -1) : t;
    case 3:
      return t.unsqueeze(d);
    case 4:
      return t.reshape({-1});
    case 5:
      return slice(t, d, 0, std::nullopt, 2);
    default:
      return t.dim() < most_dims ? stacked_twice(t) : t;
  }
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
