// The public API for .pt2 models: calls, structures, errors, weights.
#include "backend/backend.h"
#include "folders.h"
#include "unit/formats/small_archive.h"
#include "unit/message_of.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tenon/config.h>
#include <tenon/tenon.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string archive(const std::string& name) { return own_recording("models/" + name + ".pt2"); }

Model model(const std::string& name) { return load(archive(name), {.backend = "eager"}); }

TEST(ModelTest, OneTensorInOneTensorOut) {
  Model m = model("mlp_digits");
  Tensor y = m(randn({3, 64}));
  EXPECT_EQ(y.sizes().size(), 2u);
  EXPECT_EQ(y.size(0).guard_int(), 3);
  EXPECT_EQ(m.compiles(), 1u);
}

TEST(ModelTest, OtherDynamicSizesNeedNoCompile) {
  Model m = model("mlp_digits");
  for (int64_t n : {2, 1, 512}) EXPECT_EQ(Tensor(m(randn({n, 64}))).size(0).guard_int(), n);
  EXPECT_EQ(m.compiles(), 1u);
}

// forward(x: f32[n, 3]) -> linear(x, w) + c, where the export was told no range of n.
std::string small_archive(formats::testing::SmallArchive archive = {}) {
  std::filesystem::path file = std::filesystem::temp_directory_path() /
                               ("tenon_small_" + std::to_string(::getpid()) + ".pt2");
  auto floats = [](const std::vector<float>& values) {
    return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  };
  archive.records["data/weights/weight_0"] = floats({1, 2, 3, 4, 5, 6});
  archive.records["data/constants/tensor_1"] = floats({10, 20});
  formats::Bytes bytes = archive.bytes();
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.span.data()),
             static_cast<std::streamsize>(bytes.span.size()));
  return file;
}

TEST(ModelTest, SizesThatTheExporterNeverTracedHaveCodeOfTheirOwn) {
  for (const char* backend : {"eager", "aot_eager"}) {
    Model m = load(small_archive(), {.backend = backend});
    size_t compiles[] = {1, 1, 2, 3, 3, 3, 3};
    for (size_t call = 0; int64_t n : {3, 7, 1, 0, 2, 1, 7}) {
      std::vector<float> want;
      for (int64_t row = 0; row < n; ++row) want.insert(want.end(), {16, 35});
      EXPECT_EQ(Tensor(m(ones({n, 3}))).to_vector<float>(), want) << backend << " " << n;
      EXPECT_EQ(m.compiles(), compiles[call++]) << backend << " " << n;
    }
    EXPECT_EQ(to_text(m.inputs()[0]), "x: f32[s7, 3] with s7 from 0 to inf");
  }
}

TEST(ModelTest, TheFirstCallMayHaveSuchASize) {
  Model m = load(small_archive(), {.backend = "eager"});
  m(ones({1, 3}));
  EXPECT_EQ(m.compiles(), 1u);
}

TEST(ModelTest, SizesThatAnOpRefusesAreThoseOfTheCall) {
  using formats::testing::named, formats::testing::tensor_meta;
  formats::testing::SmallArchive archive;
  archive.change_model("aten.linear.default", "aten.max.default")
      .change_model(R"("name": "input")", R"("name": "self")")
      .change_model(R"(,
   {"name": "weight", "arg": )" +
                        named("p_w") + R"(, "kind": 1})",
                    "")
      .change_model(R"("linear": )" + archive.dynamic_meta("2"),
                    R"("linear": )" + tensor_meta("", ""))
      .change_model(R"("add": )" + archive.dynamic_meta("2"), R"("add": )" + tensor_meta("2", "1"));
  Model m = load(small_archive(archive), {.backend = "eager"});
  EXPECT_EQ(Tensor(m(ones({3, 3}))).to_vector<float>(), (std::vector<float>{11, 21}));
  try {
    m(ones({0, 3}));
    ADD_FAILURE() << "no error";
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(error.what(), HasSubstr("the model was called with s7 = 0"));
  }
}

