// Kernels of inductor_cuda on the double of the driver: fibers run them, where the double says which
// memory they may touch.
#include "cuda/double.h"
#include "simt_code.h"
#include "simt_threads.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <stdexcept>
#include <vector>

namespace {

struct Kernel {
  SimtKernel run;
  const SimtFacts* facts;
  std::vector<uint32_t> parameters;
};
struct Module {
  simt::LoadedImage image;
  std::map<std::string, Kernel> kernels = {};
};

std::string last_problem;

void* load(void*, const void* image, size_t bytes, const char** why_not) try {
  return new Module{simt::LoadedImage({static_cast<const char*>(image), bytes})};
} catch (const std::exception& e) {
  last_problem = e.what();
  *why_not = last_problem.c_str();
  return nullptr;
}
void unload(void*, void* module) { delete static_cast<Module*>(module); }

bool find(void*, void* given, const char* name, FakeCudaKernel* out) {
  auto& module = *static_cast<Module*>(given);
  Kernel made{module.image.kernel(name), module.image.facts(name), {}};
  if (!made.run || !made.facts) return false;
  constexpr uint32_t word = 8;
  made.parameters.assign(made.facts->n_parameters, word);
  Kernel& kept = module.kernels[name] = std::move(made);
  *out = {.code = &kept,
          .n_parameters = kept.facts->n_parameters,
          .parameters = kept.parameters.data(),
          .registers = 32,
          .local_bytes = 0,
          .shared_bytes = static_cast<uint32_t>(kept.facts->shared_bytes),
          .threads_per_block = kept.facts->threads};
  return true;
}

int32_t run(void*, const FakeCudaKernel* kernel, const FakeCudaLaunch* launch) {
  constexpr int32_t illegal_address = 700;
  auto* k = static_cast<Kernel*>(kernel->code);
  std::string problem = simt::run(k->run,
                                  {.blocks = launch->grid[0],
                                   .threads = launch->block[0],
                                   .shared_bytes = k->facts->shared_bytes,
                                   .cooperates = k->facts->cooperates != 0},
                                  launch->args, launch->may_touch);
  if (problem.empty()) return 0;
  std::fprintf(stderr, "a thread %s\n", problem.c_str());
  return illegal_address;
}

/// For all tests of the program.
class OverTheDouble : public testing::Environment {
 public:
  void SetUp() override {
    static const FakeCudaCode code{nullptr, load, unload, find, run};
    bool has_device = tenon::device_count(tenon::DeviceType::cuda) > 0;
    if (has_device && is_double()) set_code(&code);
  }
};
auto* const environment = testing::AddGlobalTestEnvironment(new OverTheDouble);

}  // namespace
