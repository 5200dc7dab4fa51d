// Scaled dot-product attention: softmax(scale Q K^T + mask) V.
//
// Problem: the matrix of scores has one element for each pair of positions; for long sequences it
//   is far larger than everything else.
// Method: (batch, head) pairs and blocks of query rows are shared out to threads. A block's scores
//   are one product into scratch of `block` x keys, get mask and softmax in place, and one product
//   with V writes the result. Whole rows of scores are held, so softmax needs no second pass over
//   K. 16-bit inputs are computed in f32. Under a causal mask keys behind the block's last row are
//   left out of both products.
// Cost: two products of queries x keys x head size; scratch of block x keys for each thread.
#include "core/kernels/gemm.h"
#include "core/kernels/level_table.h"
#include "core/tensor/allocator.h"
#include "core/threads/thread_pool.h"
#include "ops/kernel_loops.h"
#include "ops/linalg/product.h"
#include "ops/op.h"
#include "ops/shapes.h"

#include <tenon/ops.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tenon::ops {

namespace {

SymIntList without_last(SymIntList sizes, size_t n) {
  return List<SymInt>(sizes.data(), sizes.size() - n);
}

// ---- shapes

// The mask is added to scores of [.., queries, keys]; its dimensions before are broadcast with the
// batch.
void check_mask(const Tensor& mask, const Tensor& q, const Tensor& k) {
  if (!mask.defined()) return;
  require(
      mask.dim() <= std::max(q.dim(), k.dim()),
      "scaled_dot_product_attention: attn_mask of shape {} has more dimensions than the queries "
      "of shape {}",
      mask.sizes(), q.sizes());
  SymInt wanted[] = {k.size(-2), q.size(-2)};
  for (int64_t d = 0; d < std::min<int64_t>(2, mask.dim()); ++d) {
    SymInt size = mask.size(-1 - d);
    require(sizes_match(size, wanted[d]) || is_one(size),
            "scaled_dot_product_attention: attn_mask of shape {} does not fit {} queries and {} "
            "keys",
            mask.sizes(), wanted[1], wanted[0]);
  }
  for (int64_t d = 2; d < mask.dim(); ++d) {
    SymInt size = mask.size(-1 - d), of_q = d < q.dim() ? q.size(-1 - d) : SymInt(1),
           of_k = d < k.dim() ? k.size(-1 - d) : SymInt(1);
    require(is_one(size) || sizes_match(size, is_one(of_q) ? of_k : of_q),
            "scaled_dot_product_attention: attn_mask of shape {} does not fit queries of shape {}",
            mask.sizes(), q.sizes());
  }
}

void check_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                     bool is_causal) {
  require(q.dim() >= 2 && k.dim() >= 2 && v.dim() >= 2,
          "scaled_dot_product_attention: query, key and value need 2 dimensions, found shapes {}, "
          "{} and {}",
          q.sizes(), k.sizes(), v.sizes());
  require_same_dtype("scaled_dot_product_attention", q, k);
  require_same_dtype("scaled_dot_product_attention", q, v);
  require(is_floating(q.dtype()),
          "scaled_dot_product_attention: a floating dtype is expected, found {}", q.dtype());
  require(sizes_match(q.size(-1), k.size(-1)) && sizes_match(k.size(-2), v.size(-2)),
          "scaled_dot_product_attention: query {}, key {} and value {} do not fit: query and key "
          "need one head size, "
          "key and value one length",
          q.sizes(), k.sizes(), v.sizes());
  require(!mask.defined() || !is_causal,
          "scaled_dot_product_attention: attn_mask and is_causal cannot both be given");
  check_mask(mask, q, k);
}

// Whether the dimensions before heads, positions and features are the same.
bool same_batch(const Tensor& a, const Tensor& b) {
  for (int64_t d = 0; d < a.dim() - 3; ++d)
    if (!sizes_match(a.size(d), b.size(d))) return false;
  return true;
}

