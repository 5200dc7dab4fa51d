// The functions of the double of cuBLASLt: descriptions, what is refused, and enqueueing.
#include "cublaslt_work.h"
#include "fake_cublaslt.h"
#include "fake_cuda.h"

#include <cstring>
#include <memory>
#include <mutex>

namespace fake_cublaslt {

namespace {

struct Handle {
  int device;
};
struct Preference {
  uint64_t workspace_bytes = 0;
  uint32_t reductions = lt::reduction_any;
  uint32_t alignments[4] = {256, 256, 256, 256};  // left, right, added, result
};

std::mutex counting;
FakeCublasLtCounts counted{};

Operation& of(lt::Operation o) { return *reinterpret_cast<Operation*>(o); }
Layout& of(lt::Layout l) { return *reinterpret_cast<Layout*>(l); }
Preference& of(lt::Preference p) { return *reinterpret_cast<Preference*>(p); }
Handle& of(lt::Handle h) { return *reinterpret_cast<Handle*>(h); }

/// Runs a function's body unless it is to fail.
template <class F>
lt::Status call(const char* name, F&& body) {
  if (int32_t instead = fake_cuda_instead_of(name)) return instead;
  return body();
}

template <class T>
lt::Status take(T& out, const void* value, size_t bytes) {
  if (!value || bytes != sizeof(T)) return lt::invalid_value;
  std::memcpy(&out, value, bytes);
  return lt::success;
}

// FNV-1a over all that an algorithm is found for. The bias's address is not part of it.
uint64_t digest_of(const Operation& op, std::initializer_list<const Layout*> layouts) {
  uint64_t out = 14695981039346656037u;
  auto add = [&](auto value) { out = (out ^ static_cast<uint64_t>(value)) * 1099511628211u; };
  add(op.compute), add(op.scale), add(op.left), add(op.right), add(op.epilogue);
  for (const Layout* l : layouts)
    add(l->type), add(l->rows), add(l->columns), add(l->column_stride), add(l->batches),
        add(l->batch_stride);
  return out;
}

int64_t rows_of(const Layout& l, lt::Transposition t) {
  return t == lt::as_is ? l.rows : l.columns;
}
int64_t columns_of(const Layout& l, lt::Transposition t) {
  return t == lt::as_is ? l.columns : l.rows;
}

bool is_possible(const Operation& op, const Layout& left, const Layout& right, const Layout& added,
                 const Layout& result) {
  bool fits = rows_of(left, op.left) == result.rows &&
              columns_of(right, op.right) == result.columns &&
              columns_of(left, op.left) == rows_of(right, op.right) && added.rows == result.rows &&
              added.columns == result.columns;
  bool has_batches = left.batches == result.batches && right.batches == result.batches;
  bool wide = op.compute == lt::compute_f64;
  bool has_types = left.type == right.type && added.type == result.type &&
                   wide == (left.type == lt::type_f64) && wide == (op.scale == lt::type_f64) &&
                   (result.type == left.type || (!wide && result.type == lt::type_f32));
  bool is_tf32 = op.compute == lt::compute_tf32;
  return fits && has_batches && has_types && (!is_tf32 || left.type == lt::type_f32) &&
         (!wide || op.epilogue == lt::epilogue_none);
}

bool is_aligned(const void* address, uint32_t alignment) {
  return reinterpret_cast<uintptr_t>(address) % alignment == 0;
}

double number(const void* at, lt::Type type) {
  if (type == lt::type_f64) return *static_cast<const double*>(at);
  return static_cast<double>(*static_cast<const float*>(at));
}

}  // namespace

}  // namespace fake_cublaslt

using namespace fake_cublaslt;

