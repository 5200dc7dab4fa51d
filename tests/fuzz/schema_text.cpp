// Op schemas: one that is taken is printed so that it reads back as the same schema.
#include "harness/fuzz.h"
#include "ops/schema.h"

using namespace tenon;

namespace {

constexpr std::initializer_list<ErrorCode> refused = {ErrorCode::invalid_argument};

void check_form(Schema (*form)(const Schema&), const Schema& schema) {
  fuzz::accepts(refused, [&] {
    Schema made = form(schema);
    fuzz::check(parse_schema(to_text(made)) == made, "a derived schema changes: " + to_text(made));
  });
}

}  // namespace

TENON_FUZZ_TARGET(schema_text) {
  fuzz::accepts(refused, [&] { parse_op_name(input); });
  Schema schema;
  if (!fuzz::accepts(refused, [&] { schema = parse_schema(input); })) return;
  std::string text = to_text(schema);
  fuzz::accepts({}, [&] {
    fuzz::check(parse_schema(text) == schema, "a schema changes when printed: " + text);
    OpName name = parse_op_name(schema.canonical_name());
    fuzz::check(canonical_op_name(name.ns, name.name, name.overload) == schema.canonical_name(),
                "the name of an op changes: " + schema.canonical_name());
  });
  check_form(in_place_schema, schema);
  check_form(out_schema, schema);
}
