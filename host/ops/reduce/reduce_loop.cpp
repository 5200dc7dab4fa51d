// The loops of reductions over kept and folded dimensions; see reduce_loop.h.
//
// Method: three forms. Inner: a kept element at a time, its folded elements in a row. Outer: the
//   kept dimension lies denser in memory than the folded ones, so a block of kept elements is
//   folded together, line by line. Whole: one result from one long run; pieces of fixed length are
//   folded apart and joined from the left.
// Cost: memory-bound where the step is cheap; a call for each kept element and row. Threads share
//   kept elements, or the fixed pieces.
#include "ops/reduce/reduce_loop.h"

#include "core/kernels/pointwise_loop.h"
#include "core/scalar/scalar_constant.h"
#include "core/threads/thread_pool.h"

#include <bit>
#include <vector>

namespace tenon::ops {

namespace {

// An iteration split into kept and folded dimensions. Operand 0 is the input, 1 the result.
struct ReductionPlan {
  Walk<2> kept;
  Walk<1> folded;
  int64_t n_folded = 1;
};

ReductionPlan plan_reduction(const Tensor& in, const Tensor& out, uint64_t mask) {
  ReductionPlan plan;
  bool keepdim = out.dim() == in.dim();
  size_t next = 0;
  for (size_t d = 0; d < static_cast<size_t>(in.dim()); ++d) {
    int64_t size = sizes_of(in)[d], step = strides_of(in)[d];
    if (mask >> d & 1) {
      plan.folded.add(size, {step});
      plan.n_folded *= size;
    } else {
      plan.kept.add(size, {step, strides_of(out)[keepdim ? d : next]});
      ++next;
    }
  }
  return plan;
}

constexpr int64_t outer_block = 128;
constexpr int64_t piece = 32768;

// Offsets of the row-th run of the innermost dimension.
template <size_t N>
Offsets<N> offsets_of_row(const Walk<N>& walk, int64_t row) {
  Offsets<N> at{};
  for (size_t d = walk.sizes.size() - 1; d-- > 0;) {
    int64_t i = row % walk.sizes[d];
    row /= walk.sizes[d];
    for (size_t k = 0; k < N; ++k) at[k] += i * walk.strides[d][k];
  }
  return at;
}

// `body(offsets, n, steps)` over runs of kept elements, shared out to threads; a long run is cut.
template <class F>
void for_each_kept_run(const ReductionPlan& plan, const F& body) {
  const Walk<2>& kept = plan.kept;
  if (kept.sizes.empty()) return body(Offsets<2>{}, int64_t{1}, Offsets<2>{});
  int64_t inner = kept.sizes[kept.sizes.size() - 1], n = kept.numel();
  if (n == 0) return;
  const Offsets<2>& step = kept.strides[kept.sizes.size() - 1];
  int64_t cut = std::min(inner, outer_block), cuts = (inner + cut - 1) / cut;
  auto run = [&](int64_t lo, int64_t hi) {
    for (int64_t i = lo; i < hi; ++i) {
      Offsets<2> at = offsets_of_row(kept, i / cuts);
      int64_t first = i % cuts * cut;
      for (size_t k = 0; k < 2; ++k) at[k] += first * step[k];
      body(at, std::min(cut, inner - first), step);
    }
  };
  int64_t total = n / inner * cuts;
  int64_t grain = std::max<int64_t>(1, piece / std::max<int64_t>(1, cut * plan.n_folded));
  if (total <= grain) return run(0, total);
  parallel_for(0, total, grain, run);
}

// A reduction under way: byte addresses of elements, and the operation.
struct Reduction {
  const Folder& folder;
  const void* op;
  const char* in;
  const ReductionPlan& plan;

