// A program that knows nothing of flags: prints what its compiled functions do.
//
//   config_probe sizes | numbers | pair | backend | noisy | log
#include "backend/backend.h"
#include "graph/artifact.h"
#include "report/log.h"

#include <tenon/compile.h>
#include <tenon/ops.h>

#include <cstdio>
#include <cstring>

using namespace tenon;

namespace {

void print(const char* what, int64_t n) {
  std::printf("%s %lld\n", what, static_cast<long long>(n));
}

// Adds 0.005 to what the graph gives.
class Noisy final : public Artifact {
 public:
  explicit Noisy(std::shared_ptr<Graph> graph) : inner_(interpreter_artifact(std::move(graph))) {}
  void call(std::span<detail::TensorHead*> inputs, std::span<const int64_t> syms,
            std::span<Tensor> outputs, bool steal) override {
    inner_->call(inputs, syms, outputs, steal);
    outputs[0] = outputs[0] + 0.005;
  }
  std::string describe(int32_t) const override { return ""; }

 private:
  std::shared_ptr<Artifact> inner_;
};

void sizes() {
  auto f = compile([](const Tensor& x) { return x + 1; }, {.backend = "eager"});
  for (int64_t n : {3, 4, 5, 6}) f(ones({n}));
  print("compilations", f.stats().compiles);
}

void numbers() {
  auto f =
      compile([](const Tensor& x, int n) { return x * n; }, {.backend = "eager", .pure = true});
  for (int n = 1; n <= 4; ++n) f(ones({1}), n);
  print("compilations", f.stats().compiles);
  print("eager calls", f.stats().eager_calls);
}

void pair() {
  auto f = compile([](const Tensor& x, const Tensor& y) { return x.sum() + y.sum(); },
                   {.backend = "eager", .dynamic = true});
  f(ones({4}), ones({4}));
  f(ones({5}), ones({6}));
  print("compilations", f.stats().compiles);
}

void default_backend() {
  register_backend("probe",
                   [](const CompileRequest& request) {
                     std::puts("backend probe");
                     return interpreter_artifact(request.graph);
                   },
                   {});
  auto f = compile([](const Tensor& x) { return x + 1; });
  f(ones({2}));
  std::puts("done");
}

void noisy() {
  register_backend("noisy",
                   [](const CompileRequest& request) -> std::shared_ptr<Artifact> {
                     return std::make_shared<Noisy>(request.graph);
                   },
                   {});
  auto f = compile([](const Tensor& x) { return x + 1; }, {.backend = "noisy"});
  f(ones({2}));
  std::puts("close enough");
}

void log() { report::log_line(report::LogLevel::warning, "runtime", "a warning"); }

}  // namespace

int main(int argc, char** argv) try {
  struct Scenario {
    const char* name;
    void (*run)();
  };
  constexpr Scenario scenarios[] = {{"sizes", sizes}, {"numbers", numbers},
                                    {"pair", pair},   {"backend", default_backend},
                                    {"noisy", noisy}, {"log", log}};
  for (const Scenario& s : scenarios)
    if (argc == 2 && std::strcmp(argv[1], s.name) == 0) return s.run(), 0;
  std::fputs("usage: config_probe SCENARIO\n", stderr);
  return 2;
} catch (const Error& error) {
  std::printf("%s\n", error.what());
  return 1;
}
