// Classes of ops against the lists of PyTorch's partitioner.
#include "partition/op_classes.h"
#include "ops/op_table.h"
#include "unit/partition/tests_of_partition.h"

#include <tenon/plugin.h>

#include <set>

namespace tenon::partition::tests {
namespace {

// The bits of a packet: those of all its overloads that there are rows for.
uint16_t classes_of_packet(const std::string& packet) {
  static const std::vector<std::string> rows = all_op_names();
  uint16_t bits = classes_of(packet);
  for (const std::string& row : rows)
    if (packet_of(row) == packet) bits |= classes_of(row);
  return bits;
}

class OpClasses : public testing::Test {
 protected:
  void SetUp() override {
    std::string path = own_recording("reference/partitioner/tables/op_lists.json");
    lists_ =
        std::make_unique<formats::JsonDocument>(formats::parse_json(detail::file_text(path), path));
  }
  std::set<std::string> list(const char* name) const {
    std::set<std::string> names;
    for (formats::JsonView item : lists_->view().field(name).items())
      // Scalar functions are ops of the namespace `sym` here.
      if (!item.text().starts_with("fn:")) names.insert(item.text());
    return names;
  }
  // Packets of rows and lists that have the bit.
  std::set<std::string> with_bit(uint16_t bit) const {
    std::set<std::string> packets;
    for (const std::string& row : all_op_names()) packets.insert(std::string(packet_of(row)));
    for (const char* name : {"recomputable_ops", "view_ops", "random_ops", "compute_intensive_ops",
                             "nondeterministic_seeded"})
      packets.merge(list(name));
    std::erase_if(packets, [&](const std::string& p) { return !(classes_of_packet(p) & bit); });
    return packets;
  }

  std::unique_ptr<formats::JsonDocument> lists_;
};

TEST_F(OpClasses, ViewsRandomAndHeavyOpsAreThoseOfTheLists) {
  EXPECT_EQ(with_bit(class_view), list("view_ops"));
  EXPECT_EQ(with_bit(class_random), list("random_ops"));
  EXPECT_EQ(with_bit(class_compute), list("compute_intensive_ops"));
}

TEST_F(OpClasses, TheAllowlistIsThatOfPytorchAndWhatRowsCallPointwise) {
  const std::set<std::string> expected = list("recomputable_ops");
  for (const std::string& packet : expected)
    EXPECT_TRUE(classes_of_packet(packet) & class_recomputable) << packet;
  for (const std::string& packet : with_bit(class_recomputable)) {
    if (expected.count(packet) || packet.starts_with("sym.")) continue;
    // Pointwise rows that PyTorch does not tag, such as hardswish, and in-place forms.
    bool pointwise = false;
    for (const std::string& row : all_op_names())
      pointwise |= packet_of(row) == packet && (find_op(row)->tags & TN_TAG_POINTWISE);
    bool in_place = packet.ends_with('_') && expected.count(packet.substr(0, packet.size() - 1));
    EXPECT_TRUE(pointwise || in_place) << packet;
  }
}

TEST_F(OpClasses, OpsThatPytorchDoesNotAllowAreNotAllowed) {
  for (std::string packet : {"aten.transpose", "aten.cat", "aten.stack", "aten.unbind",
                             "aten.cumsum", "aten._softmax", "aten._log_softmax", "aten.embedding",
                             "aten.index_select", "aten.flip", "aten.detach", "aten.sym_size"})
    EXPECT_FALSE(classes_of_packet(packet) & class_recomputable) << packet;
}

TEST_F(OpClasses, EveryOpThatDrawsNumbersIsSeeded) {
  for (const char* name : {"nondeterministic_seeded", "random_ops"})
    for (const std::string& packet : list(name))
      EXPECT_TRUE(classes_of_packet(packet) & class_seeded) << packet;
  for (const std::string& packet : list("cse_excluded_ops"))
    EXPECT_TRUE(classes_of_packet(packet) & class_keep) << packet;
}

TEST(OpClassNames, PacketsAreNamesWithoutOverload) {
  EXPECT_EQ(packet_of("aten.mul.Tensor"), "aten.mul");
  EXPECT_EQ(packet_of("getitem"), "getitem");
  EXPECT_EQ(packet_of("sym.add"), "sym.add");
  EXPECT_TRUE(classes_of("sym.add") & class_recomputable);
  EXPECT_EQ(classes_of("mine.unknown.default"), 0);
}

}  // namespace
}  // namespace tenon::partition::tests
