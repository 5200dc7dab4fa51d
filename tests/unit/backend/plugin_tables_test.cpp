// Reading the tables of a plugin: what must be there, what must agree with the manifest, and what
// older and newer plugins may leave out or add.
#include "backend/abi/plugin_tables.h"

#include <gtest/gtest.h>

#include <cstring>

namespace tenon {
namespace {

tn_status* compile(void*, const tn_compile_request*, tn_artifact**) { return nullptr; }
tn_status* count(void*, int32_t*) { return nullptr; }
tn_status* run_kernel(void*, uint32_t, const tn_arg*, uint32_t, tn_tensor* const*, tn_stream*,
                      tn_tensor**, uint32_t) {
  return nullptr;
}

/// A plugin with one of each role, whose table agrees with its manifest until a test changes it.
class PluginTablesTest : public testing::Test {
 protected:
  PluginTablesTest() {
    found_.path = "x.so";
    found_.manifest.abi = {1, 0};
    found_.manifest.backends.resize(1);
    found_.manifest.backends[0].name = "b";
    found_.manifest.devices = {{"abacus", ""}};
    found_.manifest.extensions = {{"org.example.e", 2}};
    found_.manifest.kernels = {{"cpu", "", {"aten.mm.default", "aten.bmm.default"}, 0}};
  }
  std::string told() {
    backends_[0] = &backend_;
    devices_[0] = &device_;
    extensions_[0] = &extension_;
    kernels_[0] = &kernel_;
    out_ = {};
    Diagnosis d = read_tables(found_, &table_, out_);
    return d ? code_of(d.fault) + " " + d.reason : "good";
  }

  FoundPlugin found_;
  PluginTables out_;
  tn_str ops_[2] = {TN_STR("aten.bmm.default"), TN_STR("aten.mm.default")};
  tn_backend backend_ = {.struct_size = sizeof backend_, .name = TN_STR("b"), .compile = compile};
  tn_device_provider device_ = {
      .struct_size = sizeof device_, .type_name = TN_STR("abacus"), .count = count};
  tn_extension extension_ = {
      .struct_size = sizeof extension_, .version = 2, .id = TN_STR("org.example.e"), .table = ops_};
  tn_kernels kernel_ = {.struct_size = sizeof kernel_, .n_ops = 2, .ops = ops_, .run = run_kernel};
  const tn_backend* backends_[1];
  const tn_device_provider* devices_[1];
  const tn_extension* extensions_[1];
  const tn_kernels* kernels_[1];
  tn_plugin table_ = {.struct_size = sizeof table_,
                      .abi_major = 1,
                      .abi_minor = 0,
                      .backends = backends_,
                      .devices = devices_,
                      .extensions = extensions_,
                      .kernels = kernels_,
                      .n_backends = 1,
                      .n_devices = 1,
                      .n_extensions = 1,
                      .n_kernels = 1,
                      .shutdown = nullptr};
};

TEST_F(PluginTablesTest, CopiesAllRolesOfATableThatAgrees) {
  EXPECT_EQ(told(), "good");
  EXPECT_EQ(out_.backends.size(), 1u);
  EXPECT_EQ(out_.devices[0].count, count);
  EXPECT_EQ(out_.extensions[0].table, ops_);
  EXPECT_EQ(out_.kernels[0].run, run_kernel);
}

TEST_F(PluginTablesTest, ReadsNothingBehindTheEndOfAShorterTable) {
  backend_.struct_size = offsetof(tn_backend, supports);
  backend_.supports = [](void*, const tn_compile_request*, uint8_t*) -> tn_status* { return {}; };
  table_.struct_size = offsetof(tn_plugin, shutdown);
  table_.shutdown = []() -> tn_status* { return nullptr; };
  EXPECT_EQ(told(), "good");
  EXPECT_EQ(out_.backends[0].supports, nullptr);
  EXPECT_EQ(out_.table.shutdown, nullptr);
}

TEST_F(PluginTablesTest, ComparesEachRoleWithTheManifest) {
  found_.manifest.devices[0].type = "slide_rule";
  EXPECT_EQ(told(), "P12 devices: its manifest declares slide_rule; its table has abacus");
  found_.manifest.devices[0].type = "abacus";
  found_.manifest.extensions[0].version = 1;
  EXPECT_EQ(told(),
            "P12 extensions: its manifest declares org.example.e/1; its table has org.example.e/2");
  found_.manifest.extensions.clear();
  EXPECT_EQ(told(), "P12 extensions: its manifest declares none; its table has org.example.e/2");
  table_.n_extensions = 0;
  found_.manifest.kernels[0].ops.pop_back();
  EXPECT_EQ(told(),
            "P12 kernels 0: its manifest declares aten.mm.default; its table has aten.bmm.default, "
            "aten.mm.default");
  found_.manifest.kernels.clear();
  EXPECT_EQ(told(), "P12 kernels: its manifest declares 0 lists of ops; its table has 1");
}

TEST_F(PluginTablesTest, CountsEqualNamesAsOftenAsTheyStandThere) {
  found_.manifest.backends.resize(2);
  found_.manifest.backends[1].name = "c";
  const tn_backend* twice[] = {&backend_, &backend_};
  table_.backends = twice;
  table_.n_backends = 2;
  EXPECT_EQ(told(), "P12 backends: its manifest declares b, c; its table has b, b");
}

TEST_F(PluginTablesTest, FindsHolesInEachRole) {
  kernel_.ops = nullptr;
  EXPECT_EQ(told(), "P11 entry 0 of its kernels has 2 ops, no list of them");
  kernel_.ops = ops_;
  kernel_.run = nullptr;
  EXPECT_EQ(told(), "P11 entry 0 of its kernels has 2 ops, no run function");
  kernel_.n_ops = 1u << 31;
  EXPECT_EQ(told(), "P11 entry 0 of its kernels has 2147483648 ops, no run function");
  extension_.struct_size = 12;
  EXPECT_EQ(told(), "P11 entry 0 of its extensions has 12 bytes, expected 32 or more");
  extension_.struct_size = sizeof extension_;
  extension_.id = {nullptr, 5};
  EXPECT_EQ(told(), "P11 entry 0 of its extensions has no name");
  device_.count = nullptr;
  EXPECT_EQ(told(), "P11 its device abacus has no count function");
  table_.devices = nullptr;
  EXPECT_EQ(told(), "P11 its number of devices is 1, and the list of them is NULL");
}

}  // namespace
}  // namespace tenon
