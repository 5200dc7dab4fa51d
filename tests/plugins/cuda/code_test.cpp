// The extension tenon.cuda/1: code, launches, libraries, and what kernels complain about.
#include "backend/abi/extensions.h"
#include "backend/abi/status.h"
#include "core/device/provider.h"
#include "core/tensor/tensor_impl.h"
#include "double.h"
#include "host_code.h"

#include <tenon/cuda.h>
#include <tenon/tenon.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace tenon {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const tn_cuda_api& api() {
  device_count(DeviceType::cuda);  // loads the plugin
  const void* table = find_extension(TN_CUDA_ID, TN_CUDA_VERSION);
  if (!table) throw std::runtime_error("nobody offers tenon.cuda/1");
  return *static_cast<const tn_cuda_api*>(table);
}

tn_str str(std::string_view text) { return {text.data(), text.size()}; }

/// "14: the text", or empty.
std::string told(tn_status* status) {
  if (!status) return "";
  std::string out = message("{}: {}", status->code, status->text);
  free_status(status);
  return out;
}

tn_cuda_module* loaded(std::string_view image) {
  tn_cuda_module* module = nullptr;
  EXPECT_EQ(told(api().module_load(0, str(image), &module)), "");
  return module;
}

tn_cuda_kernel* kernel_of(tn_cuda_module* module, std::string_view name) {
  tn_cuda_kernel* kernel = nullptr;
  EXPECT_EQ(told(api().kernel(module, str(name), &kernel)), "");
  return kernel;
}

tn_cuda_launch on_current_stream(void* const* args) {
  return {.struct_size = sizeof(tn_cuda_launch),
          .flags = 0,
          .grid = {1, 1, 1},
          .block = {32, 1, 1},
          .shared_bytes = 0,
          ._r0 = 0,
          .stream = current_stream(gpu),
          .args = args,
          .arg_info = nullptr,
          .n_args = 0,
          ._r1 = 0};
}

// y[i] = 2 * x[i], for n elements.
int32_t twice(const FakeCudaLaunch& launch) {
  auto* y = *static_cast<float**>(launch.args[0]);
  auto* x = *static_cast<float**>(launch.args[1]);
  int64_t n = *static_cast<int64_t*>(launch.args[2]);
  size_t bytes = static_cast<size_t>(n) * sizeof(float);
  if (!launch.may_touch(y, bytes) || !launch.may_touch(x, bytes)) return 700;
  for (int64_t i = 0; i < n; ++i) y[i] = 2 * x[i];
  return 0;
}

const HostKernel twice_kernel{{8, 8, 8}, twice};

class CudaCode : public testing::Test {
 protected:
  void SetUp() override { TENON_NEEDS_THE_DOUBLE(); }
};

TEST_F(CudaCode, FactsOfADeviceAreThoseOfTheDriver) {
  tn_cuda_facts facts{};
  facts.struct_size = sizeof facts;
  ASSERT_EQ(told(api().facts(0, &facts)), "");
  EXPECT_EQ(facts.warp, 32u);
  EXPECT_EQ(facts.multiprocessors, 4u);
  EXPECT_EQ(facts.shared_per_block, 48u << 10);
  EXPECT_EQ(facts.shared_per_block_most, 227u << 10);
  EXPECT_EQ(facts.driver_version, 13000u);
  EXPECT_EQ(std::string(facts.arch.data, facts.arch.size), "simt");
}

TEST_F(CudaCode, FactsOfAnOlderReaderStayWithinItsStruct) {
  tn_cuda_facts facts{};
  facts.struct_size = offsetof(tn_cuda_facts, multiprocessors);
  ASSERT_EQ(told(api().facts(0, &facts)), "");
  EXPECT_EQ(facts.warp, 32u);
  EXPECT_EQ(facts.multiprocessors, 0u);
}

