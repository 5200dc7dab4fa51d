// A backend whose constructor throws, which runs in the entry of the plugin.
#include <tenon/plugin.hpp>

using namespace tenon::plugin;

namespace {

struct Fails : Backend {
  Fails() { throw std::runtime_error("no licence"); }
  artifact compile(const tn_compile_request& request) {
    return interpret(request.ctx, request.graph);
  }
};

}  // namespace

TN_MANIFEST(R"(
manifest = 1
plugin = { name = "fault_wrapped_entry", version = "0.1.0", abi = "1.0" }
[[backend]]
name = "fault_wrapped_entry"
)");

TENON_PLUGIN_BACKENDS((Fails, "fault_wrapped_entry"))
