// .tenon files: what the reader takes has sections within the file, and survives the writer.
#include "formats/tenon_file.h"
#include "harness/fuzz.h"

using namespace tenon;
using namespace tenon::formats;

TENON_FUZZ_TARGET(tenon_file) {
  fuzz::accepts(fuzz::file_errors, [&] {
    Bytes file = fuzz::bytes_of(input);
    TenonFile read = TenonFile::from_bytes(file, "a.tenon");
    fuzz::count("accepted");
    for (const char* name : {"manifest", "plan", "guards"}) {
      auto section = read.find(name);
      if (!section) continue;
      fuzz::check(section->span.size() <= file.span.size(), "a section is larger than its file");
    }
  });
}
