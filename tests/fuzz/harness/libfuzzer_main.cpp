// Hands the inputs of libFuzzer to the target that this program is called by.
#include "harness/fuzz.h"

static tenon::fuzz::Run run_target;

extern "C" int LLVMFuzzerInitialize(int*, char*** argv) {
  std::string_view name = **argv;
  run_target = tenon::fuzz::find_target(name.substr(name.rfind('/') + 1));
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  run_target({reinterpret_cast<const char*>(data), size});
  return 0;
}

// An allocation that is far too large fails as it does in a program, with an error of ours. An op
// may ask for tensors of any size; here those above 256 MiB are too large.
extern "C" const char* __asan_default_options() {
  return "allocator_may_return_null=1:max_allocation_size_mb=256";
}
