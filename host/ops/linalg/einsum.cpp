// einsum and tensordot: sums of products over named dimensions, by way of bmm.
//
// Problem: "bij,bjk->bik" and its like, with repeated letters (diagonals), an ellipsis and any
//   number of operands, must become few large matrix products.
// Method: every operand is permuted to one order of dimensions: those of the result, then those
//   that are summed, 1 where it lacks one. Operands are combined two at a time, from the left or as
//   `path` says. For a pair each dimension is of one of four kinds: in both and kept (batch), only
//   in the left, only in the right, in both and summed here; each kind is flattened and one bmm is
//   done. A dimension that only one operand has left is summed before the product.
// The order of steps is ATen's, so that results have its strides.
#include "ops/op.h"
#include "ops/shapes.h"

#include <tenon/ops/linalg.h>
#include <tenon/ops/pointwise.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/view.h>

#include <algorithm>
#include <map>
#include <string>

namespace tenon::ops {

namespace {

// ---- the equation

constexpr char ellipsis = '.';

struct Equation {
  std::vector<std::string> inputs;  // letters; '.' for the ellipsis
  std::string output;
};

std::string labels_of(std::string_view text, std::string_view equation) {
  std::string labels;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == ' ') continue;
    if (c == '.') {
      require(text.substr(i, 3) == "..." && labels.find(ellipsis) == labels.npos,
              "einsum: '.' may stand only in one '...' for each operand, found '{}'", equation);
      i += 2;
    } else {
      require((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'),
              "einsum: subscripts must be letters, found '{}' in '{}'", c, equation);
    }
    labels += c;
  }
  return labels;
}

// Without an arrow: the ellipsis, then what appears once, in order of the alphabet.
std::string implied_output(const std::vector<std::string>& inputs) {
  std::map<char, int> count;
  for (const std::string& in : inputs)
    for (char c : in) ++count[c];
  std::string output;
  for (auto [c, n] : count)
    if (c == ellipsis || n == 1) output += c;
  return output;
}

Equation parse_equation(std::string_view text) {
  size_t arrow = text.find("->");
  std::string_view left = text.substr(0, arrow);
  Equation equation;
  while (true) {
    size_t comma = left.find(',');
    equation.inputs.push_back(labels_of(left.substr(0, comma), text));
    if (comma == left.npos) break;
    left = left.substr(comma + 1);
  }
  equation.output = arrow == text.npos ? implied_output(equation.inputs)
                                       : labels_of(text.substr(arrow + 2), text);
  return equation;
}

// ---- one order of dimensions for all operands

struct Order {
  std::map<char, int64_t> position;  // of each label; of the ellipsis its first dimension
  int64_t n_ellipsis = 0, n_output = 0, n_all = 0;
};

Order order_of(const Equation& e, TensorList operands) {
  Order order;
  for (size_t i = 0; i < operands.size(); ++i) {
    bool dotted = e.inputs[i].find(ellipsis) != std::string::npos;
    int64_t n_labels = static_cast<int64_t>(e.inputs[i].size()) - dotted, rank = operands[i].dim();
    require(dotted ? rank >= n_labels : rank == n_labels,
            "einsum: operand {} has {} subscripts ('{}') for shape {}", i, n_labels, e.inputs[i],
            operands[i].sizes());
    if (dotted) order.n_ellipsis = std::max(order.n_ellipsis, rank - n_labels);
  }
  auto place = [&](char c) {
    order.position[c] = order.n_all;
    order.n_all += c == ellipsis ? order.n_ellipsis : 1;
  };
  for (char c : e.output) {
    require(!order.position.contains(c), "einsum: subscript '{}' appears twice in the output '{}'",
            c, e.output);
    place(c);
  }
  order.n_output = order.n_all;
  std::map<char, bool> used;
  for (const std::string& in : e.inputs)
    for (char c : in) used[c] = true;
  for (char c : e.output)
    require(used.contains(c) || c == ellipsis,
            "einsum: output subscript '{}' appears in no operand", c);
  for (auto [c, unused] : used)
    if (!order.position.contains(c)) place(c);
  return order;
}

Tensor ordered_operand(Tensor t, const std::string& labels, const Order& order) {
  std::vector<int64_t> permutation(static_cast<size_t>(order.n_all), -1);
  std::map<char, int64_t> seen;
  int64_t rank = t.dim(), next = 0;
  for (char c : labels) {
    if (c == ellipsis) {
      int64_t missing = order.n_ellipsis - (rank - static_cast<int64_t>(labels.size()) + 1);
      for (int64_t k = 0; k < missing; ++k) t = unsqueeze(t, next);
      for (int64_t k = 0; k < order.n_ellipsis; ++k)
        permutation[static_cast<size_t>(order.position.at(c) + k)] = next++;
    } else if (auto first = seen.find(c); first != seen.end()) {
      require(sizes_match(t.size(first->second), t.size(next)),
              "einsum: subscript '{}' is repeated over sizes {} and {}", c, t.size(first->second),
              t.size(next));
      t = movedim(diagonal(t, 0, first->second, next), -1, first->second);
    } else {
      seen[c] = next;
      permutation[static_cast<size_t>(order.position.at(c))] = next++;
    }
  }
  for (int64_t& p : permutation)
    if (p < 0) {
      t = unsqueeze(t, -1);
      p = next++;
    }
  return permute(t, permutation);
}

// ---- products of two

struct DimGroup {
  std::vector<int64_t> dims;
  SymInt size = 1;
  void add(int64_t dim, SymInt n) {
    dims.push_back(dim);
    size = size * n;
  }
};

std::vector<int64_t> joined(std::initializer_list<const std::vector<int64_t>*> parts) {
  std::vector<int64_t> all;
  for (const auto* part : parts) all.insert(all.end(), part->begin(), part->end());
  return all;
}

struct PairGroups {
  DimGroup batch, left, right;
  SymInt summed_size = 1;
};

// Sums what only one side has, and sorts the other dimensions into their kinds.
PairGroups group_dims(Tensor& left, Tensor& right, const std::vector<int64_t>& summed) {
  PairGroups g;
  for (int64_t d = 0; d < left.dim(); ++d) {
    bool in_left = !is_one(left.size(d)), in_right = !is_one(right.size(d));
    if (std::find(summed.begin(), summed.end(), d) != summed.end()) {
      if (in_left && in_right) {
        require(sizes_match(left.size(d), right.size(d)),
                "einsum: sizes {} and {} of a summed dimension differ", left.size(d),
                right.size(d));
        g.summed_size = g.summed_size * left.size(d);
      } else if (in_left) {
        left = sum(left, {d}, true);
      } else if (in_right) {
        right = sum(right, {d}, true);
      }
    } else if (in_left && in_right) {
      g.batch.add(d, left.size(d));
    } else if (in_left) {
      g.left.add(d, left.size(d));
    } else {
      g.right.add(d, right.size(d));
    }
  }
  return g;
}

// The product of two operands of equal rank, summed over `summed`, which stay with size 1.
Tensor multiply_pair(Tensor left, Tensor right, const std::vector<int64_t>& summed) {
  if (summed.empty()) return mul(left, right);
  PairGroups g = group_dims(left, right, summed);
  if (!g.left.dims.empty() && !g.right.dims.empty() && g.right.dims.back() < g.left.dims.front()) {
    std::swap(left, right);
    std::swap(g.left, g.right);
  }
  Dims sizes;
  for (int64_t d : g.batch.dims) sizes.push_back(left.size(d));
  for (int64_t d : g.left.dims) sizes.push_back(left.size(d));
  for (size_t i = 0; i < summed.size(); ++i) sizes.push_back(1);
  for (int64_t d : g.right.dims) sizes.push_back(right.size(d));
  std::vector<int64_t> order = joined({&g.batch.dims, &g.left.dims, &summed, &g.right.dims});
  Tensor a = reshape(permute(left, order), {g.batch.size, g.left.size, g.summed_size});
  Tensor b = reshape(permute(right, joined({&g.batch.dims, &summed, &g.right.dims, &g.left.dims})),
                     {g.batch.size, g.summed_size, g.right.size});
  std::vector<int64_t> back(order.size());
  for (size_t i = 0; i < order.size(); ++i)
    back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return permute(view(bmm(a, b), list_of(sizes)), back);
}

// ---- all operands

class Contraction {
 public:
  Contraction(std::vector<Tensor> operands, const Order& order)
      : operands_(std::move(operands)),
        order_(order),
        left_over_(static_cast<size_t>(order.n_all), 0) {
    for (size_t d = 0; d < left_over_.size(); ++d) count_dim(d);
  }

