// Functions that write their inputs, return views or take the same memory twice. What PyTorch's
// analysis says of inputs and outputs is what lowering says, and compiled code does what the body
// does. A recording has the graph that became of a function, not the function: that stands here,
// under the recorded name.
#include "recordings/aot_metadata.h"
#include "backend/backend.h"
#include "core/tensor/tensor_impl.h"
#include "graph/interpret.h"
#include "recordings/json_files.h"
#include "unit/message_of.h"

#include <tenon/tenon.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace tenon {
namespace {

using Tensors = std::vector<Tensor>;

struct Case {
  const char* name;
  Tensors (*body)(const Tensors&);
  Tensors (*inputs)();
};

Tensor matrix() { return arange(6, Dtype::f32).reshape({2, 3}) + 0.5; }
Tensor leaf() { return matrix().requires_grad_(); }
// What made() is made from.
const Tensor& origin() {
  static const Tensor one = leaf();
  return one;
}
Tensor made() { return origin() * 1.0; }

const Case cases[] = {
    {"mutate_data_inference_epilogue",
     [](const Tensors& in) {
       Tensor x = in[0];
       x.mul_(2);
       return Tensors{x + 1};
     },
     [] { return Tensors{matrix()}; }},
    {"mutate_data_inference_in_graph",
     [](const Tensors& in) {
       Tensor x = in[0];
       x.mul_(2);
       return Tensors{x + 1};
     },
     [] { return Tensors{matrix()}; }},
    {"mutate_data_training_nonleaf",
     [](const Tensors& in) {
       Tensor x = in[0];
       x.mul_(2);
       return Tensors{x + 1};
     },
     [] { return Tensors{made()}; }},
    {"mutate_metadata",
     [](const Tensors& in) {
       Tensor x = in[0];
       x.t_();
       return Tensors{x * 3};
     },
     [] { return Tensors{matrix()}; }},
    {"mutate_metadata_training",
     [](const Tensors& in) {
       Tensor x = in[0];
       x.t_();
       return Tensors{x * 3};
     },
     [] { return Tensors{made()}; }},
    {"mutate_data_and_metadata",
     [](const Tensors& in) {
       Tensor x = in[0];
       x.t_();
       x.mul_(2);
       return Tensors{x + 1};
     },
     [] { return Tensors{matrix()}; }},
    {"mutate_leaf_under_no_grad",
     [](const Tensors& in) {
       Tensor x = in[0];
       {
         NoGradGuard off;
         x.mul_(2);
       }
       return Tensors{x + 1};
     },
     [] { return Tensors{leaf()}; }},
    {"mutate_hidden_by_detach",
     [](const Tensors& in) {
       in[0].detach().mul_(2);
       return Tensors{in[0] + 1};
     },
     [] { return Tensors{leaf()}; }},
    {"out_alias_of_input", [](const Tensors& in) { return Tensors{in[0].t()}; },
     [] { return Tensors{leaf()}; }},
    {"out_is_input",
     [](const Tensors& in) {
       return Tensors{in[0], in[0] + 1};
     },
     [] { return Tensors{leaf()}; }},
    {"out_view_of_intermediate_single",
     [](const Tensors& in) { return Tensors{(in[0] * 2).view({-1})}; },
     [] { return Tensors{leaf()}; }},
    {"out_two_views_of_intermediate",
     [](const Tensors& in) {
       Tensor y = in[0] * 2;
       return Tensors{y.view({-1}), y.t()};
     },
     [] { return Tensors{leaf()}; }},
    {"out_base_and_view",
     [](const Tensors& in) {
       Tensor y = in[0] * 2;
       return Tensors{y, y.view({-1})};
     },
     [] { return Tensors{leaf()}; }},
    {"out_multi_output_view",
     [](const Tensors& in) { return (in[0].t() * 2).contiguous().unbind(0); },
     [] { return Tensors{leaf()}; }},
    {"out_non_differentiable",
     [](const Tensors& in) {
       Tensor y = in[0] * 2;
       return Tensors{y, y.detach(), y.argmax()};
     },
     [] { return Tensors{leaf()}; }},
    {"dup_inputs_no_mutation", [](const Tensors& in) { return Tensors{in[0] * in[1]}; },
     [] {
       Tensor x = leaf();
       return Tensors{x, x};
     }},
    {"dup_inputs_mutated",
     [](const Tensors& in) {
       Tensor a = in[0];
       a.mul_(2);
       return Tensors{a + in[1]};
     },
     [] {
       Tensor x = matrix();
       return Tensors{x, x};
     }},
    {"synthetic_base",
     [](const Tensors& in) {
       Tensor a = in[0];
       a.mul_(2);
       return Tensors{in[1] + 1};
     },
     [] {
       Tensor x = matrix();
       return Tensors{x, x.view({-1})};
     }},
    {"false_aliasing",
     [](const Tensors& in) {
       Tensor a = in[0];
       a.mul_(2);
       return Tensors{in[1] + 1};
     },
     [] {
       Tensor x = arange(8, Dtype::f32);
       return Tensors{x.slice(0, 0, 4), x.slice(0, 4, 8)};
     }},
    {"synthetic_base_non_diff_views_training",
     [](const Tensors& in) {
       Tensor a = in[0];
       a.mul_(2);
       return Tensors{a + in[1].reshape({2, 3})};
     },
     [] {
       Tensor x = made();
       return Tensors{x, x.detach().view({-1})};
     }},
    {"inplace_on_view",
     [](const Tensors& in) {
       in[0].select(0, 0).mul_(10);
       return Tensors{in[0] + in[1]};
     },
     [] {
       return Tensors{matrix(), matrix()};
     }},
    {"inplace_on_view_intermediate",
     [](const Tensors& in) {
       Tensor y = in[0].clone();
       y.select(1, 1).copy_(zeros({2}));
       y.view({-1}).select(0, 0).add_(5);
       return Tensors{y};
     },
     [] { return Tensors{matrix()}; }},
    {"tangent_layout_contiguous", [](const Tensors& in) { return Tensors{in[0] * 2}; },
     [] { return Tensors{leaf()}; }},
    {"tangent_layout_transposed_out",
     [](const Tensors& in) { return Tensors{(in[0] * 2).t().clone()}; },
     [] { return Tensors{leaf()}; }},
    {"view_replay_off", [](const Tensors& in) { return Tensors{in[0].t().unsqueeze(0)}; },
     [] { return Tensors{leaf()}; }},
    {"view_replay_on", [](const Tensors& in) { return Tensors{in[0].t().unsqueeze(0)}; },
     [] { return Tensors{leaf()}; }},
    {"donated_retain_graph", [](const Tensors& in) { return Tensors{in[0].sin().sin().sum()}; },
     [] { return Tensors{leaf()}; }},
    {"double_backward", [](const Tensors& in) { return Tensors{in[0].sin().sin().sum()}; },
     [] { return Tensors{leaf()}; }},
    {"rng_functionalize_cpu", [](const Tensors& in) { return Tensors{in[0] * rand_like(in[0])}; },
     [] { return Tensors{leaf()}; }},
    {"partial_tangents",
     [](const Tensors& in) {
       return Tensors{in[0] * 2, in[0] * 3};
     },
     [] { return Tensors{leaf()}; }},
};

const Case* program_of(const std::string& name) {
  auto found = std::ranges::find(cases, name, [](const Case& c) { return std::string(c.name); });
  return found == std::end(cases) ? nullptr : found;
}

// What was recorded of each name, in all files at hand.
const std::map<std::string, formats::JsonView>& records() {
  static const auto* all = [] {
    auto* found = new std::map<std::string, formats::JsonView>;
    for (const std::string& file : files_in(reference_folder("aot_metadata"), ".json"))
      for (formats::JsonView one : json_file(file).field("cases").items())
        found->emplace(one.field("name").text(), one);
    return found;
  }();
  return *all;
}

std::vector<std::string> recorded_names() {
  std::vector<std::string> names;
  for (const auto& [name, record] : records()) names.push_back(name);
  return names;
}

// The flags of a recording, while the object lives.
config::Patch flags_of(formats::JsonView record) {
  auto replay = record.field("flags").optional_field("view_replay_for_aliased_outputs");
  return config::patch(
      {{"functorch.view_replay_for_aliased_outputs", !replay || replay->boolean()}});
}

// The graph as a backend of stage "captured" gets it.
std::shared_ptr<Graph> captured(const Case& c) {
  static std::shared_ptr<Graph> last;
  static const bool registered = [] {
    register_backend("keeps_graph",
                     [](const CompileRequest& request) {
                       last = request.graph;
                       return interpreter_artifact(request.graph);
                     },
                     {});
    return true;
  }();
  EXPECT_TRUE(registered);
  compile(c.body, {.backend = "keeps_graph"})(c.inputs());
  return last;
}

TEST(AotMetadataRecordings, AreThere) {
  EXPECT_FALSE(records().empty()) << nothing_in(reference_folder("aot_metadata"));
}

class AotMetadataRecording : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    program_ = program_of(GetParam());
    if (!program_) GTEST_SKIP() << "no function is written down here for " << GetParam();
  }
  const Case* program_ = nullptr;
};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(AotMetadataRecording);