TEST(ModelTest, SizesThatTheExporterNeverTracedAreTrained) {
  formats::testing::SmallArchive archive;
  archive.change("data/weights/model_weights_config.json", R"("requires_grad": false)",
                 R"("requires_grad": true)");
  LoadedModule m = load_model(small_archive(archive), {.backend = "aot_eager"});
  for (int64_t n : {3, 1, 0, 2}) {
    m.zero_grad();
    Tensor(m(ones({n, 3}))).sum().backward();
    EXPECT_EQ(m.model().parameter("fc.w").grad().to_vector<float>(),
              std::vector<float>(6, static_cast<float>(n)))
        << n;
  }
}

// A recording makes no operations of them, so a run that follows it may not meet any.
TEST(ModelTest, BodiesThatComputeWithSizesOfAModelAreFollowed) {
  formats::testing::SmallArchive archive;
  formats::testing::with_numbers(archive).change_model(
      R"("name": "other", "arg": )" + formats::testing::named("b_c"),
      R"("name": "other", "arg": {"as_sym_float": {"as_name": "q"}})");
  Model m = load(small_archive(archive), {.backend = "eager"});
  for (const char* backend : {"eager", "aot_eager"}) {
    auto f = compile([&](const Tensor& x) { return Tensor(m(x * 2)); }, {.backend = backend});
    for (int64_t n : {3, 3, 3, 6, 9, 12}) {
      float third = static_cast<float>(n) / 3;
      std::vector<float> found = f(ones({n, 3})).to_vector<float>();
      EXPECT_EQ(found[0], 12 + third) << backend << " " << n;
      EXPECT_EQ(found[1], 30 + third) << backend << " " << n;
    }
    EXPECT_EQ(f.stats().compiles, 2u) << backend;
    EXPECT_EQ(f.stats().hits, 4u) << backend;
  }
}

// A body that has run for sizes which the export takes does so for no others.
TEST(ModelTest, ConditionsOfTheExportHoldInBodies) {
  formats::testing::SmallArchive archive;
  archive.change_model("what?", "math.trunc(0.5*torch.sym_float(L['x'].size()[0])) == 3");
  Model m = load(small_archive(archive), {.backend = "eager"});
  for (const char* backend : {"eager", "aot_eager"}) {
    auto f = compile([&](const Tensor& x) { return Tensor(m(x * 2)); }, {.backend = backend});
    for (int64_t n : {6, 7, 8, 6, 7, 12, 7}) {
      if (n < 8)
        EXPECT_EQ(f(ones({n, 3})).size(0), n) << backend;
      else
        EXPECT_THAT(message_of<Error>([&] { f(ones({n, 3})); }), HasSubstr("math.trunc"));
    }
  }
}

