// Backends that run graphs node by node and have one bug each: a crash, an error, a wrong number, a
// NaN. What the minifier leaves of a graph must still show it.
#include <tenon/plugin_program.hpp>

#include <cmath>
#include <csignal>

using namespace tenon::plugin;

namespace {

using Bug = void (*)(const step& s);

float* numbers_of(const step& s) {
  const tn_tensor* t = s.results().empty() ? nullptr : s.results()[0];
  bool has_some = t && t->dtype == TN_F32 && t->numel > 0;
  return has_some ? static_cast<float*>(t->data) : nullptr;
}

void crash_at_tanh(const step& s) {
  if (s.node.op_name == "aten.tanh.default") std::raise(SIGSEGV);
}
void fail_at_softmax(const step& s) {
  if (s.node.op_name.starts_with("aten._softmax"))
    throw error(TN_UNIMPLEMENTED, text("rows of {} are not aligned", s.results()[0]->numel));
}
void round_mm(const step& s) {
  if (s.node.op_name != "aten.mm.default") return;
  if (float* x = numbers_of(s)) x[0] = x[0] * 1.5f + 1;
}
void lose_gelu(const step& s) {
  if (s.node.op_name != "aten.gelu.default") return;
  if (float* x = numbers_of(s)) x[0] = NAN;
}

struct Buggy {
  program steps;
  Bug bug;

  void call(tn_call& c) {
    steps.run(c, [this](const step& s, auto&& run) {
      run();
      bug(s);
    });
  }
};

struct Bugs : Backend {
  explicit Bugs(std::string_view name)
      : bug(name == "bug_crash"   ? crash_at_tanh
            : name == "bug_error" ? fail_at_softmax
            : name == "bug_wrong" ? round_mm
                                  : lose_gelu) {}
  std::unique_ptr<Buggy> compile(const tn_compile_request& request) {
    return std::make_unique<Buggy>(Buggy{program(request), bug});
  }
  Bug bug;
};

}  // namespace

TENON_PLUGIN_BACKENDS((Bugs, "bug_crash"), (Bugs, "bug_error"), (Bugs, "bug_wrong"),
                      (Bugs, "bug_nan"))