TEST_P(AotMetadataRecording, IsClassifiedAsInPyTorch) {
  const Case& c = *program_;
  formats::JsonView record = records().at(GetParam());
  auto flags = flags_of(record);
  std::shared_ptr<Graph> graph = captured(c);
  LowerOptions options;
  options.keep_input_mutations = record.field("keep_inference_input_mutations").boolean();
  // PyTorch refuses two: one for its inputs, as lowering for training does, one for want of CUDA.
  auto refusal = record.optional_field("error");
  Lowered lowered;
  if (refusal && refusal->text().find("differentiable views") != std::string::npos)
    EXPECT_EQ(message_of<UserError>([&] { lower_training(*graph, options); }),
              "inputs that overlap in memory are written, and one of them needs a gradient");
  else
    lowered = lower_training(*graph, options);
  if (!lowered.derivative) lowered = lower_inference(*graph, options);
  AotMetadata found = metadata_of(*graph, lowered);
  if (refusal) return;

  // A tensor that is passed twice is one input of the graph; the recording has the one base of
  // inputs that overlap, lowering has its members.
  std::vector<formats::JsonView> inputs = record.field("input_info").items();
  ASSERT_TRUE(found.inputs.size() <= inputs.size() || !lowered.shared.empty());
  for (size_t i = 0; i < found.inputs.size(); ++i) {
    formats::JsonView info = inputs[lowered.shared.empty() ? i : 0];
    SCOPED_TRACE(message("input {}", i));
    EXPECT_EQ(to_text(found.inputs[i].mutation), info.field("mutation_type").text());
    EXPECT_EQ(found.inputs[i].mutates_data, info.field("mutates_data").boolean());
    EXPECT_EQ(found.inputs[i].mutates_metadata, info.field("mutates_metadata").boolean());
    EXPECT_EQ(found.inputs[i].requires_grad, info.field("requires_grad").boolean());
  }
  // An output that is an argument does not reach the graph.
  std::vector<formats::JsonView> outputs = record.field("output_info").items();
  std::erase_if(outputs, [](auto& o) { return o.field("output_type").text() == "is_input"; });
  ASSERT_EQ(found.outputs.size(), outputs.size());
  for (size_t i = 0; i < found.outputs.size(); ++i) {
    formats::JsonView info = outputs[i];
    SCOPED_TRACE(message("output {}", i));
    EXPECT_EQ(to_text(found.outputs[i].type), info.field("output_type").text());
    EXPECT_EQ(found.outputs[i].base.has_value(), !info.field("base_idx").is_null());
    if (found.outputs[i].base.has_value()) {
      EXPECT_EQ(*found.outputs[i].base, info.field("base_idx").integer());
    }
  }
  EXPECT_EQ(found.n_intermediate_bases, record.field("num_intermediate_bases").integer());
}

