// Undefined tensors where a tensor is wanted: an error that names the op and the argument.
#include "ops/op_table.h"

#include <tenon/tenon.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

bool wants_tensors(const SchemaArg& arg) {
  bool may_lack = arg.type.is_list ? arg.type.optional_element : arg.type.optional;
  return arg.type.base == BaseType::tensor && !may_lack;
}

TEST(UndefinedTensors, AreRefusedByEveryOpThatWantsTensors) {
  size_t asked = 0;
  for (const std::string& name : all_op_names()) {
    const OpEntry& op = *find_op(name);
    auto wanted = std::ranges::find_if(op.schema.args, wants_tensors);
    if (wanted == op.schema.args.end()) continue;
    std::vector<Value> args(op.n_args), results(8);
    auto call = [&] { dispatch(op, args.data(), op.n_args, results.data(), op.n_returns); };
    EXPECT_THAT(call, ThrowsMessage<UserError>(AllOf(HasSubstr(name + ": argument " + wanted->name),
                                                     HasSubstr("undefined tensor"))));
    ++asked;
  }
  EXPECT_GT(asked, 1000u);
}

TEST(UndefinedTensors, AreRefusedInLists) {
  Tensor x = ones({2}), none;
  EXPECT_THAT(
      [&] {
        cat({x, none});
      },
      ThrowsMessage<UserError>(HasSubstr("argument tensors holds an undefined tensor")));
  EXPECT_EQ(x.index({none}).sizes(), x.sizes()) << "a hole in a list of indices";
}

TEST(UndefinedTensors, AreRefusedByWhatATensorTells) {
  Tensor none, x = ones({2});
  auto is_named = ThrowsMessage<UserError>(HasSubstr("undefined"));
  EXPECT_THAT([&] { none.numel(); }, is_named);
  EXPECT_THAT([&] { none.dtype(); }, is_named);
  EXPECT_THAT([&] { none.device(); }, is_named);
  EXPECT_THAT([&] { none.dim(); }, is_named);
  EXPECT_THAT([&] { none.sizes(); }, is_named);
  EXPECT_THAT([&] { none.strides(); }, is_named);
  EXPECT_THAT([&] { none.size(0); }, is_named);
  EXPECT_THAT([&] { none.stride(-1); }, is_named);
  EXPECT_THAT([&] { none.storage_offset(); }, is_named);
  EXPECT_THAT([&] { none.requires_grad(); }, is_named);
  EXPECT_THAT([&] { none.is_fake(); }, is_named);
  EXPECT_THAT([&] { none.version(); }, is_named);
  EXPECT_THAT([&] { none.data_ptr<float>(); }, is_named);
  EXPECT_THAT([&] { none.item<float>(); }, is_named);
  EXPECT_THAT([&] { static_cast<void>(static_cast<bool>(none)); }, is_named);
  EXPECT_THAT([&] { none.retain_grad(); }, is_named);
  EXPECT_THAT([&] { none[0]; }, is_named);
  EXPECT_THAT([&] { none[0] = x; }, is_named);
  EXPECT_THAT([&] { none + x; }, is_named);
  EXPECT_THAT([&] { none += 1.0; }, is_named);
  EXPECT_EQ(to_text(none), "undefined");
  EXPECT_THAT([&] { none.to_vector<float>(); }, is_named);
  EXPECT_THAT([&] { none.data(); }, is_named);
  EXPECT_THAT([&] { none.is_contiguous(); }, is_named);
  EXPECT_THAT([&] { none.requires_grad_(); }, is_named);
  EXPECT_THAT([&] { none.grad(); }, is_named);
  EXPECT_THAT([&] { none.set_grad(x); }, is_named);
  EXPECT_THAT([&] { none.is_leaf(); }, is_named);
  EXPECT_THAT(
      [&] {
        save_tensors("unused.safetensors", {{"w", none}});
      },
      ThrowsMessage<UserError>(HasSubstr("tensor w is undefined")));
}

TEST(UndefinedTensors, AreRefusedInCompiledBodies) {
  Tensor w = ones({2}).requires_grad_();
  auto step = compile([&](const Tensor& x) { return x - w.grad() * 0.5; }, {.backend = "eager"});
  EXPECT_THAT([&] { step(ones({2})); },
              ThrowsMessage<UserError>(HasSubstr("grad() before the first backward pass")));
  w.set_grad(ones({2}));
  EXPECT_EQ(step(ones({2})).to_vector<float>(), (std::vector<float>{0.5, 0.5}));
  w.set_grad({});
  EXPECT_THROW(step(ones({2})), UserError);
}

}  // namespace
}  // namespace tenon
