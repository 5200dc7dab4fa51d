// Plugin files: the note is found, or there is a diagnosis; the same from memory and from a file.
#include "backend/find/manifest.h"
#include "backend/find/note.h"
#include "harness/fuzz.h"

using namespace tenon;

namespace {

auto facts(const NoteResult& result) {
  const ElfInfo& info = result.info;
  return std::tie(info.manifest, info.needed, info.runpath, info.exports_entry, info.exec_stack,
                  info.text_relocations, result.diagnosis.fault, result.diagnosis.reason);
}

}  // namespace

TENON_FUZZ_TARGET(elf_note) {
  NoteResult result = read_note(formats::as_byte_span(input), "a.so");
  fuzz::InputFile file(input);
  NoteResult from_file = read_note(file.path());
  fuzz::check(facts(result) == facts(from_file), "memory and file are read differently");
  if (result.diagnosis) {
    fuzz::check_shown(result.diagnosis.reason);
    return;
  }
  fuzz::check(
      result.info.manifest.size() <= 64 * 1024 && input.find(result.info.manifest) != input.npos,
      "the manifest is not what stands in the file");
  parse_manifest(result.info.manifest, "a.so");
}
