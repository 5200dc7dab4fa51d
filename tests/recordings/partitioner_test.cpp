// Partitions of recorded joint graphs under each recorded configuration, compared with PyTorch's.
#include "unit/partition/tests_of_partition.h"

#include "partition/runtime_estimate.h"

#include <algorithm>
#include <set>

namespace tenon::partition::tests {
namespace {

using formats::JsonView;
using Names = std::vector<std::string>;

Names texts(JsonView list, const char* field = nullptr) {
  Names names;
  for (JsonView item : list.items())
    names.push_back(field ? item.field(field).text() : item.text());
  return names;
}

PartitionOptions options_of(JsonView flags) {
  PartitionOptions options;
  const std::map<std::string, bool*> switches{
      {"treat_parameters_as_free_to_save", &options.treat_parameters_as_free_to_save},
      {"cse", &options.cse},
      {"aggressive_recomputation", &options.aggressive_recomputation},
      {"recompute_views", &options.recompute_views},
      {"ban_recompute_used_far_apart", &options.ban_recompute_used_far_apart},
      {"ban_recompute_long_fusible_chains", &options.ban_recompute_long_fusible_chains},
      {"ban_recompute_materialized_backward", &options.ban_recompute_materialized_backward},
      {"ban_recompute_not_in_allowlist", &options.ban_recompute_not_in_allowlist},
      {"ban_recompute_reductions", &options.ban_recompute_reductions}};
  for (auto [name, value] : flags.members()) {
    if (auto found = switches.find(std::string(name)); found != switches.end())
      *found->second = value.boolean();
    else if (name == "max_dist_from_bw")
      options.max_dist_from_bw = value.integer();
    else if (name == "activation_memory_budget")
      options.memory_budget = value.real();
    else if (name == "activation_memory_budget_runtime_estimator")
      options.runtime_estimator = value.text();
    else if (name == "activation_memory_budget_solver")
      options.solver = value.text();
    else
      ADD_FAILURE() << "unknown flag " << name;
  }
  return options;
}

// What PyTorch calls the reason.
std::string recorded_reason(BanReason reason) {
  if (reason == BanReason::used_far_apart || reason == BanReason::long_fusible_chain)
    return "cannot recompute";
  return std::string(text_of(reason));
}

void expect_same_bans(const RecordedGraph& recorded, const Partition& cut, JsonView expected) {
  Names banned, reasons;
  for (const Ban& ban : cut.banned)
    banned.push_back(recorded.name_of(ban.node) + ": " + recorded_reason(ban.reason));
  for (auto [name, reason] : expected.members())
    reasons.push_back(std::string(name) + ": " + reason.text());
  EXPECT_EQ(banned, reasons);
}

void expect_same_facts(const RecordedGraph& recorded, const Partition& cut) {
  std::set<std::string> recorded_nodes;
  for (auto [name, info] : recorded.root().field("node_info").members()) {
    recorded_nodes.insert(std::string(name));
    const NodeFacts& facts = cut.facts[recorded.id(std::string(name))];
    auto weight = info.optional_field("weight");
    int64_t expected = !weight             ? NodeFacts::infinite
                       : weight->is_text() ? NodeFacts::no_edge
                                           : weight->integer();
    EXPECT_EQ(facts.weight, expected) << name;
    EXPECT_EQ(facts.distance, info.field("dist_from_bw").integer()) << name;
    const std::map<std::string, NodeClass> classes{{"fw", NodeClass::forward},
                                                   {"bw", NodeClass::backward},
                                                   {"unclaimed", NodeClass::unclaimed}};
    EXPECT_EQ(facts.place, classes.at(info.field("class").text())) << name;
    if (auto order = info.optional_field("fw_order")) {
      EXPECT_EQ(facts.forward_order, order->integer()) << name;
    }
  }
  for (JointId id = 0; id < recorded.graph.nodes.size(); ++id)
    EXPECT_EQ(cut.facts[id].place != NodeClass::dead,
              recorded_nodes.count(recorded.name_of(id)) != 0)
        << recorded.name_of(id);
}

void expect_same_result(const RecordedGraph& recorded, const Partition& cut, JsonView expected) {
  EXPECT_EQ(recorded.names(cut.saved), texts(expected.field("saved"), "name"));
  EXPECT_EQ(recorded.names(cut.saved_symbols), texts(expected.field("saved_syms")));
  EXPECT_EQ(activation_bytes(recorded.graph, cut),
            expected.field("activation_bytes_unique").integer());
  EXPECT_EQ(cut.forward.size(), expected.field("fw_ops").integer());
  EXPECT_EQ(cut.backward.size(), expected.field("bw_ops").integer());
  Names again = recorded.names(cut.recomputed),
        recorded_again = texts(expected.field("recomputed"));
  std::sort(again.begin(), again.end());
  std::sort(recorded_again.begin(), recorded_again.end());
  EXPECT_EQ(again, recorded_again);
  if (auto order = expected.optional_field("bw_order")) {
    EXPECT_EQ(recorded.names(cut.backward), texts(*order));
  }
}

void expect_same_way(const RecordedGraph& recorded, const Partition& cut, JsonView expected) {
  if (auto banned = expected.optional_field("banned")) expect_same_bans(recorded, cut, *banned);
  if (auto value = expected.optional_field("cut_value")) {
    EXPECT_EQ(cut.cut_value, value->integer());
  }
  if (auto cuts = expected.optional_field("n_mincut_calls")) {
    EXPECT_EQ(cut.n_cuts, cuts->integer());
  }
}

TEST(PartitionerRecordings, AreThere) {
  EXPECT_FALSE(recorded_graphs().empty()) << nothing_in(reference_folder("partitioner"));
}

class PartitionerRecording : public testing::TestWithParam<std::string> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(PartitionerRecording);

TEST_P(PartitionerRecording, IsPartitionedAsInPytorch) {
  RecordedGraph recorded(GetParam());
  int compared = 0;
  for (auto [name, listed] : recorded.root().field("results").members()) {
    std::string configuration(name);
    SCOPED_TRACE(configuration);
    JsonView expected = recorded.result(configuration);
    if (expected.optional_field("torch_defect")) continue;
    if (configuration.find("ilp") != configuration.npos) continue;
    ++compared;
    PartitionOptions options = options_of(listed.field("flags"));
    Partition cut = expected.field("partitioner").text() == "default"
                        ? default_partition(recorded.graph, options)
                        : min_cut_partition(recorded.graph, options);
    expect_same_result(recorded, cut, expected);
    // "Same as" another configuration says nothing about the way there.
    expect_same_way(recorded, cut, listed);
    if (configuration == "min_cut" && recorded.root().optional_field("node_info"))
      expect_same_facts(recorded, cut);
  }
  EXPECT_GT(compared, 0);
}

// Of equally good choices another one may be right, so that their worth is compared.
TEST_P(PartitionerRecording, OfTheExactSolverIsAsGood) {
  RecordedGraph recorded(GetParam());
  WorkGraph work(recorded.graph, true);
  for (auto [configuration, expected] : recorded.root().field("results").members()) {
    if (configuration.find("ilp") == configuration.npos) continue;
    SCOPED_TRACE(configuration);
    auto banned = expected.optional_field("banned");
    if (!banned || expected.optional_field("torch_defect")) continue;
    double runtime = 0, recorded_runtime = 0;
    Partition cut = cut_by(recorded, options_of(expected.field("flags")));
    for (const Ban& ban : cut.banned) runtime += flops_of(work, ban.node);
    for (auto [name, reason] : banned->members())
      recorded_runtime += flops_of(work, recorded.id(std::string(name)));
    EXPECT_EQ(runtime, recorded_runtime);
  }
}

INSTANTIATE_TEST_SUITE_P(All, PartitionerRecording, testing::ValuesIn(recorded_graphs()),
                         test_name_of);

}  // namespace
}  // namespace tenon::partition::tests
