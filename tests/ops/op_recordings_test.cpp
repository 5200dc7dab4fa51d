// Runs every recorded call of PyTorch through the op table: eager values, and shapes on fakes.
//
//   op_recordings_test [--summary FILE] [--failing] [--missing] [op ...]
//
// An op is a name with or without "aten." and overload; "*" at the end takes all that begin so.
// TENON_REFERENCE names the folder that holds ops/ (../shared/reference). For each op three counts
// of passed cases are printed: eager (dtype, shape, values), strides (of the eager results), meta
// (dtype, shape and strides on fakes with plain sizes, then with all sizes symbolic), how many of
// the latter fixed a size to its example, and the first failure. Without op names the run fails
// below the thresholds that stand at the top.
//
// Tolerances: f64 1e-9, f32 1e-5 (1e-4 where the op sums many products) relative + 1e-6 absolute,
// f16 and bf16 two units in the last place; integers exact; NaN equals NaN. Where the op sums, the
// magnitude is that of the largest element of the result.
#include "ops/recordings.h"

#include "core/sym_eval.h"
#include "ops/kernel_loops.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>

namespace tenon::testing {
namespace {

struct Threshold {
  double eager = 0.97, strides = 0.97, meta = 0.95, symbolic = 0.90;
  int ops = 670;  ///< recorded overloads that the table must know
};
constexpr Threshold threshold;

struct Count {
  int passed = 0, run = 0;
  void add(bool ok) { passed += ok, ++run; }
  double rate() const { return run ? static_cast<double>(passed) / run : 1; }
  std::string text() const { return message("{}/{}", passed, run); }
  Count& operator+=(const Count& o) { return passed += o.passed, run += o.run, *this; }
};

struct OpReport {
  std::string op;
  Count eager, strides, meta, symbolic;
  int fixed = 0;  ///< cases in which a symbolic size was fixed to its example
  std::string first;
  bool failed() const { return !first.empty(); }
};

// ---- results of a call

struct Results {
  std::vector<Value> values;
  explicit Results(size_t n) : values(n) {}
  ~Results() {
    for (Value& v : values) drop(v);
  }
  Results(const Results&) = delete;
};

void run(const OpEntry& op, const CallValues& call, Results& results) {
  dispatch(op, call.values.data(), static_cast<uint32_t>(call.values.size()), results.values.data(),
           static_cast<uint32_t>(results.values.size()));
}

// A list result stands for its elements.
std::vector<Value> flattened(const Results& results) {
  std::vector<Value> flat;
  for (const Value& v : results.values) {
    if (v.tag == Tag::tensors_owned)
      for (const Tensor& t : *v.as<std::vector<Tensor>>()) flat.push_back(Value::of(t));
    else
      flat.push_back(v);
  }
  return flat;
}

std::vector<formats::JsonView> expected_of(const RecordedCase& c) {
  return c.out.is_array() ? c.out.items() : std::vector<formats::JsonView>{c.out};
}

Tensor tensor_in(const Value& v) {
  if (v.tag == Tag::tensor) return *v.as<Tensor>();
  if (v.tag != Tag::tensor_owned) return Tensor();
  auto* head = reinterpret_cast<detail::TensorHead*>(v.payload);
  Tensor borrowed = Tensor::adopt(head), copy = borrowed;
  borrowed.release();
  return copy;
}

// ---- comparison; an empty text means equal

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
              : message("shape {}, expected {}", to_text(found.sizes()), to_text(expected.sizes()));
}

// The stride of a dimension of size 1 means nothing.
std::string stride_difference(const Tensor& found, const Tensor& expected) {
  if (numel_of(expected) == 0) return "";
  for (size_t d = 0; d < found.sizes().size(); ++d)
    if (expected.sizes()[d].word() != 1 &&
        plain_or(found.strides()[d], expected.strides()[d].word()) != expected.strides()[d].word())
      return message("strides {}, expected {} (shape {})", to_text(found.strides()),
                     to_text(expected.strides()), to_text(expected.sizes()));
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
  double a = found.number().to_double(), b = number_of(expected).to_double();
  return a == b || (std::isnan(a) && std::isnan(b)) ? "" : message("number {}, expected {}", a, b);
}

struct Difference {
  std::string values, strides;
};

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

Difference compare(const Recording& r, const OpEntry& op, const RecordedCase& c,
                   const Results& results, bool with_values) {
  std::vector<Value> found = flattened(results);
  std::vector<formats::JsonView> expected = expected_of(c);
  if (found.size() != expected.size())
    return {message("{} results, expected {}", found.size(), expected.size()), ""};
  bool sums = op.tags & (TN_TAG_REDUCTION | TN_TAG_MATMUL | TN_TAG_CONV) || sums_untagged(op);
  Difference d;
  for (size_t i = 0; i < found.size() && d.values.empty(); ++i) {
    if (expected[i].is_null()) continue;
    if (!is_tensor(expected[i])) {
      d.values = number_difference(found[i], expected[i]);
      continue;
    }
    Tensor mine = tensor_in(found[i]), theirs = r.tensor(expected[i]);
    if (!mine.defined()) return {message("result {} is not defined", i), ""};
    d.values = shape_difference(mine, theirs);
    if (!d.values.empty()) break;
    if (with_values) d.values = value_difference(mine, theirs, sums);
    if (d.strides.empty()) d.strides = stride_difference(mine, theirs);
  }
  return d;
}

// ---- one case

void note(OpReport& report, const RecordedCase& c, std::string_view mode, const std::string& what) {
  if (!what.empty() && report.first.empty())
    report.first = message("case {} {}: {}", c.index, mode, what);
}

void run_eager(const Recording& r, const OpEntry& op, const RecordedCase& c, OpReport& report) {
  Difference d;
  try {
    CallValues call = make_call(r, c, op, InputKind::real);
    Results results(op.n_returns);
    run(op, call, results);
    d = compare(r, op, c, results, true);
  } catch (const std::exception& e) {
    d = {e.what(), e.what()};
  }
  report.eager.add(d.values.empty());
  report.strides.add(d.strides.empty());
  note(report, c, "eager", d.values);
  note(report, c, "strides", d.strides);
}

void run_meta_of(const Recording& r, const OpEntry& op, const RecordedCase& c, InputKind kind,
                 OpReport& report) {
  std::string what;
  try {
    std::shared_ptr<ShapeEnv> env = ShapeEnv::make();
    ShapeEnvScope symbols(*env);
    CallValues call = make_call(r, c, op, kind);
    FakeScope fakes;
    Results results(op.n_returns);
    run(op, call, results);
    Difference d = compare(r, op, c, results, false);
    what = d.values.empty() ? d.strides : d.values;
    report.fixed += !env->specializations().empty();
  } catch (const Error& e) {
    // The value of a tensor decides the shape: nothing to compare.
    if (e.code() != ErrorCode::data_dependent) what = e.what();
  } catch (const std::exception& e) {
    what = e.what();
  }
  (kind == InputKind::fake ? report.meta : report.symbolic).add(what.empty());
  note(report, c, kind == InputKind::fake ? "meta" : "symbolic", what);
}

OpReport run_recording(const Recording& r, const OpEntry& op) {
  OpReport report{r.op(), {}, {}, {}, {}, 0, {}};
  for (const RecordedCase& c : r.cases()) {
    run_eager(r, op, c, report);
    run_meta_of(r, op, c, InputKind::fake, report);
    run_meta_of(r, op, c, InputKind::symbolic, report);
  }
  return report;
}

// ---- the program

struct Options {
  std::string summary;
  bool failing = false, missing = false;
  std::vector<std::string> ops;
};

Options parse_options(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    std::string arg = argv[i];
    if (arg == "--summary" && i + 1 < argc)
      o.summary = argv[++i];
    else if (arg == "--failing")
      o.failing = true;
    else if (arg == "--missing")
      o.missing = true;
    else
      o.ops.push_back(arg);
  }
  return o;
}