  Tensor run(OptIntList path) {
    if (path)
      require(path->size() == 2 * (operands_.size() - 1),
              "einsum: path must have {} entries, found {}", 2 * (operands_.size() - 1),
              path->size());
    size_t n = operands_.size();
    for (size_t step = 0; operands_.size() > 1; ++step) {
      if (path)
        combine((*path)[2 * step], (*path)[2 * step + 1], false);
      else
        combine(0, 1, true);
    }
    return finish(n > 1);
  }

 private:
  void count_dim(size_t d) {
    SymInt common = 1;
    for (const Tensor& t : operands_) {
      SymInt size = t.sizes()[d];
      if (is_one(size)) continue;
      require(is_one(common) || sizes_match(common, size),
              "einsum: operands have sizes {} and {} for one subscript", common, size);
      common = size;
      ++left_over_[d];
    }
  }

  void combine(int64_t i, int64_t j, bool to_front) {
    auto n = static_cast<int64_t>(operands_.size());
    require(i >= 0 && i < n && j >= 0 && j < n && i != j,
            "einsum: path names operands {} and {} of {}", i, j, n);
    Tensor a = operands_[static_cast<size_t>(i)], b = operands_[static_cast<size_t>(j)];
    operands_.erase(operands_.begin() + std::max(i, j));
    operands_.erase(operands_.begin() + std::min(i, j));
    std::vector<int64_t> both, only_a, only_b;
    for (int64_t d = order_.n_output; d < order_.n_all; ++d) {
      int& left = left_over_[static_cast<size_t>(d)];
      bool in_a = !is_one(a.size(d)), in_b = !is_one(b.size(d));
      if (in_a && in_b) {
        if (--left == 1) both.push_back(d), left = 0;
      } else if (left == 1 && (in_a || in_b)) {
        (in_a ? only_a : only_b).push_back(d);
        left = 0;
      }
    }
    if (!only_a.empty()) a = sum(a, only_a, true);
    if (!only_b.empty()) b = sum(b, only_b, true);
    Tensor result = multiply_pair(std::move(a), std::move(b), both);
    operands_.insert(to_front ? operands_.begin() : operands_.end(), std::move(result));
  }

