// The table that the double calls.
#include "host_code.h"

#include "double.h"

#include <string_view>

namespace {

using Kernels = std::map<std::string, HostKernel>;

void* load(void* self, const void* image, size_t bytes, const char** why_not) {
  std::string_view text(static_cast<const char*>(image), bytes);
  *why_not = "the text does not begin with 'host kernels'";
  return text.starts_with("host kernels") ? self : nullptr;
}
void unload(void*, void*) {}

bool find(void* self, void*, const char* name, FakeCudaKernel* out) {
  auto& kernels = *static_cast<Kernels*>(self);
  auto known = kernels.find(name);
  if (known == kernels.end()) return false;
  HostKernel& k = known->second;
  *out = {&k,
          static_cast<uint32_t>(k.parameters.size()),
          k.parameters.data(),
          16,
          0,
          k.shared_bytes,
          k.threads_per_block};
  return true;
}
int32_t run(void*, const FakeCudaKernel* kernel, const FakeCudaLaunch* launch) {
  return static_cast<HostKernel*>(kernel->code)->run(*launch);
}

}  // namespace

HostCode::HostCode() : table_{&kernels_, load, unload, find, run} { set_code(&table_); }
HostCode::~HostCode() { set_code(nullptr); }
