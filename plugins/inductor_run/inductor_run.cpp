// inductor_run: the half of inductor that runs, for machines without LLVM.
#include <inductor_runtime/saved_form.h>

using namespace tenon::plugin;

namespace {

struct InductorRun : Backend {
  std::unique_ptr<inductor::Executable> compile(const tn_compile_request&) {
    throw declined(
        "inductor_run only runs code that inductor compiled ahead of time; compile with inductor, "
        "or take a file that `tenon compile` wrote");
  }
  std::unique_ptr<inductor::Executable> load(const tn_compile_request& request,
                                             std::string_view bytes) {
    return inductor::load_executable(request, bytes);
  }
};

}  // namespace

TENON_PLUGIN_BACKENDS((InductorRun, "inductor_run"))