TEST(ModelTest, AnEmptyDictStaysADict) {
  formats::testing::SmallArchive archive;
  const std::string leaf = R"({\"type\": null, \"context\": null, \"children_spec\": []})";
  archive.change_model(
      R"("out_spec": "[1, )" + leaf + "]",
      R"("out_spec": "[1, {\"type\": \"builtins.list\", \"context\": \"null\", \"children_spec\": [)" +
          leaf +
          R"(, {\"type\": \"builtins.dict\", \"context\": \"[]\", \"children_spec\": []}, )"
          R"({\"type\": \"builtins.list\", \"context\": \"null\", \"children_spec\": []}]}])");
  Tree out = load(small_archive(archive), {.backend = "eager"})(ones({3, 3}));
  EXPECT_EQ(out[1].kind(), Tree::Kind::dict);
  EXPECT_EQ(out[2].kind(), Tree::Kind::list);
}

TEST(ModelTest, SizesOutsideTheRangeAreNamedWithIt) {
  Model m = model("mlp_digits");
  EXPECT_THAT(message_of<Error>([&] {
                m(randn({513, 64}));
              }),
              AllOf(HasSubstr("input x"), HasSubstr("513"), HasSubstr("from 1 to 512")));
}

TEST(ModelTest, WrongTensorsAreNamedWithExpectedAndFound) {
  Model m = model("mlp_digits");
  EXPECT_THAT(message_of<Error>([&] {
                m(randn({3, 63}));
              }),
              HasSubstr("input x: dimension 1 must be 64, found 63"));
  EXPECT_THAT(message_of<Error>([&] {
                m(randn({3, 64}).to(Dtype::f64));
              }),
              HasSubstr("input x: expected dtype f32, found f64"));
  EXPECT_THAT(message_of<Error>([&] { m(randn({64})); }),
              HasSubstr("input x: expected 2 dimensions"));
  EXPECT_THAT(message_of<Error>([&] { m(); }), HasSubstr("argument x is missing"));
  EXPECT_THAT(message_of<Error>([&] {
                m(randn({1, 64}), 1);
              }),
              HasSubstr("the model takes 1 arguments (x), found 2"));
  EXPECT_THAT(message_of<Error>([&] { m(1.5); }),
              HasSubstr("input x: expected a tensor f32, found 1.5"));
}

TEST(ModelTest, WhatTheExportFixedTakesNoOtherKind) {
  auto refusal = [](const std::string& value, const Tree& given) {
    formats::testing::SmallArchive archive;
    formats::testing::with_constant(archive, value)
        .change_model(R"("forward_arg_names": ["x"])", R"("forward_arg_names": ["x", "f"])");
    Model m = load(small_archive(archive), {.backend = "eager"});
    return message_of<Error>([&] { m(ones({3, 3}), given); });
  };
  const std::string none = R"({"as_none": true})", three = R"({"as_int": 3})";
  for (const Tree& fits : {Tree(), Tree(Tensor())}) EXPECT_EQ(refusal(none, fits), "no error");
  for (const Tree& fits : {Tree(3), Tree(full({}, 3))}) EXPECT_EQ(refusal(three, fits), "no error");
  EXPECT_EQ(refusal(none, ones({2})), "input f: the export fixed it to none, found f32[2]");
  EXPECT_EQ(refusal(none, ones({})), "input f: the export fixed it to none, found f32[]");
  EXPECT_EQ(refusal(three, zeros({1})), "input f: the export fixed it to 3, found f32[1]");
  EXPECT_EQ(refusal(three, Tensor()), "input f: the export fixed it to 3, found none");
  EXPECT_THAT(refusal(R"({"as_string": "sum"})", ones({2})), HasSubstr("found f32[2]"));
}

TEST(ModelTest, ArgumentsGoByNameToo) {
  Model m = model("bert_mini");
  Tensor ids = zeros({2, 16}, Dtype::i64), mask = ones({2, 16}, Dtype::i64);
  EXPECT_THAT(m.argument_names(), ElementsAre("input_ids", "attention_mask"));
  auto [hidden, pooled] = m(ids, mask).as<std::pair<Tensor, Tensor>>();
  Tree named = m.call_named({{"attention_mask", mask}, {"input_ids", ids}});
  EXPECT_EQ(hidden.to_vector<float>(), named[0].tensor().to_vector<float>());
  EXPECT_THAT(message_of<Error>([&] {
                m.call_named({{"ids", ids}, {"attention_mask", mask}});
              }),
              HasSubstr("the model has no argument ids; it takes input_ids, attention_mask"));
  EXPECT_THAT(message_of<Error>([&] {
                m.call({ids}, {{"input_ids", ids}});
              }),
              HasSubstr("argument input_ids is given twice"));
}

TEST(ModelTest, NestedArgumentsAndResultsKeepTheirStructure) {
  Model m = model("fmt_inputs");
  std::string takes;
  for (const ValueSpec& spec : m.inputs()) takes += to_text(spec) + "\n";
  SCOPED_TRACE(takes);
  std::vector<ValueSpec> in = m.inputs();
  auto make = [&](size_t i) {
    if (in[i].kind == ValueSpec::Kind::constant) return in[i].constant;
    std::vector<int64_t> sizes;
    for (const SizeSpec& size : in[i].sizes) sizes.push_back(*size.fixed);
    return Tree(ones(sizes, in[i].dtype));
  };
  Tree opts = Tree::dict({{"parts", Tree::list({make(3), make(4)})}, {"shift", make(2)}});
  Tree out = m.call({make(0), make(1), opts}, {{"bias", make(5)}});
  EXPECT_THAT(out.keys(), ElementsAre("y", "pair", "list"));
  EXPECT_EQ(out["pair"].size(), 3u);
  EXPECT_EQ(out["y"].kind(), Tree::Kind::tensor);
  EXPECT_THAT(message_of<Error>([&] {
                m.call({make(0), make(1), make(2)}, {{"bias", make(5)}});
              }),
              HasSubstr("input opts: expected a dict with the keys shift, parts, found"));
  Tree wrong = Tree::dict({{"parts", Tree::list({make(3)})}, {"shift", make(2)}});
  EXPECT_THAT(message_of<Error>([&] {
                m.call({make(0), make(1), wrong}, {{"bias", make(5)}});
              }),
              HasSubstr("input opts.parts: expected a list of 2 elements, found"));
  EXPECT_THAT(
      message_of<Error>([&] { (void)out["z"]; }),
      HasSubstr("the key z was asked for, the value is a dict with the keys y, pair, list"));
}

TEST(ModelTest, SpecsTellDtypesSizesAndRanges) {
  Model m = model("mlp_digits");
  ASSERT_EQ(m.inputs().size(), 1u);
  EXPECT_EQ(to_text(m.inputs()[0]), "x: f32[s77, 64] with s77 from 1 to 512");
  EXPECT_EQ(to_text(m.outputs()[0]), "out.0: f32[s77, 10] with s77 from 1 to 512");
}

TEST(ModelTest, WrittenWeightsAreSeenByLaterCallsAndNotByTheFile) {
  Model m = model("mlp_digits");
  std::vector<std::string> names = m.parameter_names();
  ASSERT_FALSE(names.empty());
  Tensor x = randn({2, 64});
  std::vector<float> before = Tensor(m(x)).to_vector<float>();
  for (const std::string& name : names) m.parameter(name).zero_();
  EXPECT_EQ(Tensor(m(x)).to_vector<float>(), std::vector<float>(20, 0.0f));
  EXPECT_EQ(Tensor(model("mlp_digits")(x)).to_vector<float>(), before);
  EXPECT_THAT(message_of<Error>([&] { m.parameter(names[0] + "x"); }),
              AllOf(HasSubstr("the model has no parameter"), HasSubstr(names[0])));
}

TEST(ModelTest, AWeightOfAnotherShapeIsNamed) {
  Model m = model("mlp_digits");
  Tensor x = randn({2, 64});
  m(x);
  m.parameter("fc1.weight").resize_({3, 5});
  EXPECT_THAT(
      message_of<Error>([&] { m(x); }),
      HasSubstr("weight fc1.weight: the model was exported with f32[96, 64], found f32[3, 5]"));
}

TEST(ModelTest, OverridesByNumberChangeTheBackendOfLoadedModels) {
  static int compiled = 0;
  BackendInfo info = backend_info("eager");
  info.name = "counts_models";
  register_backend(
      [](const CompileRequest& request) {
        ++compiled;
        return compile_with_backend("eager", request);
      },
      info);
  auto found_with = [&](const std::string& rules) {
    auto scope = config::patch({{"dynamo.debug_backend_override", rules}});
    Model m = model("mlp_digits");
    int before = compiled;
    m(randn({3, 64}));
    return compiled - before;
  };
  EXPECT_EQ(found_with(">1000000:counts_models"), 0);
  EXPECT_EQ(found_with(">=0:counts_models"), 1);
  EXPECT_THAT(message_of<Error>([&] { found_with(">=0:counts_modls"); }),
              HasSubstr("there is no backend 'counts_modls'"));
}

TEST(ModelTest, CopiesShareTheModel) {
  Model m = model("mlp_digits"), copy = m;
  copy.prepare({randn({2, 64})});
  EXPECT_EQ(m.compiles(), 1u);
  EXPECT_TRUE(copy.parameter(m.parameter_names()[0]).is_same(m.parameter(m.parameter_names()[0])));
}

TEST(ModelTest, ThreadsMayCallAtOnce) {
  Model m = model("mlp_digits");
  Tensor x = randn({4, 64});
  std::vector<float> expected = Tensor(model("mlp_digits")(x)).to_vector<float>();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) wrong += Tensor(m(x)).to_vector<float>() != expected;
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(m.compiles(), 1u);
}

