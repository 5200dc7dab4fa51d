// Shape rules: broadcasting, view strides, strides of pointwise results, reductions.
#include "ops/shapes.h"

#include "core/error.h"
#include "core/sym/shape_env.h"
#include "core/sym/sym_int.h"
#include "ops/symbols_match.h"

#include <algorithm>

namespace tenon {

int64_t wrap_dim(int64_t dim, int64_t rank) {
  int64_t range = std::max<int64_t>(rank, 1);
  require(dim >= -range && dim < range,
          "dimension {} is out of range: a tensor with {} dimensions takes {} to {}", dim, rank,
          -range, range - 1);
  return dim < 0 ? dim + range : dim;
}

bool expect_true(SymBool condition) {
  ShapeEnv* env = current_shape_env();
  return condition.is_symbolic() && env ? env->expect(condition.expr()) : condition.guard_bool();
}

std::optional<bool> decided(SymBool condition) {
  ShapeEnv* env = current_shape_env();
  if (!condition.is_symbolic() || !env) return condition.guard_bool();
  if (auto known = env->statically_known(condition.expr())) return known;
  guard_or_false(condition);  // an answer of the examples becomes a guard, and so a fact
  return env->statically_known(condition.expr());
}

bool is_one(SymInt size) {
  if (!size.is_symbolic()) return size.word() == 1;
  return guard_or_false(size == 1);
}

bool sizes_match(SymInt a, SymInt b) {
  if (!a.is_symbolic() && !b.is_symbolic()) return a.word() == b.word();
  return expect_true(a == b);
}

bool symbols_match(SymInt a, SymInt b) {
  if (!a.is_symbolic() || !b.is_symbolic()) return false;
  const ShapeEnv* env = current_shape_env();
  std::optional<int64_t> first = env ? env->int_hint(a) : std::nullopt;
  return first && first == env->int_hint(b) && sizes_match(a, b);
}

Dims broadcast_sizes(SymIntList a, SymIntList b) {
  size_t rank = std::max(a.size(), b.size());
  Dims out(rank);
  for (size_t i = 0; i < rank; ++i) {
    size_t from_end = rank - i;
    SymInt x = from_end <= a.size() ? a[a.size() - from_end] : SymInt(1);
    SymInt y = from_end <= b.size() ? b[b.size() - from_end] : SymInt(1);
    if (symbols_match(x, y))
      out[i] = x;
    else if (is_one(x))
      out[i] = y;
    else if (is_one(y) || sizes_match(x, y))
      out[i] = x;
    else
      fail("shapes {} and {} do not broadcast: sizes {} and {} of dimension {} from the end differ",
           a, b, x, y, from_end);
  }
  return out;
}

InlineVector<const Tensor*, 12> pointers_to(std::span<const Tensor> tensors) {
  InlineVector<const Tensor*, 12> out;
  for (const Tensor& t : tensors) out.push_back(&t);
  return out;
}

Dims broadcast_sizes(TensorPointers tensors) {
  Dims out;
  bool first = true;
  for (const Tensor* t : tensors) {
    if (!t->defined()) continue;
    out = first ? dims_of(t->sizes()) : broadcast_sizes(list_of(out), t->sizes());
    first = false;
  }
  return out;
}

Dims broadcast_sizes(std::span<const Tensor> tensors) {
  auto pointers = pointers_to(tensors);
  return broadcast_sizes(TensorPointers(pointers.data(), pointers.size()));
}

Dims broadcast_strides(SymIntList from_sizes, SymIntList from_strides, SymIntList sizes) {
  ensure(from_sizes.size() <= sizes.size(), "a shape is broadcast to one of fewer dimensions");
  size_t missing = sizes.size() - from_sizes.size();
  Dims out(sizes.size(), SymInt(0));
  for (size_t i = 0; i < from_sizes.size(); ++i) {
    bool repeated = !symbols_match(from_sizes[i], sizes[missing + i]) && is_one(from_sizes[i]) &&
                    !is_one(sizes[missing + i]);
    out[missing + i] = repeated ? SymInt(0) : from_strides[i];
  }
  return out;
}

void check_view(std::string_view op, SymIntList sizes, SymIntList strides) {
  require(sizes.size() == strides.size(), "{}: {} sizes but {} strides", op, sizes.size(),
          strides.size());
  for (SymInt s : sizes)
    require(expect_true(s >= 0), "{}: sizes must not be negative, found {}", op, sizes);
  for (SymInt s : strides)
    require(expect_true(s >= 0), "{}: strides must not be negative, found {}", op, strides);
  auto plain = [](SymIntList list) {
    return IntList(reinterpret_cast<const int64_t*>(list.data()), list.size());
  };
  if (!sizes.is_symbolic() && !strides.is_symbolic()) span_of(plain(sizes), plain(strides));
}

SymInt product(SymIntList sizes) {
  SymInt n = 1;
  for (SymInt s : sizes) n = n * s;
  return n;
}

Dims infer_shape(SymIntList shape, SymInt numel) {
  Dims out = dims_of(shape);
  std::optional<size_t> hole;
  SymInt known = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (!shape[i].is_symbolic() && shape[i].word() == -1) {
      require(!hole, "shape {} has more than one -1", shape);
      hole = i;
    } else {
      require(expect_true(shape[i] >= 0), "shape {} has a negative size", shape);
      known = known * shape[i];
    }
  }
  if (!hole) {
    require(sizes_match(known, numel), "shape {} has {} elements, the tensor has {}", shape, known,
            numel);
    return out;
  }
  require(expect_true(known != 0), "shape {}: -1 is ambiguous beside a size of 0", shape);
  require(expect_true(numel % known == 0), "shape {} does not fit a tensor with {} elements", shape,
          numel);
  out[*hole] = numel / known;
  return out;
}

