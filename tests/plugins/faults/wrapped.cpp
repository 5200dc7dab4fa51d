// Throws wherever its own code runs, behind the barrier of plugin.hpp. Built twice: with the C++
// runtime of the program, and with one of its own, out of which no exception may come.
#include "fault.h"

#include <tenon/plugin.hpp>

using namespace tenon::plugin;

namespace {

struct Own {};

[[noreturn]] void fail_in(std::string_view function) {
  throw std::runtime_error(text("{} failed", function));
}

struct Program {
  std::string name;
  bool in(std::string_view where) const { return name.ends_with(where); }

  explicit Program(std::string_view n) : name(n) {}
  ~Program() noexcept(false) { fail_in("destroy"); }

  void call(tn_call& c) {
    if (in("_call")) fail_in("call");
    if (in("_own")) throw Own();
    if (in("_body"))
      parallel_for(0, 8, 1, [](int64_t lo, int64_t) {
        if (lo >= 4) fail_in("body");
      });
    if (in("_deleter")) {
      static float memory[1];
      const int64_t sizes[] = {1};
      tensor::over(memory, sizes, TN_F32, [] { fail_in("deleter"); });
    }
    for (uint32_t i = 0; i < c.n_outputs; ++i) c.outputs[i] = tensor::share(c.inputs[0]).release();
  }
  std::string describe(int32_t) { fail_in("describe"); }
  std::string serialize() { fail_in("serialize"); }
  void set_constants(std::span<const uint32_t>, std::span<tn_tensor* const>) {
    fail_in("set_constants");
  }
};

struct Throws : Backend {
  std::string name;
  explicit Throws(std::string_view n) : name(n) {}
  ~Throws() noexcept(false) { fail_in("shutdown"); }

  std::unique_ptr<Program> compile(const tn_compile_request&) {
    if (name.ends_with("_compile")) fail_in("compile");
    return std::make_unique<Program>(name);
  }
  void supports(const tn_compile_request&, std::span<uint8_t> verdicts) {
    if (name.ends_with("_supports")) fail_in("supports");
    std::ranges::fill(verdicts, TN_SUPPORTED);
  }
  std::unique_ptr<Program> load(const tn_compile_request&, std::string_view) { fail_in("load"); }
  std::string fingerprint() { fail_in("fingerprint"); }
  void reset() { fail_in("reset"); }
};

bool run(const kernel_call&) { fail_in("kernel"); }
const kernel_row rows[] = {{"aten.asinh.default", run}};

}  // namespace

// clang-format off
#define WRAPPED "fault_" FAULT_NAME
TN_MANIFEST(FAULT_PLUGIN(WRAPPED, "1.0", "")
            FAULT_BACKEND(WRAPPED "_compile")
            FAULT_BACKEND(WRAPPED "_call")
            FAULT_BACKEND(WRAPPED "_own")
            FAULT_BACKEND(WRAPPED "_body")
            FAULT_BACKEND(WRAPPED "_deleter")
            FAULT_BACKEND(WRAPPED "_supports")
            "[[kernels]]\ndevice = 'cpu'\nops = ['aten.asinh.default']\npriority = 100\n");
// clang-format on

TENON_PLUGIN(p) {
  for (const char* name : {WRAPPED "_compile", WRAPPED "_call", WRAPPED "_own", WRAPPED "_body",
                           WRAPPED "_deleter", WRAPPED "_supports"})
    p.backend<Throws>(name);
  p.kernels(TN_DEV_CPU, rows);
}
