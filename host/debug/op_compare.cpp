// Results of op calls, and their comparison with what was recorded.
#include "debug/op_compare.h"

#include "core/sym/shape_env.h"
#include "core/sym/sym_eval.h"
#include "ops/kernel_loops.h"

#include <algorithm>
#include <cmath>

namespace tenon {

OpResults::~OpResults() {
  for (Value& v : values) drop(v);
}

void run_op(const OpEntry& op, const CallValues& call, OpResults& results) {
  dispatch(op, call.values.data(), static_cast<uint32_t>(call.values.size()), results.values.data(),
           static_cast<uint32_t>(results.values.size()));
}

std::vector<Value> flattened(const OpResults& results) {
  std::vector<Value> flat;
  for (const Value& v : results.values) {
    if (v.tag == Tag::tensors_owned)
      for (const Tensor& t : *v.as<std::vector<Tensor>>()) flat.push_back(Value::of(t));
    else
      flat.push_back(v);
  }
  return flat;
}

std::vector<formats::JsonView> expected_of(const RecordedCall& c) {
  if (!c.out.is_array()) return {c.out};
  std::vector<formats::JsonView> flat;
  for (const formats::JsonView& result : c.out.items()) {
    std::vector<formats::JsonView> parts{result};
    if (result.is_array()) parts = result.items();
    flat.insert(flat.end(), parts.begin(), parts.end());
  }
  return flat;
}

Tensor tensor_in(const Value& v) {
  if (v.tag == Tag::tensor) return *v.as<Tensor>();
  if (v.tag != Tag::tensor_owned) return Tensor();
  auto* head = reinterpret_cast<detail::TensorHead*>(v.payload);
  Tensor borrowed = Tensor::adopt(head), copy = borrowed;
  borrowed.release();
  return copy;
}

namespace {

int64_t plain_or(SymInt v, int64_t unknown) {
  if (!v.is_symbolic()) return v.word();
  return current_shape_env()->int_hint(v).value_or(unknown);
}

std::string shape_difference(const Tensor& found, const Tensor& expected) {
  if (found.dtype() != expected.dtype())
    return message("dtype {}, expected {}", found.dtype(), expected.dtype());
  bool same = found.dim() == expected.dim();
  for (size_t d = 0; same && d < found.sizes().size(); ++d)
    same = plain_or(found.sizes()[d], expected.sizes()[d].word()) == expected.sizes()[d].word();
  return same ? ""
              : message("shape {}, expected {}", symbolic_text(found.sizes()),
                        symbolic_text(expected.sizes()));
}

// The stride of a dimension of size 1 means nothing.
std::string stride_difference(const Tensor& found, const Tensor& expected) {
  if (numel_of(expected) == 0) return "";
  for (size_t d = 0; d < found.sizes().size(); ++d)
    if (expected.sizes()[d].word() != 1 &&
        plain_or(found.strides()[d], expected.strides()[d].word()) != expected.strides()[d].word())
      return message("strides {}, expected {} (shape {})", symbolic_text(found.strides()),
                     symbolic_text(expected.strides()), symbolic_text(expected.sizes()));
  return "";
}

struct Tolerance {
  double relative, absolute;
};

Tolerance tolerance_of(Dtype dtype, bool sums) {
  switch (dtype) {
    case Dtype::f64:
    case Dtype::c128:
      return {1e-9, 1e-12};
    case Dtype::f32:
    case Dtype::c64:
      return {sums ? 1e-4 : 1e-5, 1e-6};
    case Dtype::f16:
    case Dtype::c32:
      return {2 * 0x1p-10, 0x1p-14};
    case Dtype::bf16:
      return {2 * 0x1p-7, 0x1p-14};
    default:
      return {0, 0};
  }
}

std::vector<double> doubles_of(const Tensor& t) {
  Tensor real = t;
  if (is_complex(t.dtype())) {
    Dims sizes = dims_of(t.sizes());
    Dtype part = t.dtype() == Dtype::c32   ? Dtype::f16
                 : t.dtype() == Dtype::c64 ? Dtype::f32
                                           : Dtype::f64;
    Tensor dense = contiguous_of(t);
    real = make_view_as(dense, part, {numel_of(t) * 2}, {1}, dense.storage_offset() * 2);
  }
  Tensor wide = converted(real, Dtype::f64);
  return {data_of<double>(wide), data_of<double>(wide) + numel_of(wide)};
}

std::string integer_difference(const Tensor& found, const Tensor& expected) {
  Tensor a = converted(found, Dtype::i64), b = converted(expected, Dtype::i64);
  for (int64_t i = 0; i < numel_of(a); ++i)
    if (data_of<int64_t>(a)[i] != data_of<int64_t>(b)[i])
      return message("element {} is {}, expected {}", i, data_of<int64_t>(a)[i],
                     data_of<int64_t>(b)[i]);
  return "";
}

// Ops that add up products of signs that differ, but count as none of the tagged kinds.
bool sums_untagged(const OpEntry& op) {
  constexpr std::string_view parts[] = {"upsample_",        "scaled_dot_product", "linalg_",
                                        "grid_sampler",     "matrix_exp",         "_norm_backward",
                                        "adaptive_avg_pool"};
  std::string_view name = op.name;
  return std::any_of(std::begin(parts), std::end(parts), [&](std::string_view part) {
    return name.find(part) != std::string_view::npos;
  });
}

std::string value_difference(const Tensor& found, const Tensor& expected, bool sums) {
  if (!is_floating(expected.dtype()) && !is_complex(expected.dtype()))
    return integer_difference(found, expected);
  std::vector<double> a = doubles_of(found), b = doubles_of(expected);
  Tolerance allowed = tolerance_of(expected.dtype(), sums);
  double largest = 0;
  for (double x : b)
    if (std::isfinite(x)) largest = std::max(largest, std::fabs(x));
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (a[i] == b[i]) continue;
    double bound = allowed.relative * (sums ? largest : std::fabs(b[i])) + allowed.absolute;
    if (!(std::fabs(a[i] - b[i]) <= bound) || !std::isfinite(bound))
      return message("element {} is {}, expected {}", i, a[i], b[i]);
  }
  return "";
}

std::string number_difference(const Value& found, const formats::JsonView& expected) {
  if (!found.is_number()) return "a number was expected";
  if (found.number().is_symbolic()) return "";
  double a = found.number().to_double(), b = recorded_number(expected).to_double();
  return a == b || (std::isnan(a) && std::isnan(b)) ? "" : message("number {}, expected {}", a, b);
}

}  // namespace

