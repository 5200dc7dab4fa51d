// Problems in the library's terms.
#include "lt_plan.h"

#include <limits>
#include <optional>

namespace inductor_cuda {

using tenon::plugin::text;

namespace {

/// A matrix as the library reads it: stored column by column, and transposed or not.
struct Side {
  bool is_transposed = false;
  int64_t rows = 0, columns = 0, column_stride = 0, batch = 0;
};

/// Of a matrix with these strides; nothing where neither of them is 1.
std::optional<Side> side_of(int64_t rows, int64_t columns, int64_t row, int64_t column,
                            int64_t batch) {
  auto stored = [&](bool transposed, int64_t r, int64_t c, int64_t step,
                    int64_t next) -> std::optional<Side> {
    bool is_dense = r == 1 || step == 1;
    if (!is_dense || (c != 1 && next < r)) return std::nullopt;
    return Side{transposed, r, c, c == 1 ? r : next, batch};
  };
  auto as_is = stored(false, rows, columns, row, column);
  auto other = stored(true, columns, rows, column, row);
  // Of both, that with longer dense parts.
  return as_is && (!other || rows >= columns) ? as_is : other;
}

lt::Type type_of(int32_t dtype) {
  return dtype == TN_F64    ? lt::type_f64
         : dtype == TN_F16  ? lt::type_f16
         : dtype == TN_BF16 ? lt::type_bf16
                            : lt::type_f32;
}

lt::Epilogue epilogue_of(const Problem& p) {
  constexpr lt::Epilogue all[3][2] = {{lt::epilogue_none, lt::epilogue_bias},
                                      {lt::epilogue_relu, lt::epilogue_relu_bias},
                                      {lt::epilogue_gelu, lt::epilogue_gelu_bias}};
  return all[static_cast<size_t>(p.function)][p.bias.has_value()];
}

/// The matrices of a problem in the library's order.
struct Sides {
  Side left, right, result;
  bool swaps;
};

/// result^T = right^T x left^T: the result's rows are dense.
std::optional<Sides> by_rows(const Problem& p) {
  auto left = side_of(p.n, p.k, p.right.column, p.right.row, p.right.batch);
  auto right = side_of(p.k, p.m, p.left.column, p.left.row, p.left.batch);
  auto result = side_of(p.n, p.m, p.result.column, p.result.row, p.result.batch);
  if (!left || !right || !result) return std::nullopt;
  if (result->is_transposed) return std::nullopt;
  return Sides{*left, *right, *result, true};
}
/// As it stands: the result's columns are dense. The library adds a bias to rows, so there is none.
std::optional<Sides> by_columns(const Problem& p) {
  auto left = side_of(p.m, p.k, p.left.row, p.left.column, p.left.batch);
  auto right = side_of(p.k, p.n, p.right.row, p.right.column, p.right.batch);
  auto result = side_of(p.m, p.n, p.result.row, p.result.column, p.result.batch);
  if (!left || !right || !result || p.bias) return std::nullopt;
  if (result->is_transposed) return std::nullopt;
  return Sides{*left, *right, *result, false};
}

std::optional<Sides> sides_of(const Problem& p) {
  bool is_in_range = p.k > 0 && p.batches <= std::numeric_limits<int32_t>::max();
  bool is_distinct = p.batches == 1 || p.result.batch > 0;
  bool has_bias = !p.bias || (p.bias_dtype == p.result_dtype && (p.bias->column == 1 || p.n == 1));
  if (!is_in_range || !is_distinct || !has_bias) return std::nullopt;
  auto rows = by_rows(p);
  return rows ? rows : by_columns(p);
}

}  // namespace

/// The library's descriptions of an operation and its matrices, owned.
struct LtDescriptions {
  explicit LtDescriptions(const Library& l) : library(l) {}
  LtDescriptions(const LtDescriptions&) = delete;
  ~LtDescriptions() {
    const lt::Functions& f = library.functions();
    if (operation) f.cublasLtMatmulDescDestroy(operation);
    for (lt::Layout layout : {left, right, result})
      if (layout) f.cublasLtMatrixLayoutDestroy(layout);
    if (preference) f.cublasLtMatmulPreferenceDestroy(preference);
  }

