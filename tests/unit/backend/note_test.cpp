// The ELF note reader against well-formed, foreign, damaged and hostile files.
#include "backend/find/note.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <random>

#include "tiny_elf.h"

namespace tenon {
namespace {

using test::TinyElf;

NoteResult read_bytes(const std::string& bytes) {
  return read_note(std::as_bytes(std::span(bytes.data(), bytes.size())), "x.so");
}

TinyElf good() {
  return {.manifests = {"manifest = 1\n"},
          .needed = {"libc.so.6", "libLLVM-19.so"},
          .runpath = "$ORIGIN/lib"};
}

TEST(NoteReader, ReadsManifestLibrariesAndEntry) {
  NoteResult r = read_bytes(good().bytes());
  ASSERT_FALSE(r.diagnosis) << to_text(r.diagnosis);
  EXPECT_EQ(r.info.manifest, "manifest = 1\n");
  EXPECT_EQ(r.info.needed, (std::vector<std::string>{"libc.so.6", "libLLVM-19.so"}));
  EXPECT_EQ(r.info.runpath, "$ORIGIN/lib");
  EXPECT_TRUE(r.info.exports_entry);
  EXPECT_FALSE(r.info.exec_stack);
}

TEST(NoteReader, FindsTheEntryThroughTheSystemVHashToo) {
  TinyElf elf = good();
  elf.sysv_hash = true;
  EXPECT_TRUE(read_bytes(elf.bytes()).info.exports_entry);
}

TEST(NoteReader, SeesThatTheEntryIsMissingHiddenOrAnImport) {
  TinyElf missing = good(), hidden = good(), import = good(), other = good();
  missing.symbol = "";
  hidden.visibility = STV_HIDDEN;
  import.section = SHN_UNDEF;
  other.symbol = "tenon_plugin_entry_v2";
  for (const TinyElf& elf : {missing, hidden, import, other}) {
    NoteResult r = read_bytes(elf.bytes());
    EXPECT_FALSE(r.diagnosis) << to_text(r.diagnosis);
    EXPECT_FALSE(r.info.exports_entry);
  }
}

TEST(NoteReader, SeesAnExecutableStack) {
  TinyElf elf = good();
  elf.exec_stack = true;
  EXPECT_TRUE(read_bytes(elf.bytes()).info.exec_stack);
}

TEST(NoteReader, TellsFilesThatAreNoPlugins) {
  TinyElf elf = good();
  elf.manifests = {};
  EXPECT_EQ(read_bytes(elf.bytes()).diagnosis.fault, PluginFault::no_note);
}

// Its notes are aligned to 4 and to 8 bytes.
TEST(NoteReader, ReadsTheNotesOfTheCLibrary) {
  Dl_info where{};
  ASSERT_NE(::dladdr(reinterpret_cast<void*>(&::fopen), &where), 0);
  NoteResult r = read_note(std::string(where.dli_fname));
  EXPECT_EQ(r.diagnosis.fault, PluginFault::no_note) << to_text(r.diagnosis);
}

TEST(NoteReader, RefusesTwoNotesAndLargeNotes) {
  TinyElf two = good(), large = good(), largest = good();
  two.manifests.push_back("manifest = 1\n");
  large.manifests = {std::string(64 * 1024, '#')};
  largest.manifests = {std::string(64 * 1024 - 1, '#')};  // and its terminator
  EXPECT_EQ(read_bytes(two.bytes()).diagnosis.fault, PluginFault::bad_note);
  EXPECT_EQ(read_bytes(large.bytes()).diagnosis.fault, PluginFault::bad_note);
  EXPECT_EQ(read_bytes(largest.bytes()).info.manifest.size(), 64u * 1024 - 1);
}

TEST(NoteReader, NamesBothMachinesAndClasses) {
  TinyElf arm = good(), program = good();
  arm.machine = EM_RISCV;
  program.type = ET_EXEC;
  NoteResult r = read_bytes(arm.bytes());
  EXPECT_EQ(r.diagnosis.fault, PluginFault::wrong_machine);
  EXPECT_NE(r.diagnosis.reason.find("risc-v"), std::string::npos);
  EXPECT_EQ(read_bytes(program.bytes()).diagnosis.fault, PluginFault::wrong_machine);

  std::string narrow = good().bytes(), big_endian = good().bytes();
  narrow[EI_CLASS] = ELFCLASS32;
  big_endian[EI_DATA] = ELFDATA2MSB;
  EXPECT_EQ(read_bytes(narrow).diagnosis.fault, PluginFault::wrong_machine);
  EXPECT_NE(read_bytes(big_endian).diagnosis.reason.find("big"), std::string::npos);
}

TEST(NoteReader, RefusesTextAndEmptyFiles) {
  EXPECT_EQ(read_bytes("").diagnosis.fault, PluginFault::unreadable);
  EXPECT_EQ(read_bytes("#!/bin/sh\necho this is not a library\n").diagnosis.fault,
            PluginFault::unreadable);
}

TEST(NoteReader, DiagnosesEveryTruncation) {
  std::string whole = good().bytes();
  for (size_t n = 0; n < whole.size(); ++n)
    EXPECT_TRUE(read_bytes(whole.substr(0, n)).diagnosis) << "accepted the first " << n << " bytes";
}

// Whatever the bytes say, the reader returns; a sanitizer build tells whether it stayed inside.
TEST(NoteReader, SurvivesMutatedFiles) {
  std::mt19937 random(7);
  std::string whole = good().bytes();
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = whole;
    for (int change = 0; change < 1 + round % 4; ++change)
      bytes[random() % bytes.size()] = static_cast<char>(round % 3 ? random() : 0xFF);
    NoteResult r = read_bytes(bytes);
    EXPECT_LE(r.info.manifest.size(), 64u * 1024);
  }
}

TEST(NoteReader, SurvivesHugeOffsetsAndCounts) {
  std::string whole = good().bytes();
  for (size_t at = 0; at + 8 <= whole.size(); at += 4)
    for (uint64_t value : {~uint64_t{0}, ~uint64_t{0} - 7, uint64_t{1} << 63, uint64_t{1} << 32}) {
      std::string bytes = whole;
      std::memcpy(&bytes[at], &value, sizeof value);
      read_bytes(bytes);
    }
}

TEST(NoteReader, ReadsFilesBeyondTheFirstBlockAndTellsTheirIdentity) {
  char directory[] = "/tmp/tenon_note_XXXXXX";
  ASSERT_NE(::mkdtemp(directory), nullptr);
  std::string path = std::string(directory) + "/x.so";
  TinyElf elf = good();
  elf.manifests = {std::string(10000, '#')};
  elf.write(path);
  NoteResult r = read_note(path);
  EXPECT_FALSE(r.diagnosis) << to_text(r.diagnosis);
  EXPECT_EQ(r.info.manifest.size(), 10000u);
  EXPECT_TRUE(r.info.exports_entry);
  EXPECT_EQ(r.info.file.size, elf.bytes().size());
  struct stat s {};
  ASSERT_EQ(::stat(path.c_str(), &s), 0);
  EXPECT_EQ(r.info.file, identity_of(s));
  std::filesystem::remove_all(directory);
}

TEST(NoteReader, TellsMissingFilesAndDirectories) {
  NoteResult missing = read_note("/nowhere/at/all.so");
  EXPECT_EQ(missing.diagnosis.fault, PluginFault::unreadable);
  EXPECT_NE(missing.diagnosis.reason.find("No such file"), std::string::npos);
  EXPECT_EQ(read_note("/tmp").diagnosis.fault, PluginFault::unreadable);
}

}  // namespace
}  // namespace tenon