void check_grouping(const Tensor& q, const Tensor& k, const Tensor& v, bool grouped) {
  if (!grouped) return;
  require(q.dim() == k.dim() && q.dim() == v.dim() && q.dim() >= 3 && same_batch(q, k) &&
              same_batch(q, v) && sizes_match(k.size(-3), v.size(-3)) &&
              sizes_match(q.size(-3) % k.size(-3), 0),
          "scaled_dot_product_attention: enable_gqa needs a number of query heads that the number "
          "of key and value "
          "heads divides, found shapes {}, {} and {}",
          q.sizes(), k.sizes(), v.sizes());
}

Dims batch_sizes(const Tensor& q, const Tensor& k, const Tensor& v, bool grouped) {
  if (grouped) return dims_of(without_last(q.sizes(), 2));
  Dims batch = broadcast_sizes(without_last(q.sizes(), 2), without_last(k.sizes(), 2));
  return broadcast_sizes(list_of(batch), without_last(v.sizes(), 2));
}

// Where the fused op of ATen takes the call its result lies like the query, else row by row.
bool is_fused(const Tensor& q, const Tensor& k, const Tensor& v, const Dims& batch) {
  if (q.dim() != 4 || k.dim() != 4 || v.dim() != 4 || !is_one(q.stride(-1))) return false;
  return sizes_match(q.size(0), batch[0]) && sizes_match(q.size(1), batch[1]) &&
         sizes_match(q.size(3), v.size(3));
}

TensorMeta attention_meta(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                          double dropout_p, bool is_causal, std::optional<double>, bool grouped) {
  check_attention(q, k, v, mask, is_causal);
  check_grouping(q, k, v, grouped);
  require(dropout_p >= 0 && dropout_p <= 1,
          "scaled_dot_product_attention: dropout_p must lie in [0, 1], found {}", dropout_p);
  Dims batch = batch_sizes(q, k, v, grouped), sizes = batch;
  sizes.push_back(q.size(-2));
  sizes.push_back(v.size(-1));
  TensorMeta out = contiguous_meta(list_of(sizes), q.dtype(), q.device());
  if (q.dim() == 4 && is_fused(q, k, v, batch)) out.strides = preserved_strides(q);
  return out;
}

// ---- the kernel

// One (batch, head) pair, in the compute type. Rows of q, k and v lie one behind the other.
template <class C>
struct Head {
  const C *q, *k, *v, *mask;
  int64_t mask_row, mask_column;  // distances in the mask
  C* out;
  C* logsumexp;  // one for each query row, or null
};

struct AttentionShape {
  int64_t queries, keys, size, value_size;
  double scale;
  bool is_causal;
};

template <class C>
void add_mask(C* scores, const Head<C>& head, int64_t first, int64_t rows, int64_t keys,
              int64_t ld) {
  for (int64_t i = 0; i < rows; ++i) {
    const C* mask = head.mask + (first + i) * head.mask_row;
    for (int64_t j = 0; j < keys; ++j) scores[i * ld + j] += mask[j * head.mask_column];
  }
}

// Softmax of one row in place; a row of -inf only becomes 0. Returns the logarithm of its sum, and 0 for
// such a row, as ATen: then the derivative's exp(-inf - 0) is 0 as well.
template <class C>
C softmax_in_place(C* row, int64_t n) {
  const auto& level = kernels::row_level<C>();
  C largest = -std::numeric_limits<C>::infinity();
  for (int64_t j = 0; j < n; ++j) largest = row[j] > largest || row[j] != row[j] ? row[j] : largest;
  if (largest == -std::numeric_limits<C>::infinity()) {
    std::fill_n(row, n, C(0));
    return C(0);
  }
  level.scale(row, row, n, largest, C(1), C(0));
  level.exp(row, row, n);
  C sum = level.sum(row, n);
  level.scale(row, row, n, C(0), 1 / sum, C(0));
  return largest + std::log(sum);
}