TEST(ModelTest, InputsThatTheModelWritesAreWritten) {
  Model m = model("fmt_mutation");
  std::vector<ValueSpec> in = m.inputs();
  std::vector<Tree> args;
  std::vector<Tensor> originals;
  for (const ValueSpec& spec : in) {
    std::vector<int64_t> sizes;
    for (const SizeSpec& size : spec.sizes) sizes.push_back(*size.fixed);
    originals.push_back(ones(sizes, spec.dtype));
    args.emplace_back(originals.back());
  }
  uint64_t before = 0, after = 0;
  for (const Tensor& t : originals) before += t.version();
  m.call(args);
  for (const Tensor& t : originals) after += t.version();
  EXPECT_GT(after, before);
}

TEST(ModelTest, AnArchiveThatUnpacksToMoreThanAllowedIsRefused) {
  EXPECT_THAT(message_of<Error>([] { load(archive("mlp_digits"), {.max_size = 1000}); }),
              HasSubstr("unpack to more than 1000 bytes; raise max_size"));
}

TEST(ModelTest, UnknownFilesAndBackendsAreErrorsOfLoad) {
  EXPECT_THAT(message_of<Error>([&] { load("/nowhere.pt2", {.backend = "eager"}); }),
              HasSubstr("/nowhere.pt2: cannot open the file"));
  EXPECT_THAT(message_of<Error>([&] { load(archive("mlp_digits"), {.backend = "eagre"}); }),
              AllOf(HasSubstr("InvalidBackend"), HasSubstr("eager")));
}

