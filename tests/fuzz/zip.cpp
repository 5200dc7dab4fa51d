// Zip archives: what the reader takes can be read, obeys the bound, and survives the writer.
#include "formats/zip.h"
#include "harness/fuzz.h"

#include <sstream>

using namespace tenon;
using namespace tenon::formats;

namespace {

constexpr uint64_t max_size = 16 << 20;

struct Record {
  std::string name, content;
  friend bool operator==(const Record&, const Record&) = default;
};

std::vector<Record> records_of(const ZipArchive& zip) {
  std::vector<Record> out;
  for (const ZipEntry& entry : zip.entries()) {
    fuzz::check(zip.find(entry.name) == &entry, "an entry is not found by its name");
    Bytes content = zip.read(entry);
    fuzz::check(content.span.size() == entry.size, "an entry has another size than it declares");
    out.push_back({entry.name, std::string(as_text(content.span))});
  }
  return out;
}

std::vector<Record> read(std::string_view file, bool check_crc) {
  return records_of(ZipArchive::from_bytes(fuzz::bytes_of(file), "a.zip",
                                           {.check_crc = check_crc, .max_size = max_size}));
}

}  // namespace

TENON_FUZZ_TARGET(zip) {
  fuzz::accepts(fuzz::file_errors, [&] { read(input, true); });
  std::vector<Record> records;
  if (!fuzz::accepts(fuzz::file_errors, [&] { records = read(input, false); })) return;
  uint64_t size = 0;
  std::ostringstream out;
  ZipWriter zip(out);
  for (const Record& record : records) {
    size += record.content.size();
    zip.add(record.name, as_byte_span(record.content));
  }
  zip.finish();
  fuzz::check(size <= max_size, "more was unpacked than the bound allows");
  fuzz::check(read(out.str(), true) == records, "the writer changed the records");
}