template <class C>
void attend_block(const Head<C>& head, const AttentionShape& s, int64_t first, int64_t rows,
                  C* scores) {
  using kernels::Trans;
  int64_t keys = s.is_causal ? std::min(s.keys, first + rows) : s.keys;
  kernels::gemm<C>(Trans::no, Trans::yes, rows, keys, s.size, static_cast<C>(s.scale),
                   head.q + first * s.size, s.size, head.k, s.size, C(0), scores, s.keys);
  if (head.mask) add_mask(scores, head, first, rows, keys, s.keys);
  for (int64_t i = 0; i < rows; ++i) {
    int64_t seen = s.is_causal ? std::min(keys, first + i + 1) : keys;
    C* row = scores + i * s.keys;
    C sum = softmax_in_place(row, seen);
    std::fill(row + seen, row + keys, C(0));
    if (head.logsumexp) head.logsumexp[first + i] = sum;
  }
  kernels::gemm<C>(Trans::no, Trans::no, rows, s.value_size, keys, C(1), scores, s.keys, head.v,
                   s.value_size, C(0), head.out + first * s.value_size, s.value_size);
}

// About 256 KB of scores for each thread.
template <class C>
int64_t rows_per_block(const AttentionShape& s) {
  int64_t rows =
      (int64_t{256} << 10) / static_cast<int64_t>(sizeof(C)) / std::max<int64_t>(1, s.keys);
  return std::clamp<int64_t>(rows, 8, 128);
}

template <class C>
void attend(std::span<const Head<C>> heads, const AttentionShape& s) {
  int64_t block = std::min(rows_per_block<C>(s), std::max<int64_t>(1, s.queries));
  int64_t blocks = (s.queries + block - 1) / block, n = static_cast<int64_t>(heads.size()) * blocks;
  parallel_chunks(n, [&](int64_t chunk, int) {
    HostBlock scratch(static_cast<size_t>(block * s.keys) * sizeof(C));
    int64_t first = chunk % blocks * block;
    attend_block(heads[static_cast<size_t>(chunk / blocks)], s, first,
                 std::min(block, s.queries - first), scratch.template as<C>());
  });
}

// ---- tensors to heads

// Additive: 0 where a boolean mask is true, -inf where it is false.
Tensor additive_mask(const Tensor& mask, Dtype dtype) {
  if (!mask.defined() || mask.dtype() != Dtype::bool_)
    return mask.defined() ? converted(mask, dtype) : Tensor();
  Tensor m = contiguous_of(mask), out = make_tensor(contiguous_meta(mask.sizes(), dtype));
  dispatch_floating(dtype, "attention mask", [&]<class T>() {
    for (int64_t i = 0; i < numel_of(m); ++i)
      data_of<T>(out)[i] =
          static_cast<T>(data_of<bool>(m)[i] ? 0.0f : -std::numeric_limits<float>::infinity());
  });
  return out;
}

// Where each head of a broadcast operand begins.
Walk<5> head_walk(const Tensor& out, const Tensor& q, const Tensor& k, const Tensor& v,
                  const Tensor& mask, bool grouped) {
  SymIntList batch = without_last(out.sizes(), 2);
  size_t n = batch.size();
  auto strides_in = [&](const Tensor& t) {
    Dims zeros(n, SymInt(0));
    if (!t.defined()) return zeros;
    if (grouped && &t != &q && &t != &mask) return dims_of(without_last(t.strides(), 2));
    size_t own = t.sizes().size() < 2 ? 0 : t.sizes().size() - 2;
    return broadcast_strides(List<SymInt>(t.sizes().data(), own),
                             List<SymInt>(t.strides().data(), own), batch);
  };
  Dims a = strides_in(q), b = strides_in(k), c = strides_in(v), m = strides_in(mask);
  Walk<5> walk;
  for (size_t d = 0; d < n; ++d) {
    int64_t size = batch[d];
    Offsets<5> step{strides_of(out)[d], a[d], b[d], c[d], m[d]};
    if (!grouped || d + 1 != n) {
      walk.add(size, step);
      continue;
    }
    // Several query heads share one head of keys and values.
    int64_t shared = size / std::max<int64_t>(1, k.sizes()[n - 1].word());
    walk.sizes.push_back(size / shared);
    walk.strides.push_back(
        {step[0] * shared, step[1] * shared, step[2], step[3], step[4] * shared});
    walk.sizes.push_back(shared);
    walk.strides.push_back({step[0], step[1], 0, 0, step[4]});
  }
  return walk;
}

