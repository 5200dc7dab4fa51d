// JSON of archives: what is read is written so that it reads back alike; views never fail oddly.
#include "formats/json.h"
#include "harness/fuzz.h"

using namespace tenon;
using namespace tenon::formats;

namespace {

// Asks every value for what it may not be.
void look_at(const JsonView& view) {
  fuzz::accepts({ErrorCode::bad_file}, [&] { view.boolean(); });
  fuzz::accepts({ErrorCode::bad_file}, [&] { view.integer(); });
  fuzz::accepts({ErrorCode::bad_file}, [&] { view.real(); });
  fuzz::accepts({ErrorCode::bad_file}, [&] { view.only_member(); });
  fuzz::accepts({ErrorCode::bad_file}, [&] { view.field("name"); });
}

}  // namespace

TENON_FUZZ_TARGET(json) {
  fuzz::accepts({ErrorCode::bad_file}, [&] {
    JsonDocument document = parse_json(input, "a.json");
    std::string text = document.root().dump();
    fuzz::check(parse_json(text, "again").root().dump() == text, "JSON changes when written");
    look_at(document.view());
    if (document.view().is_array() && document.view().size() > 0)
      look_at(document.view().items().back());
    if (document.view().is_object() && document.view().size() > 0)
      look_at(document.view().members().back().second);
  });
}
