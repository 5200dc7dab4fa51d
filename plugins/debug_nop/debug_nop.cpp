// debug_nop: runs node by node and checks each tensor result against what tracing had promised.
#include <tenon/plugin_program.hpp>

using namespace tenon::plugin;

namespace {

/// A size or stride: a number, or the position of a kept expression.
struct Length {
  int64_t value;
  uint32_t expression = TN_EXPR_STATIC;

  int64_t in(const step& s) const {
    return expression == TN_EXPR_STATIC ? value : s.numbers[expression];
  }
};

/// What tracing said of one result.
struct Promise {
  bool is_tensor;
  int32_t dtype;
  std::vector<Length> sizes, strides;
};

std::string dtype_name(int32_t dtype) {
  switch (dtype) {
    case TN_U8:
      return "u8";
    case TN_I8:
      return "i8";
    case TN_I16:
      return "i16";
    case TN_I32:
      return "i32";
    case TN_I64:
      return "i64";
    case TN_F16:
      return "f16";
    case TN_F32:
      return "f32";
    case TN_F64:
      return "f64";
    case TN_BOOL:
      return "bool";
    case TN_BF16:
      return "bf16";
    default:
      return text("dtype {}", dtype);
  }
}

std::string listed(std::span<const int64_t> numbers) {
  std::string out;
  for (int64_t n : numbers) out += (out.empty() ? "" : ", ") + std::to_string(n);
  return "(" + out + ")";
}

std::vector<int64_t> evaluated(const std::vector<Length>& lengths, const step& s) {
  std::vector<int64_t> out;
  for (const Length& l : lengths) out.push_back(l.in(s));
  return out;
}

class Checked {
 public:
  explicit Checked(const tn_compile_request& request) : program_(request) {
    graph g(request);
    for (uint32_t i = 0; i < g.size(); ++i) {
      node n = g.at(i);
      auto& promises = promises_.emplace_back();
      for (uint32_t r = 0; r < n.n_results; ++r)
        promises.push_back(promise_of(g, g.value_at(n.first_result + r)));
    }
  }

  void call(tn_call& c) {
    program_.run(c, [this](const step& s, auto&& run) {
      run();
      for (size_t r = 0; r < s.results().size(); ++r) check_result(s, r);
    });
  }

 private:
  Promise promise_of(const graph& g, const value& v) {
    Promise p{v.is_tensor(), v.dtype, {}, {}};
    for (const tn_dim& d : v.dims()) p.sizes.push_back(length_of(g, d));
    for (const tn_dim& d : v.stride_dims()) p.strides.push_back(length_of(g, d));
    return p;
  }
  Length length_of(const graph& g, const tn_dim& d) {
    if (d.expr == TN_EXPR_STATIC) return {d.value};
    return {0, program_.expressions().keep(g, d.expr)};
  }

  void check_result(const step& s, size_t r) const {
    const Promise& p = promises_[s.index][r];
    const tn_tensor* found = s.results()[r];
    if (!p.is_tensor || !found) return;
    if (found->dtype != p.dtype)
      differ(s, r, "dtype", dtype_name(p.dtype), dtype_name(found->dtype));
    std::vector<int64_t> expected = evaluated(p.sizes, s);
    if (!std::ranges::equal(expected, sizes(found)))
      differ(s, r, "sizes", listed(expected), listed(sizes(found)));
    check_strides(s, r, evaluated(p.strides, s), *found);
  }
  // A dimension of length 1 is never stepped over, and nothing is read of an empty tensor.
  static void check_strides(const step& s, size_t r, const std::vector<int64_t>& expected,
                            const tn_tensor& found) {
    if (found.numel == 0) return;
    for (size_t d = 0; d < expected.size(); ++d)
      if (found.sizes[d] > 1 && found.strides[d] != expected[d])
        differ(s, r, "strides", listed(expected), listed(strides(&found)));
  }
  [[noreturn]] static void differ(const step& s, size_t r, std::string_view what,
                                  const std::string& expected, const std::string& found) {
    throw error(
        TN_INTERNAL,
        text("debug_nop: result {} of node {} ({}): expected {} {} as traced, found {}; the "
             "op's shape function and its kernel disagree",
             r, s.name, s.node.op_name, what, expected, found));
  }

  program program_;
  std::vector<std::vector<Promise>> promises_;  // by node and result
};

struct DebugNop : Backend {
  std::unique_ptr<Checked> compile(const tn_compile_request& request) {
    return std::make_unique<Checked>(request);
  }
};

}  // namespace

TENON_PLUGIN_BACKENDS((DebugNop, "debug_nop"), (DebugNop, "aot_eager_decomp_partition_crossref"))