template <class C>
std::vector<Head<C>> heads_of(const Tensor& out, C* logsumexp, const Tensor& q, const Tensor& k,
                              const Tensor& v, const Tensor& mask, bool grouped) {
  std::vector<Head<C>> heads;
  int64_t row = 0, column = 0;
  if (mask.defined() && mask.dim() > 0)
    column = mask.size(-1).word() == 1 ? 0 : mask.stride(-1).word();
  if (mask.defined() && mask.dim() > 1)
    row = mask.size(-2).word() == 1 ? 0 : mask.stride(-2).word();
  for_each_offset(head_walk(out, q, k, v, mask, grouped), [&](const Offsets<5>& at) {
    int64_t index = static_cast<int64_t>(heads.size());
    heads.push_back({data_of<C>(q) + at[1], data_of<C>(k) + at[2], data_of<C>(v) + at[3],
                     mask.defined() ? data_of<C>(mask) + at[4] : nullptr, row, column,
                     data_of<C>(out) + at[0],
                     logsumexp ? logsumexp + index * out.size(-2).word() : nullptr});
  });
  return heads;
}

struct AttentionCall {
  const Tensor &q, &k, &v, &mask;
  bool is_causal;
  std::optional<double> scale;
  bool grouped;
};

// `logsumexp` is undefined or a row-major tensor [.., queries] of the compute type.
void run_attention(const Tensor& out, const Tensor& logsumexp, const AttentionCall& c) {
  Dtype dtype = out.dtype() == Dtype::f64 ? Dtype::f64 : Dtype::f32;
  Tensor q = converted(c.q, dtype), k = converted(c.k, dtype), v = converted(c.v, dtype);
  Tensor mask = additive_mask(c.mask, dtype);
  bool direct = out.dtype() == dtype && out.is_contiguous();
  Tensor y = direct ? out : make_tensor(contiguous_meta(out.sizes(), dtype));
  AttentionShape s{q.size(-2), k.size(-2), q.size(-1), v.size(-1), 0, c.is_causal};
  s.scale = c.scale.value_or(1 / std::sqrt(static_cast<double>(s.size)));
  auto run = [&]<class C>() {
    std::vector<Head<C>> heads = heads_of<C>(
        y, logsumexp.defined() ? data_of<C>(logsumexp) : nullptr, q, k, v, mask, c.grouped);
    attend<C>(heads, s);
  };
  if (dtype == Dtype::f64)
    run.template operator()<double>();
  else
    run.template operator()<float>();
  if (!direct) copy_elements(out, y);
}

// ---- decomposition

Tensor causal_mask(const Tensor& q, const Tensor& k) {
  return tril(ones({q.size(-2), k.size(-2)}, Dtype::bool_, Layout::strided, q.device()));
}

Tensor float_mask(const Tensor& mask, Dtype dtype) {
  if (mask.dtype() != Dtype::bool_) return mask;
  Tensor zeros = full(SymIntList(), 0.0, dtype, Layout::strided, mask.device());
  Tensor low = full(SymIntList(), -std::numeric_limits<double>::infinity(), dtype, Layout::strided,
                    mask.device());
  return where(mask, zeros, low);
}

// Each head of keys and values repeated for the query heads that share it.
Tensor repeated_heads(const Tensor& t, const Tensor& q) {
  SymInt times = q.size(-3) / t.size(-3);
  Dims sizes = dims_of(t.sizes());
  size_t at = sizes.size() - 2;
  Dims wide(sizes.begin(), sizes.begin() + static_cast<ptrdiff_t>(at));
  wide.push_back(times);
  wide.push_back(sizes[at]);
  wide.push_back(sizes[at + 1]);
  sizes[at - 1] = sizes[at - 1] * times;
  return reshape(expand(unsqueeze(t, -3), list_of(wide)), list_of(sizes));
}