TEST_F(CudaCode, AKernelComputesInTheOrderOfItsStream) {
  HostCode code;
  code.add("twice", twice_kernel);
  tn_cuda_module* module = loaded("host kernels");
  tn_cuda_kernel* kernel = kernel_of(module, "twice");
  for (uint64_t seed = 0; seed < 20; ++seed) {
    seed_streams(seed);
    Tensor x = moved(gpu, full({100}, 3.0)), y = moved(gpu, zeros({100}));
    void *to = impl_of(y)->data, *from = impl_of(x)->data;
    int64_t n = 100;
    void* args[] = {&to, &from, &n};
    tn_cuda_launch how = on_current_stream(args);
    if (seed % 2) how.flags = TN_CUDA_LAUNCH_BEGINS_WITH_WAIT;
    ASSERT_EQ(told(api().launch(kernel, &how)), "");
    to = from = nullptr;  // the values were copied
    EXPECT_EQ(y.to_vector<float>(), std::vector<float>(100, 6.0f));
  }
  api().module_release(module);
}

TEST_F(CudaCode, EqualImagesAreLoadedOnce) {
  HostCode code;
  uint64_t before = counts().modules;
  tn_cuda_module *a = loaded("host kernels"), *b = loaded("host kernels");
  tn_cuda_module* other = loaded("host kernels, others");
  EXPECT_EQ(a, b);
  EXPECT_NE(a, other);
  EXPECT_EQ(counts().modules, before + 2);
  api().module_release(a);
  EXPECT_EQ(counts().modules, before + 2);
  api().module_release(b);
  api().module_release(other);
  EXPECT_EQ(counts().modules, before);
}

TEST_F(CudaCode, AModuleMayGoWhileItsLaunchWaits) {
  HostCode code;
  code.add("twice", twice_kernel);
  tn_cuda_module* module = loaded("host kernels");
  Tensor x = moved(gpu, ones({4})), y = moved(gpu, zeros({4}));
  void *to = impl_of(y)->data, *from = impl_of(x)->data;
  int64_t n = 4;
  void* args[] = {&to, &from, &n};
  tn_cuda_launch how = on_current_stream(args);
  ASSERT_EQ(told(api().launch(kernel_of(module, "twice"), &how)), "");
  api().module_release(module);
  EXPECT_EQ(y.to_vector<float>(), std::vector<float>(4, 2.0f));
}

TEST_F(CudaCode, WhatIsNoCodeIsToldInTheDriversWords) {
  HostCode code;
  tn_cuda_module* module = nullptr;
  EXPECT_THAT(told(api().module_load(0, str("something else"), &module)),
              AllOf(HasSubstr("the text does not begin with 'host kernels'"),
                    HasSubstr("cuModuleLoadDataEx failed on cuda:0")));
  std::string machine_code;
  tn_sink sink{&machine_code, [](void* to, const char* data, size_t n) {
                 static_cast<std::string*>(to)->append(data, n);
               }};
  EXPECT_THAT(told(api().assemble(0, str("add r1"), &sink)),
              AllOf(HasSubstr("there is no .version in the text"), HasSubstr("cuLinkAddData")));
  EXPECT_EQ(told(api().assemble(0, str(".version 8.0"), &sink)), "");
  EXPECT_EQ(machine_code, ".version 8.0");
}

TEST_F(CudaCode, AKernelThatIsNotThereIsNotFound) {
  HostCode code;
  tn_cuda_module* module = loaded("host kernels");
  tn_cuda_kernel* kernel = nullptr;
  EXPECT_EQ(told(api().kernel(module, str("none"), &kernel)), "5: the module has no kernel none");
  api().module_release(module);
}

TEST_F(CudaCode, ALaunchThatDoesNotFitNamesKernelAndShape) {
  HostCode code;
  code.add("twice", twice_kernel);
  tn_cuda_module* module = loaded("host kernels");
  void* args[] = {nullptr, nullptr, nullptr};
  int64_t word = 0;
  for (void*& arg : args) arg = &word;
  tn_cuda_launch how = on_current_stream(args);
  how.block[0] = 2048;
  EXPECT_THAT(told(api().launch(kernel_of(module, "twice"), &how)),
              HasSubstr("launching kernel twice (grid 1x1x1, block 2048x1x1, 0 bytes of shared "
                        "memory): cuLaunchKernel failed on cuda:0"));
  how.block[0] = 32;
  how.grid[1] = 0;
  uint64_t before = counts().launches;
  EXPECT_EQ(told(api().launch(kernel_of(module, "twice"), &how)), "");
  EXPECT_EQ(counts().launches, before) << "a grid without blocks is not launched";
  api().module_release(module);
}