  template <class T>
  void set(lt::OperationAttribute attribute, T value) {
    library.check(library.functions().cublasLtMatmulDescSetAttribute(operation, attribute, &value,
                                                                     sizeof value),
                  "cublasLtMatmulDescSetAttribute", subject);
  }
  template <class T>
  void prefer(lt::PreferenceAttribute attribute, T value) {
    library.check(library.functions().cublasLtMatmulPreferenceSetAttribute(preference, attribute,
                                                                           &value, sizeof value),
                  "cublasLtMatmulPreferenceSetAttribute", subject);
  }
  template <class T>
  void set(lt::Layout layout, lt::LayoutAttribute attribute, T value) {
    library.check(library.functions().cublasLtMatrixLayoutSetAttribute(layout, attribute, &value,
                                                                       sizeof value),
                  "cublasLtMatrixLayoutSetAttribute", subject);
  }
  void make(lt::Layout& out, const Side& side, int32_t dtype, int64_t batches) {
    library.check(library.functions().cublasLtMatrixLayoutCreate(
                      &out, type_of(dtype), static_cast<uint64_t>(side.rows),
                      static_cast<uint64_t>(side.columns), side.column_stride),
                  "cublasLtMatrixLayoutCreate", subject);
    if (batches == 1) return;
    set(out, lt::layout_batches, static_cast<int32_t>(batches));
    set(out, lt::layout_batch_stride, side.batch);
  }

  void make(const Problem& p, const Sides& sides, const LtOptions& options) {
    lt::Compute compute = p.dtype == TN_F64                          ? lt::compute_f64
                          : p.dtype == TN_F32 && options.allows_tf32 ? lt::compute_tf32
                                                                     : lt::compute_f32;
    lt::Type scale = p.dtype == TN_F64 ? lt::type_f64 : lt::type_f32;
    library.check(library.functions().cublasLtMatmulDescCreate(&operation, compute, scale),
                  "cublasLtMatmulDescCreate", subject);
    auto transposition = [](const Side& side) {
      return side.is_transposed ? lt::transposed : lt::as_is;
    };
    set(lt::operation_left_transposition, transposition(sides.left));
    set(lt::operation_right_transposition, transposition(sides.right));
    set(lt::operation_epilogue, epilogue_of(p));
    make(left, sides.left, p.dtype, p.batches);
    make(right, sides.right, p.dtype, p.batches);
    make(result, sides.result, p.result_dtype, p.batches);
  }

  void prefer(const Alignments& alignments, bool swaps, const LtOptions& options,
              int64_t workspace_bytes) {
    library.check(library.functions().cublasLtMatmulPreferenceCreate(&preference),
                  "cublasLtMatmulPreferenceCreate", subject);
    prefer(lt::preference_workspace_bytes, static_cast<uint64_t>(workspace_bytes));
    if (options.deterministic)
      prefer(lt::preference_reductions,
             uint32_t{lt::reduction_in_sums} | uint32_t{lt::reduction_in_results});
    prefer(lt::preference_alignment_left, swaps ? alignments.right : alignments.left);
    prefer(lt::preference_alignment_right, swaps ? alignments.left : alignments.right);
    prefer(lt::preference_alignment_added, alignments.added);
    prefer(lt::preference_alignment_result, alignments.result);
  }