TEST(ModelTest, OptionsAndModesAreCheckedByLoad) {
  auto loading = [](LoadOptions options) {
    options.backend = "inductor";
    return message_of<UserError>([&] { load(archive("mlp_digits"), options); });
  };
  EXPECT_THAT(loading({.mode = "nope"}), HasSubstr("nope"));
  EXPECT_THAT(loading({.options = {{"nope", "1"}}}), HasSubstr("nope"));
  EXPECT_THAT(loading({.mode = "max-autotune", .options = {{"winograd", "\"off\""}}}),
              HasSubstr("given together"));
  EXPECT_THAT(loading({.options = {{"dynamo.disable", "true"}}}),
              HasSubstr("load: expected options of backend 'inductor', found the flag "
                        "dynamo.disable = true; set it with config::set()"));
}

// ---- trees

struct Pair {
  Tensor first;
  std::vector<int> counts;
};

TEST(TreeTest, CppValuesBecomeTreesAndComeBack) {
  Tree t = std::map<std::string, Pair>{{"a", {ones({2}), {1, 2}}}};
  EXPECT_EQ(to_text(t), "{\"a\": (f32[2], (1, 2))}");
  auto back = t.as<std::map<std::string, Pair>>();
  EXPECT_EQ(back["a"].counts, (std::vector<int>{1, 2}));
  EXPECT_EQ(t.tensors().size(), 1u);
}

TEST(TreeTest, AbsentValuesAreNone) {
  EXPECT_TRUE(Tree(std::optional<Tensor>()).is_none());
  EXPECT_TRUE(Tree(Tensor()).is_none());
  EXPECT_FALSE(Tree().as<std::optional<Tensor>>().has_value());
}

TEST(TreeTest, WrongKindsSayWhatIsThere) {
  Tree t = std::tuple(1, true, 2.5, "text");
  EXPECT_THAT(message_of<Error>([&] { (void)t.tensor(); }),
              HasSubstr("a tensor was asked for, the value is a list: (1, true, 2.5, \"text\")"));
  EXPECT_THAT(message_of<Error>([&] { (void)t[4]; }), HasSubstr("element 4 was asked for"));
  EXPECT_THAT(message_of<Error>([&] { (void)t.as<std::pair<int, bool>>(); }),
              HasSubstr("2 elements were asked for"));
  auto [i, b, d, s] = t.as<std::tuple<int64_t, bool, double, std::string>>();
  EXPECT_TRUE(i == 1 && b && d == 2.5 && s == "text");
}

}  // namespace
}  // namespace tenon
