// The schema parser: what it accepts, what it makes of it, and its messages.
#include "ops/schema.h"

#include <gtest/gtest.h>

namespace tenon {
namespace {

using Kind = DefaultValue::Kind;

// Texts of PyTorch's registry, one or more of each kind of type, default, alias and result.
const char* const known_schemas[] = {
    "aten::relu(Tensor self) -> Tensor",
    "aten::relu_(Tensor(a!) self) -> Tensor(a!)",
    "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    "aten::add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
    "aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)",
    "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)",
    "aten::sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    "aten::div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor",
    "aten::pow.Scalar(Scalar self, Tensor exponent) -> Tensor",
    "aten::clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor",
    "aten::clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor",
    "aten::where.self(Tensor condition, Tensor self, Tensor other) -> Tensor",
    "aten::gelu(Tensor self, *, str approximate=\"none\") -> Tensor",
    "aten::elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor",
    "aten::nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> "
    "Tensor",
    "aten::sum(Tensor self, *, ScalarType? dtype=None) -> Tensor",
    "aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? "
    "dtype=None) -> Tensor",
    "aten::var.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool "
    "keepdim=False) -> Tensor",
    "aten::var_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> "
    "(Tensor, Tensor)",
    "aten::max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
    "aten::max.dim_max(Tensor self, int dim, bool keepdim=False, *, Tensor(a!) max, Tensor(b!) "
    "max_values) -> (Tensor(a!) values, Tensor(b!) indices)",
    "aten::topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> "
    "(Tensor values, Tensor indices)",
    "aten::sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> "
    "(Tensor values, Tensor indices)",
    "aten::amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor",
    "aten::linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, "
    "*, ScalarType? dtype=None) -> Tensor",
    "aten::linalg_matrix_norm.str_ord(Tensor self, str ord=\"fro\", int[] dim=[-2, -1], bool "
    "keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    "aten::linalg_qr(Tensor A, str mode=\"reduced\") -> (Tensor Q, Tensor R)",
    "aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)",
    "aten::transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)",
    "aten::slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt "
    "step=1) -> Tensor(a)",
    "aten::as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? "
    "storage_offset=None) -> Tensor(a)",
    "aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]",
    "aten::unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]",
    "aten::squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)",
    "aten::to.dtype_layout(Tensor(a) self, *, ScalarType? dtype=None, Layout? layout=None, "
    "Device? device=None, bool? pin_memory=None, bool non_blocking=False, bool copy=False, "
    "MemoryFormat? memory_format=None) -> Tensor(a)",
    "aten::to.device(Tensor(a) self, Device device, ScalarType dtype, bool non_blocking=False, "
    "bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)",
    "aten::contiguous(Tensor(a) self, *, MemoryFormat memory_format=contiguous_format) -> "
    "Tensor(a)",
    "aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
    "aten::cat(Tensor[] tensors, int dim=0) -> Tensor",
    "aten::meshgrid.indexing(Tensor[] tensors, *, str indexing) -> Tensor[]",
    "aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
    "aten::index_put_(Tensor(a!) self, Tensor?[] indices, Tensor values, bool accumulate=False) "
    "-> Tensor(a!)",
    "aten::scatter.value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) "
    "-> Tensor",
    "aten::embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool "
    "scale_grad_by_freq=False, bool sparse=False) -> Tensor",
    "aten::conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], "
    "SymInt[2] padding=[0, 0], SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor",
    "aten::convolution_backward(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? "
    "bias_sizes, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] "
    "output_padding, SymInt groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
    "aten::max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=[0, 0], "
    "int[2] dilation=[1, 1], bool ceil_mode=False) -> Tensor",
    "aten::upsample_nearest2d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) "
    "-> Tensor",
    "aten::native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? "
    "bias, float eps) -> (Tensor, Tensor, Tensor)",
    "aten::_native_batch_norm_legit(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!) "
    "running_mean, Tensor(b!) running_var, bool training, float momentum, float eps) -> (Tensor, "
    "Tensor, Tensor)",
    "aten::native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)",
    "aten::lstm.input(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int "
    "num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, "
    "Tensor, Tensor)",
    "aten::arange.start_step(Scalar start, Scalar end, Scalar step=1, *, ScalarType? dtype=None, "
    "Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
    "aten::bernoulli(Tensor self, *, Generator? generator=None) -> Tensor",
    "aten::randint(SymInt high, SymInt[] size, *, ScalarType? dtype=long, Layout? layout=None, "
    "Device? device=None, bool? pin_memory=None) -> Tensor",
    "aten::item(Tensor self) -> Scalar",
    "aten::sym_size.int(Tensor self, int dim) -> SymInt",
    "aten::equal(Tensor self, Tensor other) -> bool",
    "aten::result_type.Tensor(Tensor tensor, Tensor other) -> ScalarType",
    "aten::_assert_scalar(Scalar self, str assert_msg) -> ()",
    "aten::_foreach_add_.Scalar(Tensor(a!)[] self, Scalar scalar) -> ()",
    "aten::_foreach_add.ScalarList(Tensor[] self, Scalar[] scalars) -> Tensor[]",
    "aten::searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, "
    "bool right=False, str? side=None, Tensor? sorter=None) -> Tensor",
    "mylib::tag.v2(Tensor x, float[] weights=[0.5, 1.0], bool[2] mask=[True, False], str[] "
    "names, Device device=cpu, Layout layout=strided) -> Tensor",
    "mylib::twins(Tensor(a|b!) x, Tensor(c! -> d|e) y) -> (Tensor(a|b!) first, Tensor(d))",
};

TEST(Schema, ReadsAndPrintsWhatPyTorchPrints) {
  for (const char* text : known_schemas) EXPECT_EQ(to_text(parse_schema(text)), text);
}

TEST(Schema, KnowsTypesAliasesAndKeywords) {
  Schema s = parse_schema(
      "index_put_(Tensor(a!) self, Tensor?[] indices, int[2]? pair=None, *, SymInt n) -> "
      "Tensor(a!)");
  EXPECT_EQ(s.canonical_name(), "aten.index_put_.default");
  ASSERT_EQ(s.args.size(), 4u);
  EXPECT_TRUE(s.args[0].mutated());
  EXPECT_EQ(s.args[0].alias.before, std::vector<std::string>{"a"});
  EXPECT_EQ(s.args[1].type, (SchemaType{BaseType::tensor, true, false, true, -1}));
  EXPECT_EQ(s.args[2].type, (SchemaType{BaseType::integer, true, true, false, 2}));
  EXPECT_EQ(s.args[2].default_value.kind, Kind::none);
  EXPECT_FALSE(s.args[2].kwarg_only);
  EXPECT_TRUE(s.args[3].kwarg_only);
  EXPECT_FALSE(s.args[3].has_default());
  EXPECT_EQ(s.find_arg("n"), 3);
  EXPECT_EQ(s.find_arg("m"), -1);
  EXPECT_EQ(s.returned_arg(0), 0);
}

TEST(Schema, TellsWhichArgumentEachResultIs) {
  Schema s = parse_schema(
      "f.out(Tensor x, *, Tensor(a!) p, Tensor(b!) q) -> (Tensor(b!), Tensor(a!), Tensor)");
  EXPECT_EQ(s.returned_arg(0), 2);
  EXPECT_EQ(s.returned_arg(1), 1);
  EXPECT_EQ(s.returned_arg(2), -1);
  EXPECT_EQ(parse_schema("view(Tensor(a) self) -> Tensor(a)").returned_arg(0), -1);
}

DefaultValue default_of(std::string_view argument) {
  return parse_schema("f(" + std::string(argument) + ") -> ()").args.at(0).default_value;
}

TEST(Schema, GivesDefaultsTheTypeOfTheirArgument) {
  EXPECT_EQ(default_of("int x=-3").integer, -3);
  EXPECT_EQ(default_of("float x=1").kind, Kind::floating);
  EXPECT_EQ(default_of("float x=1").floating, 1.0);
  EXPECT_EQ(default_of("float x=1e-05").floating, 1e-05);
  EXPECT_EQ(default_of("Scalar x=2").kind, Kind::integer);
  EXPECT_EQ(default_of("Scalar x=2.").kind, Kind::floating);
  EXPECT_TRUE(default_of("Scalar x=True").boolean);
  EXPECT_EQ(default_of("int[2] x=3").ints, (std::vector<int64_t>{3, 3}));
  EXPECT_EQ(default_of("int[] x=3").ints, (std::vector<int64_t>{3}));
  EXPECT_EQ(default_of("float[] x=[1, 0.5]").floats, (std::vector<double>{1, 0.5}));
  EXPECT_EQ(default_of("bool[] x=[True]").bools, (std::vector<uint8_t>{1}));
  EXPECT_EQ(default_of("int reduction=Mean").integer, 1);
  EXPECT_EQ(default_of("str x='a\\'b'").text, "a'b");
  EXPECT_EQ(default_of("str x=\" \\n\\\\\"").text, " \n\\");
}

TEST(Schema, KeepsEnumWordsWithTheirNumbers) {
  EXPECT_EQ(default_of("MemoryFormat? x=0").text, "contiguous_format");
  EXPECT_EQ(default_of("MemoryFormat x=preserve_format").integer, 1);
  EXPECT_EQ(default_of("ScalarType? x=4").text, "long");
  EXPECT_EQ(default_of("ScalarType x=float").integer, 6);
}

TEST(Schema, TakesBlanksAndLinesAnywhere) {
  EXPECT_EQ(parse_schema(" f . x ( Tensor ( a ! ) [ 2 ] ? y ,\n * , int z = 1 ) -> ( ) "),
            parse_schema("f.x(Tensor(a!)[2]? y, *, int z=1) -> ()"));
}

std::string error_of(std::string_view text) {
  try {
    parse_schema(text);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(Schema, SaysWhereATextIsWrong) {
  EXPECT_EQ(
      error_of("relu(Tensr self) -> Tensor"),
      "schema, line 1, column 6: expected a type such as " +
          nearest_names("Tensr",
                        {"Tensor",       "Scalar",  "int",    "SymInt",     "float",   "SymFloat",
                         "bool",         "SymBool", "str",    "ScalarType", "Layout",  "Device",
                         "MemoryFormat", "Graph",   "Any",    "Generator",  "Storage", "Stream",
                         "QScheme",      "complex", "Dimname"}) +
          ", found 'Tensr self) -> Tenso', in \"relu(Tensr self) -> Tensor\"; see a schema "
          "as PyTorch prints it");
  EXPECT_NE(error_of("f(Tensor a,\n  Tensor a) -> ()").find("line 2, column 3"), std::string::npos);
}

const char* const no_schemas[] = {"",
                                  "f",
                                  "f(",
                                  "f()",
                                  "f() ->",
                                  "f() -> (",
                                  "f() -> Tensor)",
                                  "f() -> Tensor x y",
                                  "1f() -> ()",
                                  "f.() -> ()",
                                  "::f() -> ()",
                                  "f(Tensor) -> ()",
                                  "f(Tensor a b) -> ()",
                                  "f(Tensor a,) -> ()",
                                  "f(*, *, int a) -> ()",
                                  "f(Tensor? ? a) -> ()",
                                  "f(int[][] a) -> ()",
                                  "f(int[999999999999] a) -> ()",
                                  "f(Tensor(a)(b) x) -> ()",
                                  "f(Tensor() x) -> ()",
                                  "f(int a=) -> ()",
                                  "f(int a=1.5) -> ()",
                                  "f(int a=None) -> ()",
                                  "f(int a=True) -> ()",
                                  "f(bool a=1) -> ()",
                                  "f(int a=99999999999999999999) -> ()",
                                  "f(float a=1e999) -> ()",
                                  "f(float a=x) -> ()",
                                  "f(str a=1) -> ()",
                                  "f(int a=\"1\") -> ()",
                                  "f(str a=\"x) -> ()",
                                  "f(str a='\\",
                                  "f(int a=[1]) -> ()",
                                  "f(int[] a=[1.5]) -> ()",
                                  "f(int[] a=[1) -> ()",
                                  "f(int[] a=[True]) -> ()",
                                  "f(ScalarType a=77) -> ()",
                                  "f(MemoryFormat a=long) -> ()",
                                  "f(Tensor a=1) -> ()",
                                  "f(Dict(str, int) a) -> ()"};

TEST(Schema, RefusesWhatIsNoSchema) {
  for (const char* text : no_schemas) EXPECT_NE(error_of(text), "") << text;
}

TEST(OpName, GoesThereAndBack) {
  for (const char* text :
       {"aten.add.Tensor", "aten.relu.default", "mylib.f.x_y", "aten.add_.out"}) {
    OpName name = parse_op_name(text);
    EXPECT_EQ(canonical_op_name(name.ns, name.name, name.overload), text);
  }
  EXPECT_EQ(parse_op_name("aten.relu.default").overload, "");
  OpName colons = parse_op_name("aten::add.Tensor");
  EXPECT_EQ(canonical_op_name(colons.ns, colons.name, colons.overload), "aten.add.Tensor");
  EXPECT_EQ(parse_op_name("aten::relu").name, "relu");
}

TEST(OpName, RefusesHalfNames) {
  for (const char* text : {"", "add", "aten.add", "aten..x", ".add.x", "aten.add.", "aten.a.b.c",
                           "aten::", "::x", "aten::a."})
    EXPECT_THROW(parse_op_name(text), UserError) << text;
}

TEST(DerivedSchema, OfAnInPlaceFormWritesSelf) {
  EXPECT_EQ(to_text(in_place_schema(parse_schema(known_schemas[2]))), known_schemas[5]);
  EXPECT_EQ(to_text(in_place_schema(parse_schema(known_schemas[0]))), known_schemas[1]);
  EXPECT_THROW(in_place_schema(parse_schema("cat(Tensor[] tensors) -> Tensor")), UserError);
  EXPECT_THROW(in_place_schema(parse_schema("f(Tensor self) -> (Tensor, Tensor)")), UserError);
  EXPECT_THROW(in_place_schema(parse_schema("t(Tensor(a) self) -> Tensor(a)")), UserError);
  EXPECT_THROW(in_place_schema(parse_schema("zeros() -> Tensor")), UserError);
}

TEST(DerivedSchema, OfAnOutFormIsNamedAsInPyTorch) {
  auto out = [](const char* text) { return to_text(out_schema(parse_schema(text))); };
  EXPECT_EQ(out(known_schemas[2]), known_schemas[4]);
  EXPECT_EQ(out("relu(Tensor self) -> Tensor"),
            "aten::relu.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)");
  EXPECT_EQ(out("pow.Scalar(Scalar self, Tensor exponent) -> Tensor"),
            "aten::pow.Scalar_out(Scalar self, Tensor exponent, *, Tensor(a!) out) -> Tensor(a!)");
  EXPECT_EQ(out("aminmax(Tensor self, *, int? dim=None) -> (Tensor min, Tensor max)"),
            "aten::aminmax.out(Tensor self, *, int? dim=None, Tensor(a!) out0, Tensor(b!) out1) "
            "-> (Tensor(a!) min, Tensor(b!) max)");
}

TEST(DerivedSchema, OfAFactoryLeavesItsOptionsToOut) {
  EXPECT_EQ(to_text(out_schema(parse_schema(
                "full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? "
                "layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"))),
            "aten::full.out(SymInt[] size, Scalar fill_value, *, Tensor(a!) out) -> Tensor(a!)");
  EXPECT_EQ(
      to_text(out_schema(parse_schema("sum(Tensor self, *, ScalarType? dtype=None) -> Tensor"))),
      "aten::sum.out(Tensor self, *, ScalarType? dtype=None, Tensor(a!) out) -> Tensor(a!)");
  EXPECT_THROW(out_schema(parse_schema("t(Tensor(a) self) -> Tensor(a)")), UserError);
  EXPECT_THROW(out_schema(parse_schema("item(Tensor self) -> Scalar")), UserError);
  EXPECT_THROW(out_schema(parse_schema("f(Tensor out) -> Tensor")), UserError);
}

}  // namespace
}  // namespace tenon