  const Library& library;
  const char* subject = "planning a product";
  lt::Operation operation = nullptr;
  lt::Layout left = nullptr, right = nullptr, result = nullptr;
  lt::Preference preference = nullptr;
};

LtPlan::LtPlan(const Library& library, std::unique_ptr<LtDescriptions> descriptions, bool swaps)
    : library_(library), descriptions_(std::move(descriptions)), swaps_(swaps) {}
LtPlan::~LtPlan() = default;

std::shared_ptr<const LtPlan> LtPlan::find(const Library& library, const Problem& problem,
                                           const Alignments& alignments, const LtOptions& options,
                                           int64_t workspace_bytes, std::string& why_not,
                                           const Tuning* tuning) {
  auto sides = sides_of(problem);
  if (!sides) {
    why_not = "cuBLASLt has no form for its strides and sizes";
    return nullptr;
  }
  auto made = std::make_unique<LtDescriptions>(library);
  made->make(problem, *sides, options);
  made->prefer(alignments, sides->swaps, options, workspace_bytes);
  // The epilogue is planned for with an address, which every call puts in.
  if (problem.bias) made->set(lt::operation_bias, std::uintptr_t{best_alignment});
  constexpr int most_candidates = 8;
  std::vector<lt::Candidate> candidates(tuning ? most_candidates : 1);
  int found = 0;
  lt::Status status = library.functions().cublasLtMatmulAlgoGetHeuristic(
      library.handle(), made->operation, made->left, made->right, made->result, made->result,
      made->preference, static_cast<int>(candidates.size()), candidates.data(), &found);
  bool is_declined = status == lt::not_supported || status == lt::invalid_value ||
                     status == lt::architecture_mismatch;
  if (!is_declined) library.check(status, "cublasLtMatmulAlgoGetHeuristic", made->subject);
  if (is_declined || found == 0 || candidates[0].state != lt::success) {
    why_not = text("cuBLASLt has no algorithm for it ({})",
                   library.name_of(is_declined ? status : lt::Status{lt::not_supported}));
    return nullptr;
  }
  auto out = std::make_shared<LtPlan>(library, std::move(made), sides->swaps);
  out->take(candidates[0]);
  if (!tuning) return out;
  candidates.resize(static_cast<size_t>(found));
  std::erase_if(candidates, [](const lt::Candidate& c) { return c.state != lt::success; });
  out->take(candidates[out->fastest(problem, options, *tuning, candidates)]);
  return out;
}

void LtPlan::take(const lt::Candidate& candidate) {
  algorithm_ = candidate.algorithm;
  workspace_bytes_ = static_cast<int64_t>(candidate.workspace_bytes);
}

namespace {

/// A matrix of a problem in memory of its own: what it spans, in elements.
struct TrialMatrix {
  const Matrix* matrix;
  int64_t rows, columns;
  int32_t dtype;

