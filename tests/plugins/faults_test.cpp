// Every diagnosis of a plugin that cannot be loaded, from a file that is broken in that way: the
// whole message, and that the rest of the process goes on. One process a test.
#include "faults.h"

#include "report/log.h"

#include <elf.h>

#include <cstring>

namespace tenon {
namespace {

using namespace test;
namespace fs = std::filesystem;

/// Copies of fixtures that are patched, in a folder of their own.
class PatchedFaults : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "tenon_faults_XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  void TearDown() override { fs::remove_all(folder_); }

  /// What a compile with backend `patched` says when its file has these bytes.
  std::string told_of(const std::string& bytes, const std::string& backend = "patched") {
    std::string path = folder_ + "/tenon_patched.so";
    std::ofstream(path, std::ios::binary) << bytes;
    set_plugin_search({path}, {});
    std::string told = replaced(compile_error(backend), folder_, "{dir}");
    expect_the_rest_works();
    std::vector<RefusedPlugin> refused = refused_plugins();
    EXPECT_EQ(refused.size(), 1u);
    return replaced(told, std::to_string(bytes.size()) + " bytes", "{size} bytes");
  }
  static std::string good() {
    std::stringstream text;
    text << std::ifstream(fault_file("good"), std::ios::binary).rdbuf();
    return text.str();
  }
  template <class T>
  static std::string good_with(size_t at, T value) {
    std::string bytes = good();
    std::memcpy(&bytes[at], &value, sizeof value);
    return bytes;
  }
  std::string folder_;
};

TEST_F(PatchedFaults, P01EmptyAndOtherFiles) {
  EXPECT_EQ(told_of(""),
            "PluginError: backend 'patched' cannot be used; P01 {dir}/tenon_patched.so: expected "
            "an ELF shared object, found {size} bytes of something else; name the .so file that "
            "tenon_add_plugin built");
  EXPECT_EQ(told_of("#!/bin/sh\nexit 1\n"),
            "PluginError: backend 'patched' cannot be used; P01 {dir}/tenon_patched.so: expected "
            "an ELF shared object, found {size} bytes of something else; name the .so file that "
            "tenon_add_plugin built");
}

TEST_F(PatchedFaults, P01TruncatedFiles) {
  for (size_t size : {100, 1000})
    EXPECT_THAT(told_of(good().substr(0, size)),
                testing::MatchesRegex(
                    "PluginError: backend 'patched' cannot be used; P01 .dir./tenon_patched.so: "
                    "truncated: [0-9]+ bytes at offset [0-9]+ lie beyond its .size. bytes; copy "
                    "the file again"));
}

TEST_F(PatchedFaults, P02OtherMachines) {
  EXPECT_EQ(told_of(good_with(offsetof(Elf64_Ehdr, e_machine), uint16_t{EM_RISCV})),
            "PluginError: backend 'patched' cannot be used; P02 {dir}/tenon_patched.so: was built "
            "for risc-v, this host is {machine}; build it for {machine}");
}

TEST_F(PatchedFaults, P02OtherClasses) {
  std::string bytes = good_with(EI_CLASS, uint8_t{ELFCLASS32});
  uint16_t machine = EM_386;
  std::memcpy(&bytes[offsetof(Elf64_Ehdr, e_machine)], &machine, sizeof machine);
  EXPECT_EQ(told_of(bytes),
            "PluginError: backend 'patched' cannot be used; P02 {dir}/tenon_patched.so: was built "
            "for 32-bit little-endian x86, this host is 64-bit little-endian {machine}; build it "
            "for {machine}");
}

TEST_F(PatchedFaults, P02OtherByteOrders) {
  std::string bytes = good_with(EI_DATA, uint8_t{ELFDATA2MSB});
  uint16_t machine = EM_PPC64 << 8;
  std::memcpy(&bytes[offsetof(Elf64_Ehdr, e_machine)], &machine, sizeof machine);
  EXPECT_EQ(told_of(bytes),
            "PluginError: backend 'patched' cannot be used; P02 {dir}/tenon_patched.so: was built "
            "for 64-bit big-endian ppc64, this host is 64-bit little-endian {machine}; build it "
            "for {machine}");
}

TEST_F(PatchedFaults, P02Programs) {
  EXPECT_EQ(told_of(good_with(offsetof(Elf64_Ehdr, e_type), uint16_t{ET_EXEC})),
            "PluginError: backend 'patched' cannot be used; P02 {dir}/tenon_patched.so: expected a "
            "shared object for {machine} (ELF type 3), found ELF type 2; link it with -shared");
}

TEST_F(PatchedFaults, P01WhatOnlyTheLinkerFinds) {
  EXPECT_EQ(told_of(good_with(EI_OSABI, uint8_t{99}), "fault_good"),
            "PluginError: P01 {dir}/tenon_patched.so: expected a shared object of {size} bytes "
            "that can be mapped; the linker says: ELF file OS ABI invalid; build or copy it again");
}

TEST(Faults, P01MissingFiles) {
  know({"that_is_not_there"});
  EXPECT_EQ(compile_error("fault_that_is_not_there"),
            "PluginError: backend 'fault_that_is_not_there' cannot be used; P01 "
            "{dir}/tenon_fault_that_is_not_there.so: expected a shared object, but it cannot be "
            "opened: No such file or directory");
  expect_the_rest_works();
}

TEST(Faults, P03FilesWithoutANote) {
  know({"no_note"});
  EXPECT_EQ(compile_error("fault_no_note"),
            "PluginError: backend 'fault_no_note' cannot be used; P03 "
            "{dir}/tenon_fault_no_note.so: not a Tenon plugin: it has no Tenon note; give "
            "tenon_add_plugin a MANIFEST, or put TN_MANIFEST(...) into a source file");
  expect_the_rest_works();
}

TEST(Faults, P03IsSilentInScans) {
  fs::path folder = fs::path(TENON_FAULT_DIR) / "scanned";
  fs::create_directories(folder);
  fs::copy_file(fault_file("no_note"), folder / "tenon_fault_no_note.so",
                fs::copy_options::overwrite_existing);
  set_plugin_search({}, {folder.string()});
  for (const RefusedPlugin& r : refused_plugins())
    ADD_FAILURE() << r.file << ": " << r.code << " " << r.reason;
  EXPECT_EQ(compile_error("fault_no_note"), "InvalidBackend: there is no backend 'fault_no_note'");
  fs::remove_all(folder);
}

TEST(Faults, P04WrongManifests) {
  know({"bad_manifest"});
  EXPECT_EQ(compile_error("fault_bad_manifest"),
            "PluginError: backend 'fault_bad_manifest' cannot be used; P04 "
            "{dir}/tenon_fault_bad_manifest.so: manifest line 10, column 1: backend.stage is "
            "\"later\"; expected one of: captured, aot; `tenon plugin check` says more");
  expect_the_rest_works();
}

TEST(Faults, P05OtherMajors) {
  know({"abi_2"});
  EXPECT_EQ(compile_error("fault_abi_2"),
            "PluginError: backend 'fault_abi_2' cannot be used; P05 {dir}/tenon_fault_abi_2.so: "
            "fault_abi_2 0.1.0 was built for plugin ABI 2.0, this host has 1.0; update Tenon, or "
            "rebuild the plugin with its plugin API");
  EXPECT_EQ(listed_as("abi_2"), "P05");
  expect_the_rest_works();
}

TEST(Faults, P06NewerHostsWanted) {
  know({"abi_min"});
  EXPECT_EQ(
      compile_error("fault_abi_min"),
      "PluginError: backend 'fault_abi_min' cannot be used; P06 {dir}/tenon_fault_abi_min.so: "
      "fault_abi_min 0.1.0 needs plugin ABI 1.99 or newer, this host has 1.0; update Tenon");
  expect_the_rest_works();
}

TEST(Faults, P07HiddenEntries) {
  know({"hidden_entry"});
  EXPECT_EQ(
      compile_error("fault_hidden_entry"),
      "PluginError: backend 'fault_hidden_entry' cannot be used; P07 "
      "{dir}/tenon_fault_hidden_entry.so: expected the exported function tenon_plugin_entry_v1, "
      "found none; declare it extern \"C\" TN_EXPORT, and let the version script export it");
  expect_the_rest_works();
}

TEST(Faults, P08MissingLibraries) {
  know({"missing_library"});
  EXPECT_EQ(compile_error("fault_missing_library"),
            "PluginError: P08 {dir}/tenon_fault_missing_library.so: libtenon_test_gone.so.3: "
            "cannot open shared object file: No such file or directory; cannot be found: "
            "libtenon_test_gone.so.3, libtenon_test_gone_too.so.3; install it, or set the plugin's "
            "RUNPATH to its folder; the plugin says that it needs libtenon_test_gone.so.3");
  EXPECT_EQ(listed_as("missing_library"), "broken P08");
  expect_the_rest_works();
}

TEST(Faults, P09UndefinedSymbols) {
  know({"undefined_symbol"});
  EXPECT_EQ(compile_error("fault_undefined_symbol"),
            "PluginError: P09 {dir}/tenon_fault_undefined_symbol.so: it uses "
            "faults::not_there(char const*, int) (_ZN6faults9not_thereEPKci), which neither it nor "
            "a library that it links defines; link the library that has it; with -z defs, as in "
            "tenon_add_plugin, the build finds it");
  expect_the_rest_works();
}

TEST(Faults, P10ExceptionsOutOfTheEntry) {
  know({"entry_throws_exception", "entry_throws_int", "entry_throws_own"});
  EXPECT_EQ(compile_error("fault_entry_throws_exception"),
            "PluginError: P10 {dir}/tenon_fault_entry_throws_exception.so: its entry threw "
            "std::invalid_argument: no such machine; catch exceptions inside the plugin, as "
            "tenon/plugin.hpp does; until the process ends nothing more is compiled with it");
  EXPECT_EQ(compile_error("fault_entry_throws_int"),
            "PluginError: P10 {dir}/tenon_fault_entry_throws_int.so: its entry threw int: 7; catch "
            "exceptions inside the plugin, as tenon/plugin.hpp does; until the process ends "
            "nothing more is compiled with it");
  EXPECT_EQ(compile_error("fault_entry_throws_own"),
            "PluginError: P10 {dir}/tenon_fault_entry_throws_own.so: its entry threw faults::Own; "
            "catch exceptions inside the plugin, as tenon/plugin.hpp does; until the process ends "
            "nothing more is compiled with it");
  EXPECT_EQ(listed_as("entry_throws_own"), "broken P10");
  expect_the_rest_works();
}

TEST(Faults, P11FailingEntries) {
  know({"entry_fails"});
  EXPECT_EQ(compile_error("fault_entry_fails"),
            "PluginError: P11 {dir}/tenon_fault_entry_fails.so: its entry failed: the licence has "
            "run out");
  EXPECT_EQ(compile_error("fault_entry_fails"),
            "PluginError: P11 {dir}/tenon_fault_entry_fails.so: its entry failed: the licence has "
            "run out");
  expect_the_rest_works();
}

TEST(Faults, P11EntriesThatThrowInsideTheWrapper) {
  know({"wrapped_entry"});
  EXPECT_EQ(compile_error("fault_wrapped_entry"),
            "PluginError: P11 {dir}/tenon_fault_wrapped_entry.so: its entry failed: no licence");
  expect_the_rest_works();
}

TEST(Faults, P11MissingAndShortTables) {
  know({"no_table", "short_table", "short_entry"});
  EXPECT_EQ(compile_error("fault_no_table"),
            "PluginError: P11 {dir}/tenon_fault_no_table.so: its entry reported success and gave "
            "no table; set *out to a tn_plugin");
  EXPECT_EQ(compile_error("fault_short_table"),
            "PluginError: P11 {dir}/tenon_fault_short_table.so: its table has 16 bytes, expected "
            "64 or more; set struct_size to sizeof, and compile it with one plugin.h throughout");
  EXPECT_EQ(compile_error("fault_short_entry"),
            "PluginError: P11 {dir}/tenon_fault_short_entry.so: entry 0 of its backends has 8 "
            "bytes, expected 40 or more; set struct_size to sizeof, and compile it with one "
            "plugin.h throughout");
  expect_the_rest_works();
}

TEST(Faults, P11TablesWithHoles) {
  know({"no_list", "null_entry", "no_name", "no_compile"});
  EXPECT_EQ(compile_error("fault_no_list"),
            "PluginError: P11 {dir}/tenon_fault_no_list.so: its number of backends is 1, and the "
            "list of them is NULL; point it to the list");
  EXPECT_EQ(compile_error("fault_null_entry"),
            "PluginError: P11 {dir}/tenon_fault_null_entry.so: entry 0 of its backends is NULL; "
            "give every entry that the table counts");
  EXPECT_EQ(compile_error("fault_no_name"),
            "PluginError: P11 {dir}/tenon_fault_no_name.so: entry 0 of its backends has no name; "
            "name it as the manifest does");
  EXPECT_EQ(compile_error("fault_no_compile"),
            "PluginError: P11 {dir}/tenon_fault_no_compile.so: its backend fault_no_compile has no "
            "compile function; set tn_backend.compile");
  expect_the_rest_works();
}

TEST(Faults, P11TablesWithImpossibleCounts) {
  know({"absurd_count", "long_name"});
  EXPECT_EQ(compile_error("fault_absurd_count"),
            "PluginError: P11 {dir}/tenon_fault_absurd_count.so: its number of backends is "
            "4294967295, expected at most 1024; set struct_size to sizeof, and compile it with one "
            "plugin.h throughout");
  EXPECT_EQ(compile_error("fault_long_name"),
            "PluginError: P11 {dir}/tenon_fault_long_name.so: entry 0 of its backends has a name "
            "of 18446744073709551615 bytes, expected at most 4096; name it as the manifest does");
  expect_the_rest_works();
}

TEST(Faults, P12TablesOfOtherBackends) {
  know({"other_backends", "other_major"});
  EXPECT_EQ(compile_error("fault_other_backends"),
            "PluginError: P12 {dir}/tenon_fault_other_backends.so: backends: its manifest declares "
            "fault_other_backends, fault_second; its table has fault_secnd, fault_other_backends; "
            "make plugin.toml and the table, such as TENON_PLUGIN_BACKENDS, name the same");
  EXPECT_EQ(compile_error("fault_other_major"),
            "PluginError: P12 {dir}/tenon_fault_other_major.so: its manifest says plugin ABI 1.0, "
            "its table major 2; set abi_major and abi_minor to TN_ABI_MAJOR and TN_ABI_MINOR");
  expect_the_rest_works();
}

TEST(Faults, P19DevicesThatAreNotThere) {
  know({"no_device"});
  report::LogCapture log;
  expect_works("fault_no_device");
  ASSERT_EQ(log.lines().size(), 1u);
  EXPECT_EQ(portable(log.lines()[0]),
            "warning: [backend] P19 {dir}/tenon_fault_no_device.so: it is loaded, but there is no "
            "device of type abacus here; it looks for libtenon_test_driver.so.1 (not found), "
            "libc.so.6 (found); install the driver of the device; all else goes on without it");
  EXPECT_EQ(listed_as("no_device"), "ready");
  expect_the_rest_works();
}

TEST(Faults, P20UntidyLinks) {
  know({"untidy", "text_relocations"});
  report::LogCapture log;
  expect_works("fault_untidy");
  expect_works("fault_text_relocations");
  ASSERT_EQ(log.lines().size(), 3u);
  EXPECT_EQ(portable(log.lines()[0]),
            "warning: [backend] P14 {dir}/tenon_fault_untidy.so: it asks for an executable stack; "
            "link it with -z noexecstack");
  EXPECT_EQ(portable(log.lines()[1]),
            "warning: [backend] P20 {dir}/tenon_fault_untidy.so: symbols exported besides its "
            "entry: 3 (faults::Counter::total, "
            "faults::a_function_whose_name_is_longer_than_a_line_of_a_war..., faults::add(int)); "
            "those of them that are one in "
            "the whole process: 1 (faults::Counter::total); asks for an executable stack; build it "
            "with tenon_add_plugin (version script, -z noexecstack, -fPIC)");
  EXPECT_EQ(portable(log.lines()[2]),
            "warning: [backend] P20 {dir}/tenon_fault_text_relocations.so: has text relocations; "
            "build it with tenon_add_plugin (version script, -z noexecstack, -fPIC)");
  EXPECT_EQ(listed_as("untidy"), "ready");
  expect_the_rest_works();
}

TEST(Faults, P21MissingExtensions) {
  know({"requires_missing", "requires_half", "requires_broken", "entry_fails"});
  EXPECT_EQ(
      compile_error("fault_requires_missing"),
      "PluginError: P21 {dir}/tenon_fault_requires_missing.so: fault_requires_missing requires "
      "org.example.nobody/1, which no plugin offers; install the plugin that offers it");
  EXPECT_EQ(compile_error("fault_requires_half"),
            "PluginError: P21 {dir}/tenon_fault_requires_half.so: fault_requires_half requires "
            "org.example.half/1 of fault_requires_missing, fault_requires_missing requires "
            "org.example.nobody/1, which no plugin offers; install the plugin that offers it");
  EXPECT_EQ(compile_error("fault_requires_broken"),
            "PluginError: P21 {dir}/tenon_fault_requires_broken.so: fault_requires_broken requires "
            "org.example.broken/1 of fault_entry_fails, which cannot be used; P11 "
            "{dir}/tenon_fault_entry_fails.so: its entry failed: the licence has run out");
  expect_the_rest_works();
}

TEST(Faults, P21CirclesOfExtensions) {
  know({"circle_a", "circle_b"});
  EXPECT_EQ(
      compile_error("fault_circle_a"),
      "PluginError: P21 {dir}/tenon_fault_circle_a.so: fault_circle_a requires org.example.b/1 of "
      "fault_circle_b, fault_circle_b requires org.example.a/1 of fault_circle_a: a circle; let "
      "one of them ask for the extension when it first compiles");
  EXPECT_EQ(
      compile_error("fault_circle_b"),
      "PluginError: P21 {dir}/tenon_fault_circle_b.so: fault_circle_b requires org.example.a/1 of "
      "fault_circle_a, fault_circle_a requires org.example.b/1 of fault_circle_b: a circle; let "
      "one of them ask for the extension when it first compiles");
  expect_the_rest_works();
}

TEST(Faults, P24LargeNotes) {
  know({"large_note"});
  EXPECT_EQ(compile_error("fault_large_note"),
            "PluginError: backend 'fault_large_note' cannot be used; P24 "
            "{dir}/tenon_fault_large_note.so: its manifest has 70000 bytes, the limit is 65536; "
            "shorten descriptions and options, or make two plugins of it");
  expect_the_rest_works();
}

TEST(Faults, P24TwoNotes) {
  know({"two_notes"});
  EXPECT_EQ(compile_error("fault_two_notes"),
            "PluginError: backend 'fault_two_notes' cannot be used; P24 "
            "{dir}/tenon_fault_two_notes.so: expected one Tenon note, found two, of 14 and 14 "
            "bytes; use either MANIFEST of tenon_add_plugin or TN_MANIFEST, once");
  expect_the_rest_works();
}

TEST(Faults, SlowEntriesAreTold) {
  know({"slow_entry"});
  report::LogCapture log;
  expect_works("fault_slow_entry");
  ASSERT_EQ(log.lines().size(), 1u);
  EXPECT_THAT(log.lines()[0],
              testing::MatchesRegex("warning: .backend. the entry of plugin fault_slow_entry took "
                                    "[0-9]+ ms, expected at most 200 ms; it should leave slow work "
                                    "to the first compile"));
}

// ---- growth of the ABI: these work

TEST(Faults, PluginsOfTheFirstHeaderAreTakenForEver) {
  know({"abi_1_0"});
  expect_works("fault_abi_1_0");
}

TEST(Faults, PluginsOfALaterMinorWork) {
  know({"abi_newer"});
  expect_works("fault_abi_newer");
}

TEST(Faults, ShorterTablesAreReadToTheirEndOnly) {
  know({"abi_shorter"});
  expect_works("fault_abi_shorter");
}

}  // namespace
}  // namespace tenon
