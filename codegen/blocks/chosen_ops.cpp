// The table of ops that the host's own kernels do faster than steps over blocks of elements.
#include "chosen_ops.h"

#include <algorithm>
#include <array>

namespace blocks {

using namespace tenon::plugin;

namespace {

/// How the names of such ops begin.
constexpr std::array left_to_host = {
    std::string_view("aten._adaptive_avg_pool"),
    std::string_view("aten._unsafe_index_put"),
    std::string_view("aten._upsample"),
    std::string_view("aten.adaptive_max_pool"),
    std::string_view("aten.constant_pad_nd"),
    std::string_view("aten.cum"),
    std::string_view("aten.embedding_dense_backward"),
    std::string_view("aten.fractional_max_pool"),
    std::string_view("aten.index_add"),
    std::string_view("aten.index_put"),
    std::string_view("aten.logcumsumexp"),
    std::string_view("aten.max_unpool"),
    std::string_view("aten.put"),
    std::string_view("aten.reflection_pad"),
    std::string_view("aten.replication_pad"),
    std::string_view("aten.scatter"),
    std::string_view("aten.upsample"),
};

/// The same where sizes are symbols: whether a window lies within its image is then asked for each
/// element.
constexpr std::array left_with_symbols = {std::string_view("aten.avg_pool"),
                                          std::string_view("aten.max_pool")};

bool has_symbols_in_space(const value& v) {
  auto dims = v.dims();
  return std::any_of(dims.begin() + std::min<size_t>(dims.size(), 2), dims.end(),
                     [](const tn_dim& d) { return d.expr != TN_EXPR_STATIC; });
}

template <size_t n>
bool begins_as(std::string_view name, const std::array<std::string_view, n>& starts) {
  return std::ranges::any_of(starts, [&](auto start) { return name.starts_with(start); });
}

}  // namespace

std::set<uint32_t> nodes_for_host(const tn_compile_request& request) {
  graph g(request);
  std::set<uint32_t> out;
  for (uint32_t i = 0; i < g.size(); ++i) {
    node n = g.at(i);
    std::string_view name = sv(n.op_name);
    if (begins_as(name, left_to_host) ||
        (begins_as(name, left_with_symbols) && has_symbols_in_space(g.value_at(n.first_result))))
      out.insert(i);
  }
  return out;
}

}  // namespace blocks