Number sqrt_scale(const Tensor& q, std::optional<double> scale) {
  return std::sqrt(
      std::fabs(scale.value_or(1 / std::sqrt(static_cast<double>(q.size(-1).guard_int())))));
}

Tensor attention_weights(const AttentionCall& c, const Tensor& q, const Tensor& k) {
  Number factor = sqrt_scale(q, c.scale);
  bool negative = c.scale && *c.scale < 0;
  Tensor scaled = mul(q, negative ? Number(-factor.to_double()) : factor);
  Tensor scores = matmul(scaled, mul(transpose(k, -2, -1), factor));
  Tensor mask = c.is_causal ? causal_mask(q, k) : c.mask;
  if (mask.defined()) scores = add(scores, float_mask(mask, q.dtype()));
  return _safe_softmax(scores, -1);
}

std::tuple<Tensor, Tensor> attention_math(const AttentionCall& c, double dropout_p) {
  check_attention(c.q, c.k, c.v, c.mask, c.is_causal);
  check_grouping(c.q, c.k, c.v, c.grouped);
  Dtype kept = c.q.dtype(), dtype = kept == Dtype::f64 ? kept : Dtype::f32;
  Tensor q = to(c.q, dtype), k = to(c.k, dtype), v = to(c.v, dtype);
  if (c.grouped) k = repeated_heads(k, q), v = repeated_heads(v, q);
  Tensor weights = attention_weights(c, q, k);
  Tensor used = dropout_p > 0 ? dropout(weights, dropout_p, true) : weights;
  return {to(matmul(used, v), kept), to(weights, kept)};
}

// Where the fused op takes the call, its result lies like the query, whatever computes it.
Tensor laid_as_promised(const Tensor& out, const Tensor& q, const Tensor& k, const Tensor& v,
                        bool grouped) {
  bool is_laid_so =
      q.dim() != 4 || q.is_contiguous() || !is_fused(q, k, v, batch_sizes(q, k, v, grouped));
  if (is_laid_so) return out;
  std::vector<int64_t> outwards_in = dims_by_memory(q), back(outwards_in.size());
  for (size_t d = 0; d < back.size(); ++d)
    back[static_cast<size_t>(outwards_in[d])] = static_cast<int64_t>(d);
  return permute(contiguous(permute(out, outwards_in)), back);
}

// Whether the op with log-sums does it; on the CPU its derivative is slower than that of the parts.
bool is_done_with_sums(const AttentionCall& c, double dropout_p) {
  bool is_here = c.q.device().type == DeviceType::cpu;
  if (is_here || c.grouped || c.mask.defined() || dropout_p != 0) return false;
  return c.q.dim() == 4 && c.k.dim() == 4 && c.v.dim() == 4 && same_batch(c.q, c.k) &&
         same_batch(c.q, c.v) && sizes_match(c.q.size(1), c.k.size(1)) &&
         sizes_match(c.q.size(1), c.v.size(1)) && sizes_match(c.q.size(3), c.v.size(3));
}

Tensor attention_decomp(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                        double dropout_p, bool is_causal, std::optional<double> scale,
                        bool grouped) {
  AttentionCall call{q, k, v, mask, is_causal, scale, grouped};
  if (!is_done_with_sums(call, dropout_p))
    return laid_as_promised(std::get<0>(attention_math(call, dropout_p)), q, k, v, grouped);
  auto made = _scaled_dot_product_flash_attention_for_cpu(q, k, v, 0, is_causal, mask, scale);
  return std::get<0>(made);
}

