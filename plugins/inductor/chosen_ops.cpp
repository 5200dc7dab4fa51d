#include "chosen_ops.h"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

namespace inductor {

using namespace tenon::plugin;

namespace {

constexpr std::array weighting{
    std::string_view("aten.upsample_linear1d."), std::string_view("aten.upsample_bilinear2d."),
    std::string_view("aten.upsample_trilinear3d."), std::string_view("aten.upsample_bicubic2d.")};

/// Their derivatives: code has to ask each element which results it took part in, and takes 3 to 90
/// times as long as the host, which adds whole rows.
constexpr std::array weighting_backward{std::string_view("aten.upsample_linear1d_backward."),
                                        std::string_view("aten.upsample_bilinear2d_backward."),
                                        std::string_view("aten.upsample_trilinear3d_backward."),
                                        std::string_view("aten.upsample_bicubic2d_backward.")};

/// Of the sizes for which the graph was recorded; 0 where only the run knows one.
int64_t elements_of(const value& v) {
  int64_t n = 1;
  for (const tn_dim& d : v.dims())
    n *= d.expr == TN_EXPR_STATIC || (d.flags & TN_DIM_HAS_HINT) ? d.value : 0;
  return n;
}

/// By value: whether it depends on parameters and constants only.
class StaticValues {
 public:
  explicit StaticValues(const graph& g) : is_static_(g.values()) {
    for (uint32_t id = 0; id < g.values(); ++id) {
      value v = g.value_at(id);
      bool is_kept = (v.flags & (TN_V_PARAMETER | TN_V_BUFFER | TN_V_STATIC_ADDRESS)) != 0;
      is_static_[id] = v.source == TN_SRC_CONSTANT ||
                       (v.source == TN_SRC_INPUT && is_kept && !(v.flags & TN_V_MUTATED));
    }
  }
  bool holds(uint32_t value) const { return is_static_[value]; }
  void see(const node& n) {
    bool are_all = n.n_args > 0;
    for (const tn_arg& a : n.arguments())
      if (a.kind == TN_ARG_VALUE) are_all &= holds(a.u.value);
    for (uint32_t r = 0; r < n.n_results; ++r) is_static_[n.first_result + r] = are_all;
  }

 private:
  std::vector<bool> is_static_;
};

bool is_one_of(std::span<const std::string_view> ops, std::string_view name) {
  return std::ranges::any_of(ops, [&](auto op) { return name.starts_with(op); });
}

// A call of the host takes a microsecond.
bool is_faster_on_host(const graph& g, const node& n) {
  constexpr int64_t fewest = 2048;
  std::string_view name = sv(n.op_name);
  bool is_backward = is_one_of(weighting_backward, name);
  if (!is_backward && !is_one_of(weighting, name)) return false;
  if (n.args[0].kind != TN_ARG_VALUE) return false;
  int64_t made = elements_of(g.value_at(n.first_result)),
          read = elements_of(g.value_at(n.args[0].u.value));
  if (is_backward) return std::max(made, read) >= fewest;
  bool reads_much = name.starts_with("aten.upsample_bicubic2d.") || made > read;
  return made >= fewest && reads_much;
}

}  // namespace

std::set<uint32_t> nodes_for_host(const tn_compile_request& request) {
  graph g(request);
  StaticValues known(g);
  std::set<uint32_t> out;
  for (uint32_t i = 0; i < g.size(); ++i) {
    node n = g.at(i);
    known.see(n);
    if (n.n_results > 0 && !known.holds(n.first_result) && is_faster_on_host(g, n)) out.insert(i);
  }
  return out;
}

}  // namespace inductor