bool wanted(const std::string& op, const std::vector<std::string>& names) {
  if (names.empty()) return true;
  return std::any_of(names.begin(), names.end(), [&](std::string name) {
    if (!name.starts_with("aten.")) name = "aten." + name;
    if (name.back() == '*') return op.starts_with(name.substr(0, name.size() - 1));
    return op == name || op.starts_with(name + ".");
  });
}

std::string line_of(const OpReport& r) {
  return message("{}: eager {} strides {} meta {} symbolic {} fixed {}{}{}", r.op, r.eager.text(),
                 r.strides.text(), r.meta.text(), r.symbolic.text(), r.fixed,
                 r.failed() ? "  " : "", r.first);
}

std::string name_in(const std::string& path) {
  size_t slash = path.rfind('/');
  return path.substr(slash + 1, path.size() - slash - 1 - std::string_view(".safetensors").size());
}

int verdict(const OpReport& total, int n_ops) {
  bool enough = total.eager.rate() >= threshold.eager &&
                total.strides.rate() >= threshold.strides && total.meta.rate() >= threshold.meta &&
                total.symbolic.rate() >= threshold.symbolic && n_ops >= threshold.ops;
  if (!enough) std::printf("below the thresholds at the top of op_recordings_test.cpp\n");
  return enough ? 0 : 1;
}

int run_all(const Options& options) {
  const char* folder = std::getenv("TENON_REFERENCE");
  std::ofstream summary;
  if (!options.summary.empty()) summary.open(options.summary);
  OpReport total{"all", {}, {}, {}, {}, 0, {}};
  int n_ops = 0, n_missing = 0;
  for (const std::string& path :
       find_recordings(std::string(folder ? folder : "../shared/reference") + "/ops")) {
    std::string name = name_in(path);
    if (!wanted(name, options.ops)) continue;
    const OpEntry* op = find_op(name);
    if (!op) {
      ++n_missing;
      if (options.missing) std::printf("%s: not in the table\n", name.c_str());
      continue;
    }
    OpReport report = run_recording(Recording::read(path), *op);
    ++n_ops;
    total.eager += report.eager, total.strides += report.strides;
    total.meta += report.meta, total.symbolic += report.symbolic, total.fixed += report.fixed;
    std::string line = line_of(report);
    if (!options.failing || report.failed()) std::printf("%s\n", line.c_str());
    std::fflush(stdout);
    summary << line << "\n";
  }
  std::string last =
      line_of(total) + message("  ({} ops, {} recorded ones missing)", n_ops, n_missing);
  std::printf("%s\n", last.c_str());
  summary << last << "\n";
  return options.ops.empty() ? verdict(total, n_ops) : total.eager.passed < total.eager.run;
}

}  // namespace
}  // namespace tenon::testing

int main(int argc, char** argv) {
  try {
    return tenon::testing::run_all(tenon::testing::parse_options(argc, argv));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "op_recordings_test: %s\n", e.what());
    return 2;
  }
}