namespace {

bool depends_on_data(SymIntList sizes) {
  ShapeEnv* env = current_shape_env();
  return env && std::any_of(sizes.begin(), sizes.end(), [&](SymInt s) {
           return s.is_symbolic() && env->has_unbacked(env->simplify(s.expr()));
         });
}

bool same_sizes(SymIntList a, SymIntList b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](SymInt x, SymInt y) {
           return statically_known_true(x == y);
         });
}

// Whether a run of `run` elements is not used up by `taken`. What depends on data is used up when
// the expressions are equal.
bool lacks(SymInt taken, SymInt run) {
  if (guard_or_false(taken < run)) return true;
  bool open =
      (taken.is_symbolic() || run.is_symbolic()) && depends_on_data(list_of(Dims{taken, run}));
  return open && !statically_known_true(taken == run);
}

// There is no view. Where that is a guess, those who ask get to know.
std::nullopt_t no_view(SymIntList sizes, SymIntList new_sizes) {
  bool guess = depends_on_data(sizes) || depends_on_data(new_sizes);
  require(!guess || !current_shape_env()->asks_when_open(), ErrorCode::data_dependent,
          "whether a tensor of shape {} can be seen as {} without moving data is known at run time "
          "only",
          sizes, new_sizes);
  return std::nullopt;
}

// Symbolic sizes whose strides are those of a dense tensor, cut anew: so for all values, sizes of 0
// and 1 included.
bool is_dense_for_all(SymIntList sizes, SymIntList strides, SymIntList new_sizes) {
  if (!sizes.is_symbolic() || sizes.size() != strides.size()) return false;
  Dims dense = contiguous_strides(sizes);
  for (size_t i = 0; i < dense.size(); ++i)
    if (dense[i].word() != strides[i].word()) return false;
  return statically_known_true(product(sizes) == product(new_sizes));
}

}  // namespace

