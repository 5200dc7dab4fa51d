// Flag files: read and checked as --config does, without setting anything. A value that is taken
// is written as TOML that gives the same value.
#include "config/config.h"
#include "config/store.h"
#include "harness/fuzz.h"

using namespace tenon;
using namespace tenon::config;

namespace {

void check_value(const Reading& reading) {
  size_t dot = reading.key.find('.');
  std::string text = message("[{}]\n{} = {}\n", reading.key.substr(0, dot),
                             reading.key.substr(dot + 1), value_text(reading.value));
  std::vector<Reading> again = read_text(text, "again", Layer::file);
  fuzz::check(again.size() == 1 && again[0].key == reading.key && again[0].value == reading.value,
              "a value changes when written: " + text);
}

}  // namespace

TENON_FUZZ_TARGET(toml) {
  try {
    std::vector<Reading> readings = read_text(input, "a.toml", Layer::file);
    Store::instance().look()->check(readings);
    // Unknown keys are tolerated where the file says so, and may be spelled anyhow.
    for (const Reading& reading : readings)
      if (!reading.tolerate_unknown) check_value(reading);
  } catch (const FileError& error) {
    fuzz::check(is_file_error(error) && error.file() == "a.toml", "the error lost its file");
    fuzz::check_shown(error.what());
  }
}