TEST_F(CudaCode, SharedMemoryIsAskedForWhereALaunchWantsMore) {
  HostCode code;
  uint32_t seen = 0;
  code.add("shared", {{}, [&](const FakeCudaLaunch& launch) {
                        seen = launch.shared_bytes;
                        return 0;
                      }});
  tn_cuda_module* module = loaded("host kernels");
  tn_cuda_kernel* kernel = kernel_of(module, "shared");
  tn_cuda_kernel_facts facts{};
  facts.struct_size = sizeof facts;
  ASSERT_EQ(told(api().kernel_facts(kernel, &facts)), "");
  EXPECT_EQ(facts.registers, 16u);
  EXPECT_EQ(facts.threads_per_block, 1024u);
  tn_cuda_launch how = on_current_stream(nullptr);
  how.shared_bytes = 100 << 10;
  how.flags = TN_CUDA_LAUNCH_WAIT;
  ASSERT_EQ(told(api().launch(kernel, &how)), "");
  EXPECT_EQ(seen, 100u << 10);
  how.shared_bytes = 300 << 10;
  EXPECT_THAT(told(api().launch(kernel, &how)),
              HasSubstr("giving kernel shared 307200 bytes of shared memory"));
  api().module_release(module);
}

TEST_F(CudaCode, WhatAKernelComplainsAboutIsToldToWhoWaits) {
  HostCode code;
  int64_t check = 0, again = 0;
  ASSERT_EQ(told(api().add_check(str("index {} is out of range"), &check)), "");
  ASSERT_EQ(told(api().add_check(str("index {} is out of range"), &again)), "");
  EXPECT_EQ(check, again);
  tn_cuda_error_flag* flag = nullptr;
  ASSERT_EQ(told(api().error_flag(0, &flag)), "");
  code.add("complain", {{8}, [&](const FakeCudaLaunch& launch) {
                          bool mine = launch.may_touch(flag, sizeof *flag);
                          *flag = {*static_cast<int64_t*>(launch.args[0]), 17};
                          return mine ? 0 : 700;
                        }});
  tn_cuda_module* module = loaded("host kernels");
  void* args[] = {&check};
  tn_cuda_launch how = on_current_stream(args);
  ASSERT_EQ(told(api().launch(kernel_of(module, "complain"), &how)), "");
  try {
    Stream::current(gpu).synchronize();
    FAIL() << "an error was expected";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("index 17 is out of range"));
  }
  Stream::current(gpu).synchronize();  // once only
  api().module_release(module);
}

TEST_F(CudaCode, LibrariesAreFoundOrTheReasonIsTold) {
  void* symbol = nullptr;
  EXPECT_EQ(told(api().library_symbol(str("libcuda.so.1"), str("cuGetProcAddress_v2"), &symbol)),
            "");
  EXPECT_NE(symbol, nullptr);
  EXPECT_THAT(told(api().library_symbol(str("libcuda.so.1"), str("cuNothing"), &symbol)),
              HasSubstr("has no cuNothing"));
  EXPECT_THAT(told(api().library_symbol(str("libnothing.so.1"), str("f"), &symbol)),
              AllOf(HasSubstr("14: library libnothing.so.1 not found"),
                    HasSubstr("TENON_PLUGINS_LIBRARY_PATH")));
  tn_str path{};
  ASSERT_EQ(told(api().find_file(str("libcuda.so.1"), &path)), "");
  EXPECT_THAT(std::string(path.data, path.size), HasSubstr("libcuda.so.1"));
  EXPECT_THAT(told(api().find_file(str("nvvm/no_such_file.bc"), &path)),
              HasSubstr("nvvm/no_such_file.bc not found"));
}

TEST_F(CudaCode, EachThreadHasASlotOfItsOwn) {
  void *mine = nullptr, *again = nullptr, *theirs = nullptr;
  ASSERT_EQ(told(api().slot(&mine)), "");
  ASSERT_EQ(told(api().slot(&again)), "");
  std::thread([&] { EXPECT_EQ(told(api().slot(&theirs)), ""); }).join();
  EXPECT_EQ(mine, again);
  EXPECT_NE(mine, theirs);
}

}  // namespace
}  // namespace tenon
