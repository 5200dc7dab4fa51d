// aot_eager: the stages before the backend (autograd, functionalisation, decomposition, partition),
// then the host's interpreter. What differs between the entries stands in the manifest.
#include <tenon/plugin.hpp>

using namespace tenon::plugin;

namespace {

struct Interpreted : Backend {
  artifact compile(const tn_compile_request& request) {
    return interpret(request.ctx, request.graph);
  }
};

}  // namespace

TENON_PLUGIN_BACKENDS((Interpreted, "aot_eager"), (Interpreted, "aot_eager_default_partitioner"),
                      (Interpreted, "aot_eager_decomp_partition"))