  int64_t elements(int64_t batches) const {
    return matrix->offset + (batches - 1) * matrix->batch + (rows - 1) * matrix->row +
           (columns - 1) * matrix->column + 1;
  }
};

/// Operands first, the result last.
std::vector<TrialMatrix> matrices_of(const Problem& p) {
  std::vector<TrialMatrix> out{{&p.left, p.m, p.k, p.dtype}, {&p.right, p.k, p.n, p.dtype}};
  if (p.bias) out.push_back({&*p.bias, 1, p.n, p.bias_dtype});
  if (p.added) out.push_back({&*p.added, p.m, p.n, p.result_dtype});
  out.push_back({&p.result, p.m, p.n, p.result_dtype});
  return out;
}

}  // namespace

std::string LtPlan::key_of(const Problem& p, const LtOptions& options) {
  std::string out =
      text("cublaslt {} {} {} batches {} {} x {} x {} by {} {}", p.dtype, p.result_dtype,
           p.bias_dtype, p.batches, p.m, p.k, p.n, p.alpha, static_cast<int>(p.function));
  for (const TrialMatrix& t : matrices_of(p))
    out += text(" {} {} {}", t.matrix->batch, t.matrix->row, t.matrix->column);
  return out + text(" tf32 {} {} {} {}", options.allows_tf32, options.deterministic,
                    p.bias.has_value(), p.added.has_value());
}

std::string LtPlan::kernel_key(const Problem& p) const {
  std::string out = text("{} {} {} {} {} {} {} ", p.dtype, p.result_dtype, swaps_,
                         static_cast<int>(epilogue_of(p)), p.batches > 1, p.left.column == 1,
                         p.right.column == 1);
  out += p.added ? "added " : "";
  return out.append(reinterpret_cast<const char*>(&algorithm_), sizeof algorithm_);
}

// Each matrix has a buffer of its own, where the problem's may share some.
size_t LtPlan::fastest(const Problem& problem, const LtOptions& options, const Tuning& tuning,
                       std::span<const lt::Candidate> candidates) {
  std::vector<TrialMatrix> matrices = matrices_of(problem);
  std::vector<TrialMemory> memory;
  for (const TrialMatrix& t : matrices)
    memory.push_back({t.elements(problem.batches) * loopir::item_size(t.dtype), t.dtype,
                      t.matrix == &problem.result});
  memory.push_back({most_workspace_bytes, TN_F32, false});
  Problem own = problem;
  Id next = 0;
  own.left.buffer = next++, own.right.buffer = next++;
  if (own.bias) own.bias->buffer = next++;
  if (own.added) own.added->buffer = next++;
  own.result.buffer = next;
  auto run_one = [&](size_t which, std::span<void* const> addresses, void* stream) {
    take(candidates[which]);
    try {
      run(own, addresses, addresses.back(), static_cast<lt::Stream>(stream), "max_autotune");
    } catch (const tenon::plugin::error&) {
      return false;
    }
    return true;
  };
  return tuning.fastest(key_of(problem, options), memory, candidates.size(), run_one);
}

namespace {

/// A factor in the type that the library wants.
struct Scale {
  float narrow;
  double wide;
  explicit Scale(double value) : narrow(static_cast<float>(value)), wide(value) {}
  const void* of(int32_t dtype) const {
    return dtype == TN_F64 ? static_cast<const void*>(&wide) : &narrow;
  }
};

}  // namespace

lt::Status LtPlan::enqueue(const LtDescriptions& d, const Problem& p,
                           std::span<void* const> pointers, void* workspace,
                           int64_t workspace_bytes, lt::Stream stream) const {
  Scale alpha(p.alpha), beta(p.added ? 1 : 0);
  const void* left = place_of(p.left, p.dtype, pointers);
  const void* right = place_of(p.right, p.dtype, pointers);
  void* result = place_of(p.result, p.result_dtype, pointers);
  const void* added = p.added ? place_of(*p.added, p.result_dtype, pointers) : result;
  return library_.functions().cublasLtMatmul(
      library_.handle(), d.operation, alpha.of(p.dtype), swaps_ ? right : left, d.left,
      swaps_ ? left : right, d.right, beta.of(p.dtype), added, d.result, result, d.result,
      &algorithm_, workspace, static_cast<size_t>(workspace_bytes), stream);
}

void LtPlan::run(const Problem& p, std::span<void* const> pointers, void* workspace,
                 lt::Stream stream, const std::string& name) const {
  std::unique_lock<std::mutex> lock;
  if (p.bias) {
    lock = std::unique_lock(guarding_bias_);
    descriptions_->set(lt::operation_bias, place_of(*p.bias, p.bias_dtype, pointers));
  }
  lt::Status status = enqueue(*descriptions_, p, pointers, workspace, workspace_bytes_, stream);
  if (status == lt::success) return;
  library_.check(status, "cublasLtMatmul",
                 text("product {} of [{}, {}, {}] x [{}, {}, {}]", name, p.batches, p.m, p.k,
                      p.batches, p.k, p.n));
}

bool LtPlan::runs_another(const Problem& p, const LtOptions& options,
                          std::span<void* const> pointers, void* workspace, int64_t workspace_bytes,
                          lt::Stream stream) const {
  auto sides = sides_of(p);
  if (!sides || sides->swaps != swaps_) return false;
  LtDescriptions own(library_);
  own.make(p, *sides, options);
  if (p.bias) own.set(lt::operation_bias, place_of(*p.bias, p.bias_dtype, pointers));
  return enqueue(own, p, pointers, workspace, workspace_bytes, stream) == lt::success;
}

}  // namespace inductor_cuda