void expect_equal(const Tensors& expected, const Tensors& found, const char* what) {
  ASSERT_EQ(expected.size(), found.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    SCOPED_TRACE(message("{} {}", what, i));
    EXPECT_EQ(to_text(expected[i].sizes()), to_text(found[i].sizes()));
    EXPECT_EQ(to_text(expected[i].strides()), to_text(found[i].strides()));
    EXPECT_TRUE(expected[i].detach().equal(found[i].detach()));
    EXPECT_EQ(expected[i].requires_grad(), found[i].requires_grad());
    for (size_t k = 0; k < i; ++k)
      EXPECT_EQ(shares_storage(expected[i], expected[k]), shares_storage(found[i], found[k]));
  }
}

// Through the outputs and what became of the inputs.
Tensors gradients(const Tensors& outputs, const Tensors& inputs) {
  Tensor loss = zeros({});
  for (const Tensors* all : {&outputs, &inputs})
    for (const Tensor& t : *all)
      if (t.requires_grad()) loss = loss + (t * t).sum();
  Tensors wanted;
  for (const Tensor& t : inputs)
    if (t.requires_grad()) wanted.push_back(t.is_leaf() ? t : origin());
  return wanted.empty() || !loss.requires_grad() ? Tensors() : autograd::grad({loss}, wanted);
}

TEST_P(AotMetadataRecording, IsAsInTheBody) {
  const Case& c = *program_;
  for (const char* backend : {"aot_eager", "debug_nop"}) {
    manual_seed(3);
    Tensors in = c.inputs(), expected = c.body(in);
    Tensors expected_gradients = gradients(expected, in);
    auto f = compile(c.body, {.backend = backend});
    for (int call = 0; call < 2; ++call) {
      manual_seed(3);
      Tensors again = c.inputs(), found = f(again);
      expect_equal(expected, found, "output");
      expect_equal(in, again, "input");
      expect_equal(expected_gradients, gradients(found, again), "gradient");
    }
  }
}

// Of outputs that are views, the tape shows the view that PyTorch's shows.
TEST_P(AotMetadataRecording, HasTheNodesOfItsViews) {
  formats::JsonView record = records().at(GetParam());
  auto nodes = record.optional_field("output_grad_fn");
  if (!nodes) return;
  auto flags = flags_of(record);
  Tensors found = compile(program_->body, {.backend = "aot_eager"})(program_->inputs());
  for (size_t i = 0; i < found.size(); ++i) {
    std::string type = record.field("output_info").items()[i].field("output_type").text();
    if (!type.starts_with("alias") || nodes->items()[i].is_null()) continue;
    EXPECT_EQ(autograd::grad_fn(found[i]).name() + "0", nodes->items()[i].text());
  }
}

INSTANTIATE_TEST_SUITE_P(All, AotMetadataRecording, testing::ValuesIn(recorded_names()),
                         test_name_of);

}  // namespace
}  // namespace tenon
