// inductor: fused loops as machine code for this CPU, products and convolutions by oneDNN.
#include "compile.h"

using namespace tenon::plugin;

namespace {

struct Inductor : Backend {
  std::unique_ptr<inductor::Executable> compile(const tn_compile_request& request) {
    return inductor::compile(request);
  }
  std::string fingerprint() { return inductor::fingerprint(); }
};

}  // namespace

TENON_PLUGIN_BACKENDS((Inductor, "inductor"))