void attention_kernel(Tensor& out, const Tensor& q, const Tensor& k, const Tensor& v,
                      const Tensor& mask, double dropout_p, bool is_causal,
                      std::optional<double> scale, bool grouped) {
  if (dropout_p > 0)
    return copy_elements(out,
                         attention_decomp(q, k, v, mask, dropout_p, is_causal, scale, grouped));
  run_attention(out, Tensor(), {q, k, v, mask, is_causal, scale, grouped});
}

// ---- the op with the logarithms of the sums

std::array<TensorMeta, 2> flash_metas(const Tensor& q, const Tensor& k, const Tensor& v,
                                      double dropout_p, bool is_causal, const Tensor& mask,
                                      std::optional<double> scale) {
  require(q.dim() == 4 && k.dim() == 4 && v.dim() == 4,
          "_scaled_dot_product_flash_attention_for_cpu: 4 dimensions are expected, found shapes "
          "{}, {} and {}",
          q.sizes(), k.sizes(), v.sizes());
  require(dropout_p == 0,
          "_scaled_dot_product_flash_attention_for_cpu: dropout_p must be 0, found {}", dropout_p);
  bool grouped = !sizes_match(q.size(1), k.size(1));
  TensorMeta out =
      attention_meta(q, k, v, is_causal ? undefined_tensor() : mask, 0, is_causal, scale, grouped);
  check_mask(mask, q, k);
  SymInt batch = out.sizes[0], heads = out.sizes[1], queries = q.size(2);
  TensorMeta sums{q.dtype() == Dtype::f64 ? Dtype::f64 : Dtype::f32,
                  q.device(),
                  {batch, heads, queries},
                  {queries * heads, SymInt(1), heads}};
  return {std::move(out), std::move(sums)};
}

void flash_kernel(Tensor& out, Tensor& logsumexp, const Tensor& q, const Tensor& k, const Tensor& v,
                  double, bool is_causal, const Tensor& mask, std::optional<double> scale) {
  Tensor sums = make_tensor(contiguous_meta(logsumexp.sizes(), logsumexp.dtype()));
  bool grouped = q.size(1).word() != k.size(1).word();
  run_attention(out, sums, {q, k, v, mask, is_causal, scale, grouped});
  copy_elements(logsumexp, sums);
}

}  // namespace

static constexpr OpDef nn_attention_rows[] = {
    {.schema = "scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? "
               "attn_mask=None, "
               "float dropout_p=0., bool is_causal=False, *, float? scale=None, bool "
               "enable_gqa=False) -> Tensor",
     .tags = OpTags::matmul,
     .meta = fn<attention_meta>,
     .eager = fn<attention_kernel>,
     .decomp = fn<attention_decomp>,
     .autocast = Autocast::lower},
    {.schema = "_scaled_dot_product_attention_math(Tensor query, Tensor key, Tensor value, Tensor? "
               "attn_mask=None, "
               "float dropout_p=0., bool is_causal=False, Tensor? dropout_mask=None, *, float? "
               "scale=None, "
               "bool enable_gqa=False) -> (Tensor, Tensor)",
     .tags = OpTags::matmul,
     .decomp =
         [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, double dropout_p,
            bool is_causal, const Tensor& dropout_mask, std::optional<double> scale, bool grouped) {
           require(!dropout_mask.defined(),
                   "_scaled_dot_product_attention_math: dropout_mask is not supported");
           return attention_math({q, k, v, mask, is_causal, scale, grouped}, dropout_p);
         }},
    {.schema =
         "_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, "
         "float dropout_p=0., bool is_causal=False, *, Tensor? attn_mask=None, float? scale=None) "
         "-> "
         "(Tensor output, Tensor logsumexp)",
     .tags = OpTags::matmul,
     .meta = fn<flash_metas>,
     .eager = fn<flash_kernel>,
     .vjp = {{"query, key, value",
              "grad, query, key, value, result0, result1, dropout_p, is_causal, attn_mask, scale",
              fn<_scaled_dot_product_flash_attention_for_cpu_backward>}}},
};

extern constinit const OpFamily op_family_nn_attention{nn_attention_rows};

}  // namespace tenon::ops