extern "C" {

#define EXPORTED __attribute__((visibility("default")))

EXPORTED FakeCublasLtCounts fake_cublaslt_counts() {
  std::lock_guard lock(counting);
  return counted;
}

EXPORTED lt::Status cublasLtCreate(lt::Handle* handle) {
  return call("cublasLtCreate", [&]() -> lt::Status {
    if (fake_cuda_current() < 0) return lt::not_initialized;
    *handle = reinterpret_cast<lt::Handle>(new Handle{fake_cuda_current()});
    return lt::success;
  });
}
EXPORTED const char* cublasLtGetStatusName(lt::Status status) {
  return status == lt::not_supported ? "CUBLAS_STATUS_NOT_SUPPORTED"
                                     : "CUBLAS_STATUS_OF_THE_DOUBLE";
}
EXPORTED size_t cublasLtGetVersion() { return 130000; }

EXPORTED lt::Status cublasLtMatmulDescCreate(lt::Operation* out, lt::Compute compute,
                                             lt::Type scale) {
  return call("cublasLtMatmulDescCreate", [&] {
    *out = reinterpret_cast<lt::Operation>(new Operation{compute, scale});
    return lt::success;
  });
}
EXPORTED lt::Status cublasLtMatmulDescDestroy(lt::Operation operation) {
  delete &of(operation);
  return lt::success;
}
EXPORTED lt::Status cublasLtMatmulDescSetAttribute(lt::Operation operation,
                                                   lt::OperationAttribute attribute,
                                                   const void* value, size_t bytes) {
  return call("cublasLtMatmulDescSetAttribute", [&]() -> lt::Status {
    Operation& o = of(operation);
    switch (attribute) {
      case lt::operation_left_transposition:
        return take(o.left, value, bytes);
      case lt::operation_right_transposition:
        return take(o.right, value, bytes);
      case lt::operation_epilogue:
        return take(o.epilogue, value, bytes);
      case lt::operation_bias:
        return take(o.bias, value, bytes);
    }
    return lt::invalid_value;
  });
}

EXPORTED lt::Status cublasLtMatrixLayoutCreate(lt::Layout* out, lt::Type type, uint64_t rows,
                                               uint64_t columns, int64_t column_stride) {
  return call("cublasLtMatrixLayoutCreate", [&]() -> lt::Status {
    Layout made{type, static_cast<int64_t>(rows), static_cast<int64_t>(columns), column_stride};
    if (rows == 0 || columns == 0 || column_stride < made.rows) return lt::invalid_value;
    *out = reinterpret_cast<lt::Layout>(new Layout(made));
    return lt::success;
  });
}
EXPORTED lt::Status cublasLtMatrixLayoutDestroy(lt::Layout layout) {
  delete &of(layout);
  return lt::success;
}
EXPORTED lt::Status cublasLtMatrixLayoutSetAttribute(lt::Layout layout,
                                                     lt::LayoutAttribute attribute,
                                                     const void* value, size_t bytes) {
  return call("cublasLtMatrixLayoutSetAttribute", [&]() -> lt::Status {
    Layout& l = of(layout);
    if (attribute == lt::layout_batches) return take(l.batches, value, bytes);
    if (attribute == lt::layout_batch_stride) return take(l.batch_stride, value, bytes);
    return lt::invalid_value;
  });
}

EXPORTED lt::Status cublasLtMatmulPreferenceCreate(lt::Preference* out) {
  return call("cublasLtMatmulPreferenceCreate", [&] {
    *out = reinterpret_cast<lt::Preference>(new Preference);
    return lt::success;
  });
}
EXPORTED lt::Status cublasLtMatmulPreferenceDestroy(lt::Preference preference) {
  delete &of(preference);
  return lt::success;
}
EXPORTED lt::Status cublasLtMatmulPreferenceSetAttribute(lt::Preference preference,
                                                         lt::PreferenceAttribute attribute,
                                                         const void* value, size_t bytes) {
  return call("cublasLtMatmulPreferenceSetAttribute", [&]() -> lt::Status {
    Preference& p = of(preference);
    if (attribute == lt::preference_workspace_bytes) return take(p.workspace_bytes, value, bytes);
    if (attribute == lt::preference_reductions) return take(p.reductions, value, bytes);
    int which = attribute - lt::preference_alignment_left;
    if (which < 0 || which > 3) return lt::invalid_value;
    return take(p.alignments[which], value, bytes);
  });
}

EXPORTED lt::Status cublasLtMatmulAlgoGetHeuristic(lt::Handle handle, lt::Operation operation,
                                                   lt::Layout left, lt::Layout right,
                                                   lt::Layout added, lt::Layout result,
                                                   lt::Preference preference, int wanted,
                                                   lt::Candidate* candidates, int* count) {
  return call("cublasLtMatmulAlgoGetHeuristic", [&]() -> lt::Status {
    *count = 0;
    if (wanted < 1) return lt::invalid_value;
    if (of(handle).device != fake_cuda_current()) return lt::architecture_mismatch;
    const Operation& op = of(operation);
    if (!is_possible(op, of(left), of(right), of(added), of(result))) return lt::not_supported;
    const Preference& p = of(preference);
    Found found{.problem = digest_of(op, {&of(left), &of(right), &of(added), &of(result)}),
                .workspace_bytes = 0,
                .reductions = p.reductions,
                .alignment_left = p.alignments[0],
                .alignment_right = p.alignments[1],
                .alignment_added = p.alignments[2],
                .alignment_result = p.alignments[3]};
    const Layout& r = of(result);
    auto parts = static_cast<uint64_t>(r.rows * r.columns * r.batches) * sizeof(double);
    if (columns_of(of(left), op.left) >= 64 && parts <= p.workspace_bytes)
      found.workspace_bytes = parts;
    candidates[0] = {};
    std::memcpy(&candidates[0].algorithm, &found, sizeof found);
    candidates[0].workspace_bytes = found.workspace_bytes;
    candidates[0].waves = 1;
    *count = 1;
    std::lock_guard lock(counting);
    ++counted.plans;
    return lt::success;
  });
}

EXPORTED lt::Status cublasLtMatmul(lt::Handle handle, lt::Operation operation, const void* alpha,
                                   const void* left, lt::Layout left_layout, const void* right,
                                   lt::Layout right_layout, const void* beta, const void* added,
                                   lt::Layout added_layout, void* result, lt::Layout result_layout,
                                   const lt::Algorithm* algorithm, void* workspace,
                                   size_t workspace_bytes, lt::Stream stream) {
  return call("cublasLtMatmul", [&]() -> lt::Status {
    if (of(handle).device != fake_cuda_current()) return lt::architecture_mismatch;
    const Operation& op = of(operation);
    Found found;
    std::memcpy(&found, algorithm, sizeof found);
    uint64_t problem =
        digest_of(op, {&of(left_layout), &of(right_layout), &of(added_layout), &of(result_layout)});
    bool is_ready = found.problem == problem && workspace_bytes >= found.workspace_bytes &&
                    (!found.workspace_bytes || workspace);
    bool is_placed =
        is_aligned(left, found.alignment_left) && is_aligned(right, found.alignment_right) &&
        is_aligned(added, found.alignment_added) && is_aligned(result, found.alignment_result) &&
        is_aligned(workspace, found.workspace_bytes ? 256 : 1);
    if (!is_ready || !is_placed) return lt::invalid_value;
    auto work = std::make_unique<Product>(Product{op, of(left_layout), of(right_layout),
                                                  of(added_layout), of(result_layout),
                                                  number(alpha, op.scale), number(beta, op.scale),
                                                  left, right, added, result, workspace, found});
    FakeCudaWork enqueued{work.get(),
                          [](void* self, bool (*may_touch)(const void*, size_t)) {
                            return static_cast<Product*>(self)->run(may_touch);
                          },
                          [](void* self) { delete static_cast<Product*>(self); }};
    if (fake_cuda_enqueue(stream, &enqueued)) return lt::execution_failed;
    work.release();
    std::lock_guard lock(counting);
    ++counted.products;
    counted.compute = op.compute;
    counted.epilogue = op.epilogue;
    counted.reductions = found.reductions;
    counted.workspace_bytes = found.workspace_bytes;
    counted.beta = static_cast<float>(number(beta, op.scale));
    return lt::success;
  });
}
}