OpDifference compare_tensor(const Tensor& found, const Tensor& expected, const OpEntry& op,
                            bool with_values) {
  OpDifference d;
  d.values = shape_difference(found, expected);
  if (!d.values.empty()) return d;
  bool sums = op.tags & (TN_TAG_REDUCTION | TN_TAG_MATMUL | TN_TAG_CONV) || sums_untagged(op);
  if (with_values) d.values = value_difference(found, expected, sums);
  d.strides = stride_difference(found, expected);
  return d;
}

OpDifference compare_gradient(const Tensor& found, const Tensor& expected) {
  OpDifference d;
  d.values = shape_difference(found, expected);
  if (d.values.empty()) d.values = value_difference(found, expected, true);
  return d;
}

namespace {

double largest_error(const Tensor& found, const Tensor& exact) {
  std::vector<double> a = doubles_of(found), b = doubles_of(exact);
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    double error = std::fabs(a[i] - b[i]);
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
  }
  return worst;
}

}  // namespace

Rounding rounding_of(const Tensor& found, const Tensor& expected, const Tensor& exact) {
  if (!exact.defined() || !is_floating(expected.dtype())) return {};
  return {largest_error(found, exact), largest_error(expected, exact)};
}

OpDifference compare_results(const OpRecording& recording, const OpEntry& op,
                             const RecordedCall& call, const OpResults& results, bool with_values) {
  std::vector<Value> found = flattened(results);
  std::vector<formats::JsonView> expected = expected_of(call);
  if (found.size() != expected.size())
    return {message("{} results, expected {}", found.size(), expected.size()), ""};
  OpDifference all;
  for (size_t i = 0; i < found.size() && all.values.empty(); ++i) {
    if (expected[i].is_null()) continue;
    if (!is_recorded_tensor(expected[i])) {
      all.values = number_difference(found[i], expected[i]);
      continue;
    }
    Tensor mine = tensor_in(found[i]);
    if (!mine.defined()) return {message("result {} is not defined", i), ""};
    OpDifference one = compare_tensor(mine, recording.tensor(expected[i]), op, with_values);
    all.values = one.values;
    if (all.strides.empty()) all.strides = one.strides;
  }
  return all;
}

}  // namespace tenon