  const char* element(int64_t offset) const { return in + offset * folder.itemsize; }
};

void reduce_inner(const Reduction& r) {
  const Walk<1>& folded = r.plan.folded;
  for_each_kept_run(r.plan, [&](const Offsets<2>& at, int64_t n, const Offsets<2>& step) {
    if (folded.sizes.size() == 1)
      return r.folder.rows(r.op, r.element(at[0]), n, step[0], folded.sizes[0],
                           folded.strides[0][0], at[1], step[1]);
    alignas(16) std::byte state[Folder::most_state_bytes];
    for (int64_t k = 0; k < n; ++k) {
      r.folder.start(r.op, state, 1);
      int64_t index = 0, from = at[0] + k * step[0];
      for_each_row(folded, [&](const Offsets<1>& f, int64_t length, const Offsets<1>& fs) {
        r.folder.row(r.op, state, r.element(from + f[0]), length, fs[0], index);
        index += length;
      });
      r.folder.store(r.op, state, 1, at[1] + k * step[1], 0, r.plan.n_folded);
    }
  });
}

void reduce_outer(const Reduction& r) {
  for_each_kept_run(r.plan, [&](const Offsets<2>& at, int64_t n, const Offsets<2>& step) {
    alignas(16) std::byte states[Folder::most_state_bytes * outer_block];
    r.folder.start(r.op, states, n);
    int64_t index = 0;
    for_each_offset(r.plan.folded, [&](const Offsets<1>& f) {
      r.folder.line(r.op, states, r.element(at[0] + f[0]), n, step[0], index++);
    });
    r.folder.store(r.op, states, n, at[1], step[1], r.plan.n_folded);
  });
}

void reduce_whole(const Reduction& r) {
  int64_t n = r.plan.n_folded, step = r.plan.folded.strides[0][0], pieces = (n + piece - 1) / piece;
  size_t bytes = r.folder.state_bytes;
  std::vector<std::byte> states(static_cast<size_t>(pieces) * bytes);
  r.folder.start(r.op, states.data(), pieces);
  parallel_chunks(pieces, [&](int64_t i, int) {
    int64_t first = i * piece;
    r.folder.row(r.op, states.data() + static_cast<size_t>(i) * bytes, r.element(first * step),
                 std::min(piece, n - first), step, first);
  });
  for (size_t i = 1; i < static_cast<size_t>(pieces); ++i)
    r.folder.join(r.op, states.data(), states.data() + i * bytes);
  r.folder.store(r.op, states.data(), 1, 0, 0, n);
}

bool prefers_outer(const ReductionPlan& plan) {
  if (plan.kept.sizes.empty() || plan.folded.sizes.empty()) return false;
  size_t k = plan.kept.sizes.size() - 1, f = plan.folded.sizes.size() - 1;
  return plan.kept.sizes[k] >= 4 && plan.kept.strides[k][0] < plan.folded.strides[f][0];
}

}  // namespace

int64_t fold_by_blocks(ScalarCode code, const void* x, Dtype from, int64_t n, void* out, Dtype to) {
  const BlockKernels& kernels = block_kernels();
  BlockFn fold = kernels.primitive[static_cast<int>(code)][static_cast<int>(block_type(to))];
  ConvertFn convert =
      from == to
          ? nullptr
          : kernels.convert[static_cast<int>(block_type(from))][static_cast<int>(block_type(to))];
  alignas(64) std::byte scratch[block_size * 8];
  const char* in = static_cast<const char*>(x);
  char* sums = static_cast<char*>(out);
  auto elements = [&](int64_t first, int64_t count) -> const void* {
    const char* at = in + first * itemsize(from);
    if (convert == nullptr) return at;
    convert(scratch, at, count);
    return scratch;
  };
  auto size = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(n)));
  int64_t width = std::min(block_size, size);
  std::memcpy(sums, elements(0, width), static_cast<size_t>(width * itemsize(to)));
  for (int64_t i = width; i < n; i += width) {
    const void* operands[] = {sums, elements(i, std::min(width, n - i))};
    fold(sums, operands, std::min(width, n - i), 0);
  }
  for (; width > 16; width /= 2) {
    const void* operands[] = {sums, sums + width / 2 * itemsize(to)};
    fold(sums, operands, width / 2, 0);
  }
  return width;
}

void run_reduction(const Folder& folder, const void* op, const Tensor& in, const Tensor& out,
                   uint64_t mask) {
  ReductionPlan plan = plan_reduction(in, out, mask);
  Reduction reduction{folder, op, data_of<char>(in), plan};
  if (plan.kept.sizes.empty() && plan.folded.sizes.size() == 1 && plan.n_folded > piece)
    return reduce_whole(reduction);
  if (prefers_outer(plan)) return reduce_outer(reduction);
  reduce_inner(reduction);
}

}  // namespace tenon::ops
