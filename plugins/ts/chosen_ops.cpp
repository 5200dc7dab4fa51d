#include "chosen_ops.h"

#include <algorithm>
#include <array>

using namespace tenon::plugin;

namespace {

/// Ops without a formula that blocks or libraries do well.
constexpr std::array chosen = {
    std::string_view("aten._to_copy.default"),
    std::string_view("aten.addmm.default"),
    std::string_view("aten.alias.default"),
    std::string_view("aten.arange.start_step"),
    std::string_view("aten.baddbmm.default"),
    std::string_view("aten.bmm.default"),
    std::string_view("aten.cat.default"),
    std::string_view("aten.clone.default"),
    std::string_view("aten.constant_pad_nd.default"),
    std::string_view("aten.convolution.default"),
    std::string_view("aten.convolution_backward.default"),
    std::string_view("aten.copy.default"),
    std::string_view("aten.embedding.default"),
    std::string_view("aten.fill.Scalar"),
    std::string_view("aten.full.default"),
    std::string_view("aten.full_like.default"),
    std::string_view("aten.gru.input"),
    std::string_view("aten.lstm.input"),
    std::string_view("aten.mm.default"),
    std::string_view("aten.repeat.default"),
    std::string_view("aten.rnn_relu.input"),
    std::string_view("aten.rnn_tanh.input"),
    std::string_view("aten.scalar_tensor.default"),
    std::string_view("aten.scaled_dot_product_attention.default"),
};

bool is_chosen(const node& n) {
  static_assert(std::ranges::is_sorted(chosen));
  if (n.tags & TN_TAG_VIEW) return true;
  if (std::ranges::binary_search(chosen, sv(n.op_name))) return true;
  return formula_of(n.op, n.arguments()).has_value();
}

}  // namespace

std::set<uint32_t> nodes_for_host(const tn_compile_request& request) {
  graph g(request);
  std::set<uint32_t> out;
  for (uint32_t i = 0; i < g.size(); ++i)
    if (!is_chosen(g.at(i))) out.insert(i);
  return out;
}
