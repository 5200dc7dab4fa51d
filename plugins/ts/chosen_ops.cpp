// The table of ops that the host's own kernels do faster than steps over blocks of elements.
#include "chosen_ops.h"

#include <algorithm>
#include <array>

using namespace tenon::plugin;

namespace {

/// How the names of such ops begin.
constexpr std::array left_to_host = {
    std::string_view("aten._unsafe_index_put"),
    std::string_view("aten._upsample"),
    std::string_view("aten.cum"),
    std::string_view("aten.embedding_dense_backward"),
    std::string_view("aten.fractional_max_pool"),
    std::string_view("aten.index_put"),
    std::string_view("aten.logcumsumexp"),
    std::string_view("aten.max_unpool"),
    std::string_view("aten.put"),
    std::string_view("aten.reflection_pad"),
    std::string_view("aten.replication_pad"),
    std::string_view("aten.scatter"),
    std::string_view("aten.upsample"),
};

}  // namespace

std::set<uint32_t> nodes_for_host(const tn_compile_request& request) {
  graph g(request);
  std::set<uint32_t> out;
  for (uint32_t i = 0; i < g.size(); ++i) {
    std::string_view name = sv(g.at(i).op_name);
    if (std::ranges::any_of(left_to_host, [&](auto start) { return name.starts_with(start); }))
      out.insert(i);
  }
  return out;
}
