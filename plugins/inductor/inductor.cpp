// inductor: fused loops as machine code for this CPU; products by microkernels, convolutions by
// those or by oneDNN.
#include "compile.h"
#include "disassembly.h"
#include "jit.h"
#include "options.h"

#include <inductor_runtime/saved_form.h>
#include <loopir/supported.h>

using namespace tenon::plugin;

namespace {

struct Inductor : Backend {
  void supports(const tn_compile_request& request, std::span<uint8_t> verdicts) {
    using Given = inductor::Given;
    bool takes_all = Given::read(request).fallback == Given::fallback_choice::error;
    loopir::support_nodes(request, takes_all, verdicts);
  }
  std::unique_ptr<inductor::Executable> compile(const tn_compile_request& request) {
    return with_disassembler(inductor::compile(request));
  }
  std::unique_ptr<inductor::Executable> load(const tn_compile_request& request,
                                             std::string_view bytes) {
    return with_disassembler(inductor::load_executable(request, bytes));
  }
  // Code may be for another processor than this one: what it needs, loading it checks.
  std::string fingerprint() { return inductor::maker(); }

 private:
  static std::unique_ptr<inductor::Executable> with_disassembler(
      std::unique_ptr<inductor::Executable> made) {
    made->set_disassembler(inductor::disassembled);
    return made;
  }
};

}  // namespace

TENON_PLUGIN_BACKENDS((Inductor, "inductor"))
