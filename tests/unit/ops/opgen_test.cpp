// opgen: reading rows out of C++ text, C++ types and names, overloads that do not clash, the files.
#include "ops/opgen/cpp_types.h"
#include "ops/opgen/functions.h"
#include "ops/opgen/scan.h"
#include "ops/opgen/write.h"

#include <gtest/gtest.h>

namespace tenon::opgen {
namespace {

std::string error_of(auto&& call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

TEST(RowScanner, FindsSchemasAndVariantsOnly) {
  RowFile file = scan_rows("host/ops/pointwise/unary.cpp", R"rows(
    // {.schema = "commented(Tensor self) -> Tensor"},
    /* .schema = "this_too(Tensor self) -> Tensor" */
    const char* text = ".schema = \"quoted(Tensor self) -> Tensor\"";
    const char* raw = R"x(.schema = "raw(Tensor self) -> Tensor")x";
    int n = 1'000'000; char c = '"';
    static_assert(row.schema == nullptr);
    static constexpr OpDef rows[] = {
        {.schema = "relu(Tensor self) "  // joined
                   "-> Tensor",
         .variants = in_place | out,
         .formula = pointwise([](auto x) { return x; })},
        {.schema = "gelu(Tensor self, *, str approximate=\"none\") -> Tensor"},
    };)rows");
  EXPECT_EQ(file.family, "pointwise_unary");
  ASSERT_EQ(file.rows.size(), 2u);
  EXPECT_EQ(file.rows[0].schema.name, "relu");
  EXPECT_TRUE(file.rows[0].in_place);
  EXPECT_TRUE(file.rows[0].out);
  EXPECT_EQ(file.rows[1].schema.args[1].default_value.text, "none");
  EXPECT_FALSE(file.rows[1].in_place);
  EXPECT_EQ(file.rows[1].place, "host/ops/pointwise/unary.cpp:13:20");
}

TEST(RowScanner, NamesFileLineAndColumnOfErrors) {
  auto error = [](const char* source) { return error_of([&] { scan_rows("a/b.cpp", source); }); };
  EXPECT_TRUE(error("\n {.schema = \"f(\"}").starts_with("a/b.cpp:2:13: schema, line 1, column 3"));
  EXPECT_TRUE(error("{.schema = MACRO(x)}").starts_with("a/b.cpp:1:12: expected a string literal"));
  EXPECT_TRUE(error("{.schema = \"f").starts_with("a/b.cpp:1:12: a literal does not end"));
  EXPECT_TRUE(error("x = R\"y(z").starts_with("a/b.cpp:1:5: a raw string"));
  EXPECT_TRUE(error("{.schema = \"\\q\"}").starts_with("a/b.cpp:1:12: expected an escape"));
  EXPECT_TRUE(error("{.variants = out}").starts_with("a/b.cpp:1:14: expected .schema before"));
  EXPECT_TRUE(error("{.schema = \"f() -> ()\", .variants = outt}")
                  .starts_with("a/b.cpp:1:37: expected in_place or out"));
}

TEST(RowScanner, TakesAFileWithoutRows) {
  EXPECT_TRUE(scan_rows("x/y.cpp", "int main() { return 0; }").rows.empty());
  EXPECT_TRUE(scan_rows("x/y.cpp", "/* open").rows.empty());
}

std::string type_of(std::string_view type) {
  return param_type(parse_schema("f(" + std::string(type) + " x) -> ()").args[0].type);
}

TEST(CppTypes, FollowTheSchemaTypes) {
  const std::pair<const char*, const char*> pairs[] = {
      {"Tensor", "const Tensor&"},
      {"Tensor(a!)", "const Tensor&"},
      {"Tensor?", "const Tensor&"},
      {"Tensor[]", "TensorList"},
      {"Tensor?[]", "TensorList"},
      {"Scalar", "Number"},
      {"Scalar?", "std::optional<Number>"},
      {"int", "int64_t"},
      {"SymInt?", "std::optional<SymInt>"},
      {"int[2]", "IntList"},
      {"int[1]?", "OptIntList"},
      {"SymInt[]", "SymIntList"},
      {"SymInt[]?", "OptSymIntList"},
      {"float[]?", "OptDoubleList"},
      {"bool[3]", "BoolList"},
      {"str", "std::string_view"},
      {"str[]", "StringList"},
      {"ScalarType?", "std::optional<Dtype>"},
      {"Layout", "std::optional<Layout>"},
      {"Device", "Device"},
      {"MemoryFormat?", "std::optional<MemoryFormat>"},
      {"Scalar[]", "DoubleList"},
      {"Generator?", ""},
      {"Storage", ""},
      {"int?[]", ""},
  };
  for (auto [schema, cpp] : pairs) EXPECT_EQ(type_of(schema), cpp) << schema;
}

std::string default_in_cpp(std::string_view arg) {
  return default_text(parse_schema("f(" + std::string(arg) + ") -> ()").args[0]);
}

TEST(CppTypes, WriteDefaultsAsInitialisers) {
  EXPECT_EQ(default_in_cpp("Tensor? x=None"), "{}");
  EXPECT_EQ(default_in_cpp("int[]? x=None"), "{}");
  EXPECT_EQ(default_in_cpp("int? x=None"), "std::nullopt");
  EXPECT_EQ(default_in_cpp("int[2] x=1"), "{1, 1}");
  EXPECT_EQ(default_in_cpp("int[] x=[]"), "{}");
  EXPECT_EQ(default_in_cpp("bool[] x=[True, False]"), "{true, false}");
  EXPECT_EQ(default_in_cpp("bool x=True"), "true");
  EXPECT_EQ(default_in_cpp("float x=1"), "1.0");
  EXPECT_EQ(default_in_cpp("str x='a\"b'"), "\"a\\\"b\"");
  EXPECT_EQ(default_in_cpp("ScalarType? x=long"), "Dtype::i64");
  EXPECT_EQ(default_in_cpp("ScalarType x=bool"), "Dtype::bool_");
  EXPECT_EQ(default_in_cpp("MemoryFormat x=contiguous_format"), "MemoryFormat::contiguous");
  EXPECT_EQ(default_in_cpp("Device x=cpu"), "Device(DeviceType::cpu)");
}

TEST(CppTypes, MoveKeywordsOutOfTheWay) {
  EXPECT_EQ(identifier("default"), "default_");
  EXPECT_EQ(identifier("xor"), "xor_");
  EXPECT_EQ(identifier("self"), "self");
}

// "name/required" for each function.
std::vector<std::string> names(const std::vector<const char*>& texts) {
  std::vector<Schema> schemas;
  for (const char* text : texts) schemas.push_back(parse_schema(text));
  std::vector<std::string> out;
  for (const Function& f : make_functions(schemas))
    out.push_back(f.name + "/" + std::to_string(f.required));
  return out;
}
using Names = std::vector<std::string>;

TEST(Overloads, LoseDefaultsThatMakeCallsAmbiguous) {
  EXPECT_EQ(names({"all(Tensor self) -> Tensor", "all.dim(Tensor self, int dim) -> Tensor",
                   "all.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor"}),
            (Names{"all/1", "all/2", "all/2"}));
  EXPECT_EQ(names({"clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor",
                   "clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor"}),
            (Names{"clamp/1", "clamp/2"}));
}

TEST(Overloads, MoveWhereAKeywordStandsForAPosition) {
  EXPECT_EQ(
      names({"repeat_interleave.Tensor(Tensor repeats, *, SymInt? output_size=None) -> Tensor",
             "repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None, *, "
             "SymInt? output_size=None) -> Tensor"}),
      (Names{"repeat_interleave_Tensor/1", "repeat_interleave/2"}));
  EXPECT_EQ(names({"sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor, Tensor)",
                   "sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) "
                   "-> (Tensor, Tensor)"}),
            (Names{"sort/1", "sort_stable/2"}));
}

TEST(Overloads, MoveWhereCppMistakesOneForTheOther) {
  EXPECT_EQ(names({"conv(Tensor input, SymInt[2] padding=0, SymInt groups=1) -> Tensor",
                   "conv.padding(Tensor input, str padding=\"valid\", SymInt groups=1) -> Tensor"}),
            (Names{"conv/1", "conv_padding/1"}));
}

TEST(Overloads, OfOutArgumentsHaveANameOfTheirOwn) {
  std::vector<Function> f = make_functions({parse_schema(
      "max.dim_max(Tensor self, int dim, bool keepdim=False, *, Tensor(a!) max, Tensor(b!) "
      "max_values) -> (Tensor(a!), Tensor(b!))")});
  ASSERT_EQ(f.size(), 1u);
  EXPECT_EQ(f[0].name, "max_out");
  EXPECT_EQ(f[0].params[0].name, "max");
  EXPECT_EQ(f[0].params[1].name, "max_values");
  EXPECT_EQ(f[0].params[2].name, "self");
  EXPECT_EQ(f[0].required, 4u);
  EXPECT_FALSE(f[0].is_method);
}

TEST(Overloads, TakeNoNumberForABool) {
  std::vector<Function> f = make_functions(
      {parse_schema("std(Tensor self, bool unbiased=True) -> Tensor"),
       parse_schema("std.dim(Tensor self, int[1]? dim, bool keepdim=False) -> Tensor")});
  EXPECT_TRUE(f[0].params[1].exact);
  EXPECT_FALSE(f[1].params[2].exact);
}

TEST(Overloads, WithoutACppFormHaveNoFunction) {
  EXPECT_EQ(names({"sym::mul(SymInt a, SymInt b) -> SymInt", "__and__(Tensor a) -> Tensor",
                   "f(Tensor[] self, complex[] factors) -> Tensor[]",
                   "result_type(Tensor a) -> ScalarType",
                   "rand.generator(SymInt[] size, *, Generator? generator) -> Tensor",
                   "rand(SymInt[] size, *, Generator? generator=None) -> Tensor"}),
            (Names{"rand/1"}));
}

std::map<std::string, std::string> generated(const std::string& rows) {
  return generate({scan_rows("ops/math/add.cpp", rows)});
}

std::string row(std::string_view schema, std::string_view more = "") {
  return "{.schema = \"" + std::string(schema) + "\"" + std::string(more) + "},\n";
}

std::string all_stubs(const std::map<std::string, std::string>& files) {
  std::string out;
  for (size_t i = 0; i < n_stub_files; ++i) out += files.at(message("ops/ops_{}.cpp", i));
  return out;
}

TEST(Opgen, WritesFunctionsMethodsIdsAndStubs) {
  auto files = generated(row("add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
                             ", .variants = in_place"));
  EXPECT_TRUE(contains(files.at("tenon/ops/math.h"),
                       "/// aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> "
                       "Tensor\nTENON_API Tensor add(const Tensor& self, const Tensor& other, "
                       "Number alpha = 1);\n"));
  EXPECT_TRUE(contains(files.at("tenon/tensor_methods.inc"),
                       "Tensor add_(const Tensor& other, Number alpha = 1) const;"));
  EXPECT_TRUE(contains(files.at("ops/op_ids.h"), "  aten_add_Tensor,\n  aten_add__Tensor,\n}"));
  EXPECT_TRUE(contains(files.at("ops/op_ids.h"), "n_row_ops = 2;"));
  EXPECT_TRUE(contains(files.at("ops/op_families.cpp"), "    &ops::op_family_math_add,\n"));
  EXPECT_TRUE(contains(files.at("ops/op_families.cpp"), "n_op_families = 1;"));
  EXPECT_TRUE(contains(
      all_stubs(files),
      "Tensor add(const Tensor& self, const Tensor& other, Number alpha) {\n"
      "  Value args_[] = {Value::of(self), Value::of(other), Value::of(alpha)};\n"
      "  Value results_[1];\n"
      "  call_op(OpId::aten_add_Tensor, args_, 3, results_, 1);\n"
      "  return take<Tensor>(results_[0]);\n}\n"
      "Tensor Tensor::add(const Tensor& other, Number alpha) const { return tenon::add(*this, "
      "other, alpha); }\n"));
}

TEST(Opgen, PacksInSchemaOrderAndUnpacksTuples) {
  std::string text = all_stubs(generated(
      row("f.out(Tensor x, *, Generator? generator=None, Tensor(a!) out) -> (Tensor(a!), bool, "
          "Tensor[])") +
      row("g() -> ()")));
  EXPECT_TRUE(contains(text, "f_out(const Tensor& out, const Tensor& x) {"));
  EXPECT_TRUE(contains(text, "{Value::of(x), Value(), Value::of(out)};"));
  EXPECT_TRUE(contains(text,
                       "return {take<Tensor>(results_[0]), take<bool>(results_[1]), "
                       "take<std::vector<Tensor>>(results_[2])};"));
  EXPECT_TRUE(
      contains(text, "void g() {\n  call_op(OpId::aten_g_default, nullptr, 0, nullptr, 0);"));
}

TEST(Opgen, InstantiatesExactBools) {
  auto files = generated(row("std(Tensor self, bool unbiased=True) -> Tensor") +
                         row("std.dim(Tensor self, int[1]? dim) -> Tensor"));
  EXPECT_TRUE(contains(files.at("tenon/ops/math.h"),
                       "template <std::same_as<bool> Bool1 = bool>\nTENON_API Tensor std(const "
                       "Tensor& self, Bool1 unbiased = true);"));
  EXPECT_TRUE(
      contains(all_stubs(files), "template TENON_API Tensor Tensor::std<bool>(bool) const;\n"));
}

TEST(Opgen, PutsForeignNamespacesIntoTheirOwn) {
  auto files =
      generated(row("prims::f(Tensor self) -> Tensor") + row("sym::g(SymInt a) -> SymInt"));
  EXPECT_TRUE(contains(files.at("tenon/ops/math.h"), "namespace prims {\n"));
  EXPECT_FALSE(contains(files.at("tenon/tensor_methods.inc"), " f("));
  EXPECT_TRUE(contains(files.at("ops/op_ids.h"), "prims_f_default,\n  sym_g_default,"));
  EXPECT_FALSE(contains(files.at("tenon/ops/math.h"), " g("));
}

TEST(Opgen, KeepsMethodsThatTensorHasItself) {
  auto files = generated(row("size.int(Tensor self, int dim) -> int"));
  EXPECT_TRUE(contains(files.at("tenon/ops/math.h"), "int64_t size("));
  EXPECT_FALSE(contains(files.at("tenon/tensor_methods.inc"), "int64_t size("));
}

TEST(Opgen, LeavesClassTensorAloneForWhatPyTorchHasAsFunctionsOnly) {
  auto files =
      generated(row("special_erf(Tensor self) -> Tensor") + row("_sorted(Tensor self) -> Tensor") +
                row("f_backward(Tensor self) -> Tensor"));
  EXPECT_TRUE(contains(files.at("tenon/ops/math.h"), "Tensor special_erf(const Tensor& self);"));
  EXPECT_FALSE(contains(files.at("tenon/tensor_methods.inc"), "const;"));
}

TEST(Opgen, GivesEachRoomAHeaderAndKeepsTheOverloadsOfANameTogether) {
  auto files = generate({scan_rows("ops/math/add.cpp", row("f.a(Tensor x) -> Tensor")),
                         scan_rows("ops/order/sort.cpp",
                                   row("f.b(int n) -> Tensor") + row("g(Tensor x) -> Tensor"))});
  EXPECT_TRUE(contains(files.at("tenon/ops/math.h"), " f(int64_t n);"));
  EXPECT_FALSE(contains(files.at("tenon/ops/order.h"), " f("));
  EXPECT_TRUE(contains(files.at("tenon/ops/order.h"), " g("));
  EXPECT_TRUE(contains(files.at("tenon/ops.h"),
                       "#include <tenon/ops/math.h>\n#include <tenon/ops/order.h>\n"));
}

TEST(Opgen, WritesFilesThatCompileWithoutRows) {
  auto files = generate({scan_rows("ops/math/none.cpp", "")});
  EXPECT_TRUE(contains(files.at("ops/op_families.cpp"), "n_op_families = 0;"));
  EXPECT_FALSE(contains(files.at("ops/op_families.cpp"), "op_family_"));
}

TEST(Opgen, NamesBothRowsOfOneOverload) {
  EXPECT_EQ(error_of([] {
              generate({scan_rows("a/x.cpp", row("f(Tensor self) -> Tensor")),
                        scan_rows("b/y.cpp", "\n" + row("f(Tensor y) -> Tensor"))});
            }),
            "b/y.cpp:2:12: aten.f.default is defined twice, first at a/x.cpp:1:12; remove one of "
            "the rows or its variants");
  EXPECT_TRUE(contains(
      error_of([] {
        generate({scan_rows("a/x.cpp", row("f(Tensor self) -> Tensor", ", .variants = in_place") +
                                           row("f_(Tensor(a!) self) -> Tensor(a!)"))});
      }),
      "aten.f_.default is defined twice"));
}

TEST(Opgen, NamesTheRowWhoseVariantCannotBe) {
  EXPECT_TRUE(error_of([] {
                generated(row("cat(Tensor[] tensors) -> Tensor", ", .variants = in_place"));
              }).starts_with("ops/math/add.cpp:1:12: aten.cat.default: an in-place form needs"));
}

TEST(Opgen, RefusesTwoFilesOfOneFamily) {
  EXPECT_TRUE(contains(error_of([] {
                         generate({scan_rows("p/a/x.cpp", row("f() -> ()")),
                                   scan_rows("q/a/x.cpp", row("g() -> ()"))});
                       }),
                       "family a_x comes from another file too"));
}

}  // namespace
}  // namespace tenon::opgen