// Walks both shapes from the end: a run of old dimensions that lies dense in memory can be cut
// anew, a run must be used up exactly.
std::optional<Dims> view_strides(SymIntList sizes, SymIntList strides, SymIntList new_sizes) {
  if (is_dense_for_all(sizes, strides, new_sizes)) return contiguous_strides(new_sizes);
  if (guard_or_false(product(sizes) == 0)) {
    if (new_sizes.size() == sizes.size()) {
      bool equal = true;
      for (size_t i = 0; i < sizes.size(); ++i)
        equal = equal && sizes_match(sizes[i], new_sizes[i]);
      if (equal) return dims_of(strides);
    }
    return contiguous_strides(new_sizes);
  }
  Dims out(new_sizes.size(), SymInt(1));
  if (sizes.empty()) return out;
  if (same_sizes(sizes, new_sizes)) return dims_of(strides);
  size_t next_new = new_sizes.size();
  SymInt run_stride = strides.back(), run = 1, taken = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    run = run * sizes[i];
    bool run_ends =
        i == 0 || (!is_one(sizes[i - 1]) && !guard_or_false(strides[i - 1] == run * run_stride));
    if (!run_ends) continue;
    while (next_new > 0 && (lacks(taken, run) || is_one(new_sizes[next_new - 1]))) {
      --next_new;
      out[next_new] = taken * run_stride;
      taken = taken * new_sizes[next_new];
    }
    if (!guard_or_false(taken == run)) return no_view(sizes, new_sizes);
    if (i > 0) {
      run_stride = strides[i - 1];
      run = taken = 1;
    }
  }
  if (next_new != 0) return no_view(sizes, new_sizes);
  return out;
}

namespace {

// A size that only run time knows counts as 2 where dimensions are put in order.
int64_t hint(SymInt v) {
  if (!v.is_symbolic()) return v.word();
  ShapeEnv* env = current_shape_env();
  return env ? env->int_hint(v).value_or(2) : 2;
}

// Dense strides with the dimensions in memory order `inner_to_outer`.
Dims dense_strides(SymIntList sizes, const InlineVector<size_t, 8>& inner_to_outer) {
  Dims out(sizes.size());
  SymInt running = 1;
  for (size_t dim : inner_to_outer) {
    out[dim] = running;
    running = running * sym_max(sizes[dim], 1);
  }
  return out;
}

// Whether a condition on sizes holds: the facts or a guard tell, so that a call with another answer
// is recorded anew. Of run-time sizes the example tells.
bool holds(SymBool condition, bool of_example) {
  if (!condition.is_symbolic()) return condition.guard_bool();
  ShapeEnv* env = current_shape_env();
  return env ? env->guard_or(condition.expr(), of_example) : of_example;
}

bool is_zero(SymInt v) { return v.is_symbolic() ? holds(v == 0, hint(v) == 0) : v.word() == 0; }

bool is_less(SymInt a, SymInt b) {
  if (!a.is_symbolic() && !b.is_symbolic()) return a.word() < b.word();
  return holds(a < b, hint(a) < hint(b));
}

// -1: a lies inside of b, 1: outside, 0: the operands leave it open. The first operand that decides
// wins; a stride of 0 decides nothing. Sizes are asked for only where strides are equal.
int compare_dims(size_t a, size_t b, const std::vector<Dims>& strides, SymIntList sizes) {
  for (const Dims& s : strides) {
    if (is_zero(s[a]) || is_zero(s[b])) continue;
    if (is_less(s[a], s[b])) return -1;
    if (is_less(s[b], s[a]) || is_less(sizes[b], sizes[a])) return 1;
  }
  return 0;
}

// Insertion sort from the last dimension inwards, as ATen's iterator does it: ambiguous pairs keep
// their order.
InlineVector<size_t, 8> memory_order(SymIntList sizes, const std::vector<Dims>& strides) {
  InlineVector<size_t, 8> order;
  for (size_t i = sizes.size(); i-- > 0;) order.push_back(i);
  for (size_t i = 1; i < order.size(); ++i) {
    size_t at = i;
    for (size_t j = i; j-- > 0;) {
      int c = compare_dims(order[j], order[at], strides, sizes);
      if (c > 0) {
        std::swap(order[j], order[at]);
        at = j;
      } else if (c < 0) {
        break;
      }
    }
  }
  return order;
}

// Row-major strides to the letter, also where a size is 1 or 0.
bool is_canonical(const Tensor& t) {
  const TensorImpl* impl = impl_of(t);
  if (!(impl->flags & TN_T_CONTIGUOUS) || t.sizes().is_symbolic() || t.strides().is_symbolic())
    return false;
  int64_t expected = 1;
  for (int32_t d = impl->ndim; d-- > 0;) {
    if (impl->strides[d] != expected) return false;
    expected *= std::max<int64_t>(impl->sizes[d], 1);
  }
  return true;
}

}  // namespace