  Tensor finish(bool summed) const {
    const Tensor& t = operands_[0];
    if (order_.n_all == order_.n_output) return t;
    if (summed)
      return view(t, List<SymInt>(t.sizes().data(), static_cast<size_t>(order_.n_output)));
    std::vector<int64_t> dims;
    for (int64_t d = order_.n_output; d < order_.n_all; ++d) dims.push_back(d);
    return sum(t, dims);
  }

  std::vector<Tensor> operands_;
  const Order& order_;
  std::vector<int> left_over_;  // by dimension: operands that still have it
};

Tensor einsum_decomp(std::string_view text, TensorList operands, OptIntList path) {
  require(!operands.empty(), "einsum: at least one operand is expected");
  Equation equation = parse_equation(text);
  require(equation.inputs.size() == operands.size(), "einsum: '{}' names {} operands, found {}",
          text, equation.inputs.size(), operands.size());
  Order order = order_of(equation, operands);
  std::vector<Tensor> ordered;
  for (size_t i = 0; i < operands.size(); ++i)
    ordered.push_back(ordered_operand(operands[i], equation.inputs[i], order));
  return Contraction(std::move(ordered), order).run(path);
}

// ---- tensordot

std::vector<int64_t> other_dims(const Tensor& t, const std::vector<int64_t>& taken) {
  std::vector<int64_t> rest;
  for (int64_t d = 0; d < t.dim(); ++d)
    if (std::find(taken.begin(), taken.end(), d) == taken.end()) rest.push_back(d);
  return rest;
}

Tensor tensordot_decomp(const Tensor& self, const Tensor& other, IntList dims_self,
                        IntList dims_other) {
  require(dims_self.size() == dims_other.size(),
          "tensordot: dims_self has {} entries, dims_other {}", dims_self.size(),
          dims_other.size());
  Tensor a = self, b = other;
  std::vector<int64_t> left, right;
  SymInt summed = 1;
  for (size_t i = 0; i < dims_self.size(); ++i) {
    left.push_back(wrap_dim(dims_self[i], self.dim()));
    right.push_back(wrap_dim(dims_other[i], other.dim()));
    SymInt x = a.size(left.back()), y = b.size(right.back());
    if (is_one(y))
      a = is_one(x) ? a : sum(a, {left.back()}, true, a.dtype());
    else if (is_one(x))
      b = sum(b, {right.back()}, true, b.dtype());
    else {
      require(sizes_match(x, y), "tensordot: contracted sizes {} and {} differ (shapes {} and {})",
              x, y, self.sizes(), other.sizes());
      summed = summed * x;
    }
  }
  std::vector<int64_t> kept_a = other_dims(a, left), kept_b = other_dims(b, right);
  Dims sizes;
  SymInt rows = 1, columns = 1;
  for (int64_t d : kept_a) sizes.push_back(a.size(d)), rows = rows * a.size(d);
  for (int64_t d : kept_b) sizes.push_back(b.size(d)), columns = columns * b.size(d);
  Tensor x = reshape(permute(a, joined({&kept_a, &left})), {rows, summed});
  Tensor y = reshape(permute(b, joined({&right, &kept_b})), {summed, columns});
  return reshape(mm(x, y), list_of(sizes));
}

}  // namespace

static constexpr OpDef linalg_einsum_rows[] = {
    {.schema = "einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor",
     .tags = OpTags::matmul,
     .decomp = fn<einsum_decomp>},
    {.schema = "tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor",
     .tags = OpTags::matmul,
     .decomp = fn<tensordot_decomp>},
};

extern constinit const OpFamily op_family_linalg_einsum{linalg_einsum_rows};

}  // namespace tenon::ops