Dims pointwise_strides(SymIntList sizes, TensorPointers inputs) {
  bool all_contiguous = true, all_canonical = true;
  for (const Tensor* t : inputs) {
    all_contiguous =
        all_contiguous && t->is_contiguous() && t->dim() == static_cast<int64_t>(sizes.size());
    all_canonical = all_canonical && is_canonical(*t);
  }
  // Canonical strides grow outwards, so that the order below would keep every pair as it is.
  if (all_contiguous || all_canonical) return contiguous_strides(sizes);
  std::vector<Dims> strides;
  for (const Tensor* t : inputs)
    strides.push_back(broadcast_strides(t->sizes(), t->strides(), sizes));
  return dense_strides(sizes, memory_order(sizes, strides));
}

Dims pointwise_strides(SymIntList sizes, std::span<const Tensor> inputs) {
  auto pointers = pointers_to(inputs);
  return pointwise_strides(sizes, TensorPointers(pointers.data(), pointers.size()));
}

Dims preserved_strides(const Tensor& t) {
  if (t.is_contiguous()) return contiguous_strides(t.sizes());
  if (!has_internal_overlap(t)) {
    SymInt expected = 1;
    bool dense = true;
    InlineVector<size_t, 8> order = memory_order(t.sizes(), {dims_of(t.strides())});
    for (size_t dim : order) {
      if (is_one(t.size(static_cast<int64_t>(dim)))) continue;
      dense = dense && guard_or_false(t.stride(static_cast<int64_t>(dim)) == expected);
      expected = expected * t.size(static_cast<int64_t>(dim));
    }
    if (dense) return dims_of(t.strides());
  }
  return dense_strides(t.sizes(), memory_order(t.sizes(), {dims_of(t.strides())}));
}

// Each dimension has to step beyond what the narrower ones reach.
bool may_show_twice(SymIntList sizes, SymIntList strides) {
  std::vector<size_t> left;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (!is_one(sizes[d])) left.push_back(d);
  SymInt reached = 0;
  while (!left.empty()) {
    auto next = std::ranges::min_element(
        left, [&](size_t a, size_t b) { return guard_or_false(strides[a] < strides[b]); });
    if (!guard_or_false(strides[*next] > reached)) return true;
    reached = reached + (sizes[*next] - 1) * strides[*next];
    left.erase(next);
  }
  return false;
}

std::vector<int64_t> dims_by_memory(const Tensor& t) {
  InlineVector<size_t, 8> order = memory_order(t.sizes(), {dims_of(t.strides())});
  std::vector<int64_t> dims(order.begin(), order.end());
  std::ranges::reverse(dims);
  return dims;
}

MemoryFormat suggest_memory_format(const Tensor& t) {
  if (t.is_contiguous()) return MemoryFormat::contiguous;
  if (t.is_contiguous(MemoryFormat::channels_last)) return MemoryFormat::channels_last;
  if (t.is_contiguous(MemoryFormat::channels_last_3d)) return MemoryFormat::channels_last_3d;
  return MemoryFormat::contiguous;
}

Dims strides_for(const Tensor& t, std::optional<MemoryFormat> format) {
  MemoryFormat wanted = format.value_or(MemoryFormat::preserve);
  return wanted == MemoryFormat::preserve ? preserved_strides(t) : strides_for(t.sizes(), wanted);
}

uint64_t dims_mask(OptIntList dims, int64_t rank) {
  require(rank <= 64, "reductions take at most 64 dimensions, found {}", rank);
  if (!dims || dims->empty()) return rank == 64 ? ~uint64_t{0} : (uint64_t{1} << rank) - 1;
  uint64_t mask = 0;
  for (int64_t d : *dims) {
    uint64_t b = uint64_t{1} << wrap_dim(d, rank);
    require(!(mask & b), "dimension {} appears twice in the list of dimensions", d);
    mask |= b;
  }
  return mask;
}

Dims reduced_sizes(SymIntList sizes, uint64_t mask, bool keepdim) {
  Dims out;
  for (size_t i = 0; i < sizes.size(); ++i) {
    bool reduced = mask >> i & 1;
    if (!reduced)
      out.push_back(sizes[i]);
    else if (keepdim)
      out.push_back(1);
  }
  return out;
}

}  // namespace tenon
