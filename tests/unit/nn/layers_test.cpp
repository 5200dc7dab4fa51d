// Layers and losses give what PyTorch's give: results, gradients and buffers.
#include "unit/nn/nn_test.h"

#include <limits>

namespace tenon {
namespace {

using Inputs = std::vector<Tensor>;

struct LayerCase {
  std::string name;
  std::shared_ptr<nn::Module> module;
  std::function<std::vector<Tensor>(const Inputs&)> call;
};
void PrintTo(const LayerCase& c, std::ostream* out) { *out << c.name; }

std::vector<Tensor> results(const Tensor& t) { return {t}; }
std::vector<Tensor> results(const nn::GRUOutput& r) { return {r.output, r.hidden}; }
std::vector<Tensor> results(const nn::RNNOutput& r) { return {r.output, r.hidden}; }
std::vector<Tensor> results(const nn::LSTMCellOutput& r) { return {r.hidden, r.cell}; }
std::vector<Tensor> results(const nn::LSTMOutput& r) { return {r.output, r.hidden, r.cell}; }
std::vector<Tensor> results(const nn::AttentionOutput& r) {
  if (!r.weights.defined()) return {r.output};
  return {r.output, r.weights};
}

template <class M>
LayerCase layer(std::string name, M module) {
  auto held = std::make_shared<M>(std::move(module));
  return {std::move(name), held, [held](const Inputs& in) {
            if constexpr (requires(M & m) { m.forward(in[0], in[1], in[2]); })
              if (in.size() == 3) return results((*held)(in[0], in[1], in[2]));
            if constexpr (requires(M & m) { m.forward(in[0], in[1]); })
              if (in.size() == 2) return results((*held)(in[0], in[1]));
            if constexpr (requires(M & m) { m.forward(in[0]); })
              return results((*held)(in[0]));
            else
              throw std::logic_error("no forward takes these inputs");
          }};
}

LayerCase evaluated(LayerCase c) {
  c.module->eval();
  return c;
}

// Attention has masks and options of the call besides.
LayerCase attention(std::string name, nn::MultiheadAttention module, nn::AttentionMasks masks) {
  auto held = std::make_shared<nn::MultiheadAttention>(std::move(module));
  return {std::move(name), held, [held, masks](const Inputs& in) mutable {
            bool masked = in.size() > 1 && in[1].dtype() == Dtype::bool_;
            if (masked) {
              masks.key_padding_mask = in[1];
              masks.attn_mask = in[2];
            }
            bool self = in.size() == 1 || masked;
            return results((*held)(in[0], self ? in[0] : in[1], self ? in[0] : in[2], masks));
          }};
}

std::vector<LayerCase> dense_cases() {
  return {
      layer("linear", nn::Linear(5, 3)),
      layer("linear_no_bias", nn::Linear(5, 3, {.bias = false})),
      layer("conv1d", nn::Conv1d(4, 6, 3, {.stride = 2, .padding = 1, .dilation = 2, .groups = 2})),
      layer("conv2d", nn::Conv2d(2, 4, {3, 2}, {.stride = {2, 1}, .padding = {1, 0}})),
      layer("conv2d_groups", nn::Conv2d(4, 4, 3, {.padding = 1, .groups = 4, .bias = false})),
      layer("batch_norm1d", nn::BatchNorm1d(3)),
      layer("batch_norm1d_length", nn::BatchNorm1d(3, {.momentum = 0.3})),
      layer("batch_norm2d", nn::BatchNorm2d(3, {.eps = 1e-3})),
      evaluated(layer("batch_norm2d_eval", nn::BatchNorm2d(3))),
      layer("batch_norm2d_average", nn::BatchNorm2d(3, {.momentum = {}})),
      layer("batch_norm2d_plain",
            nn::BatchNorm2d(3, {.affine = false, .track_running_stats = false})),
      layer("layer_norm", nn::LayerNorm({3, 4})),
      layer("layer_norm_no_bias", nn::LayerNorm(4, {.bias = false})),
      layer("group_norm", nn::GroupNorm(2, 4)),
      layer("rms_norm", nn::RMSNorm(6)),
      layer("rms_norm_eps", nn::RMSNorm({2, 3}, {.eps = 1e-2})),
      layer("embedding", nn::Embedding(4, 3)),
      layer("embedding_padding",
            nn::Embedding(4, 3, {.padding_idx = -1, .scale_grad_by_freq = true})),
      layer("embedding_bag_mean", nn::EmbeddingBag(4, 3)),
      layer("embedding_bag_max", nn::EmbeddingBag(4, 3, {.mode = nn::BagMode::max})),
      layer("embedding_bag_sum",
            nn::EmbeddingBag(4, 3, {.mode = nn::BagMode::sum, .padding_idx = 1})),
      layer("prelu", nn::PReLU(6)),
  };
}

std::vector<LayerCase> stateless_cases() {
  return {
      evaluated(layer("dropout_eval", nn::Dropout(0.5))),
      layer("relu", nn::ReLU()),
      layer("relu6", nn::ReLU6()),
      layer("selu", nn::SELU()),
      layer("silu", nn::SiLU()),
      layer("mish", nn::Mish()),
      layer("tanh", nn::Tanh()),
      layer("sigmoid", nn::Sigmoid()),
      layer("log_sigmoid", nn::LogSigmoid()),
      layer("softsign", nn::Softsign()),
      layer("hardsigmoid", nn::Hardsigmoid()),
      layer("hardswish", nn::Hardswish()),
      layer("elu", nn::ELU(0.7)),
      layer("celu", nn::CELU(1.5)),
      layer("leaky_relu", nn::LeakyReLU()),
      layer("gelu", nn::GELU()),
      layer("gelu_tanh", nn::GELU("tanh")),
      layer("glu", nn::GLU()),
      layer("softmax", nn::Softmax(0)),
      layer("log_softmax", nn::LogSoftmax(1)),
      layer("hardtanh", nn::Hardtanh(-0.5, 0.7)),
      layer("softplus", nn::Softplus(2, 1)),
      layer("identity", nn::Identity()),
      layer("flatten", nn::Flatten()),
      layer("max_pool2d", nn::MaxPool2d(2)),
      layer("max_pool2d_options",
            nn::MaxPool2d({3, 2}, {.stride = 2, .padding = 1, .ceil_mode = true})),
      layer("avg_pool2d",
            nn::AvgPool2d(3, {.stride = 2, .padding = 1, .count_include_pad = false})),
      layer("avg_pool2d_divisor", nn::AvgPool2d(2, {.divisor_override = 3})),
      layer("adaptive_avg_pool2d", nn::AdaptiveAvgPool2d({3, 2})),
  };
}

std::vector<LayerCase> sequence_cases() {
  nn::RecurrentOptions deep{.num_layers = 2, .batch_first = true, .bidirectional = true};
  return {
      layer("gru", nn::GRU(3, 4)),
      layer("gru_deep", nn::GRU(3, 2, deep)),
      layer("gru_no_bias", nn::GRU(3, 4, {.bias = false})),
      layer("gru_state", nn::GRU(3, 4)),
      layer("lstm", nn::LSTM(3, 4)),
      layer("lstm_deep", nn::LSTM(3, 2, deep)),
      layer("lstm_no_bias", nn::LSTM(3, 4, {.bias = false})),
      layer("lstm_state", nn::LSTM(3, 4)),
      attention("attention", nn::MultiheadAttention(4, 2), {}),
      attention("attention_cross",
                nn::MultiheadAttention(4, 2, {.bias = false, .batch_first = true}),
                {.average_attn_weights = false}),
      attention("attention_fast", nn::MultiheadAttention(4, 2, {.batch_first = true}),
                {.need_weights = false}),
      attention("attention_masks", nn::MultiheadAttention(4, 2, {.batch_first = true}), {}),
  };
}

std::vector<LayerCase> loss_cases() {
  using nn::Reduction;
  Tensor per_class = ones({3}), per_element = ones({4, 3});
  return {
      layer("cross_entropy", nn::CrossEntropyLoss()),
      layer("cross_entropy_options",
            nn::CrossEntropyLoss({.weight = per_class, .ignore_index = 2, .label_smoothing = 0.1})),
      layer("cross_entropy_none", nn::CrossEntropyLoss({.reduction = Reduction::none})),
      layer("nll", nn::NLLLoss({.weight = per_class})),
      layer("nll_sum", nn::NLLLoss({.ignore_index = 1, .reduction = Reduction::sum})),
      layer("mse", nn::MSELoss()),
      layer("l1", nn::L1Loss(Reduction::sum)),
      layer("smooth_l1", nn::SmoothL1Loss(Reduction::mean, 0.5)),
      layer("huber", nn::HuberLoss(Reduction::mean, 0.7)),
      layer("bce_logits", nn::BCEWithLogitsLoss()),
      layer("bce_logits_options",
            nn::BCEWithLogitsLoss({.weight = per_element.clone(), .pos_weight = per_class})),
      layer("bce", nn::BCELoss()),
      layer("kl_div", nn::KLDivLoss(Reduction::batch_mean)),
      layer("kl_div_log", nn::KLDivLoss(Reduction::mean, true)),
  };
}

std::vector<LayerCase> volume_cases() {
  nn::ConvTransposeOptions<int64_t> row{
      .stride = 3, .padding = 1, .output_padding = 2, .groups = 2, .dilation = 2};
  return {
      layer("conv3d",
            nn::Conv3d(4, 6, {2, 3, 2}, {.stride = {1, 2, 2}, .padding = 1, .groups = 2})),
      layer("conv_transpose1d", nn::ConvTranspose1d(4, 6, 3, row)),
      layer("conv_transpose1d_unbatched", nn::ConvTranspose1d(4, 2, 2, {.bias = false})),
      layer("conv_transpose2d",
            nn::ConvTranspose2d(4, 3, {3, 2},
                                {.stride = 2, .padding = {1, 0}, .output_padding = {1, 0}})),
      layer("conv_transpose3d", nn::ConvTranspose3d(4, 2, 2, {.stride = 2})),
      layer("batch_norm3d", nn::BatchNorm3d(4)),
      layer("instance_norm1d", nn::InstanceNorm1d(4)),
      layer("instance_norm1d_unbatched", nn::InstanceNorm1d(4, {.affine = true})),
      layer("instance_norm2d_tracked",
            nn::InstanceNorm2d(
                4, {.eps = 1e-3, .momentum = 0.3, .affine = true, .track_running_stats = true})),
      evaluated(
          layer("instance_norm2d_eval", nn::InstanceNorm2d(4, {.track_running_stats = true}))),
      layer("instance_norm3d", nn::InstanceNorm3d(4, {.affine = true})),
  };
}

std::vector<LayerCase> shape_cases() {
  using nn::UpsampleMode;
  return {
      layer("max_pool1d",
            nn::MaxPool1d(3, {.stride = 2, .padding = 1, .dilation = 2, .ceil_mode = true})),
      layer("avg_pool1d", nn::AvgPool1d(3, {.padding = 1, .count_include_pad = false})),
      layer("max_pool3d", nn::MaxPool3d({2, 3, 2}, {.stride = 1, .padding = 1})),
      layer("avg_pool3d", nn::AvgPool3d(2, {.divisor_override = 3})),
      layer("adaptive_avg_pool1d", nn::AdaptiveAvgPool1d(3)),
      layer("adaptive_avg_pool3d", nn::AdaptiveAvgPool3d({2, 3, 1})),
      layer("adaptive_max_pool1d", nn::AdaptiveMaxPool1d(3)),
      layer("adaptive_max_pool2d", nn::AdaptiveMaxPool2d({3, 2})),
      layer("adaptive_max_pool3d", nn::AdaptiveMaxPool3d(2)),
      layer("upsample_nearest", nn::Upsample({.scale_factor = {2}})),
      layer("upsample_size", nn::Upsample({.size = {9, 7}})),
      layer("upsample_linear", nn::Upsample({.size = {11}, .mode = UpsampleMode::linear})),
      layer("upsample_bilinear",
            nn::Upsample({.scale_factor = {1.5, 2}, .mode = UpsampleMode::bilinear})),
      layer("upsample_bicubic",
            nn::Upsample({.size = {8}, .mode = UpsampleMode::bicubic, .align_corners = true})),
      layer("upsample_trilinear",
            nn::Upsample({.scale_factor = {2}, .mode = UpsampleMode::trilinear})),
      layer("pixel_shuffle", nn::PixelShuffle(2)),
      layer("pixel_unshuffle", nn::PixelUnshuffle(2)),
      layer("channel_shuffle", nn::ChannelShuffle(2)),
      layer("unflatten", nn::Unflatten(1, {2, -1})),
      layer("reflection_pad1d", nn::ReflectionPad1d(2)),
      layer("reflection_pad2d", nn::ReflectionPad2d({1, 0, 2, 3})),
      layer("reflection_pad3d", nn::ReflectionPad3d(1)),
      layer("replication_pad2d", nn::ReplicationPad2d(1)),
      layer("circular_pad1d", nn::CircularPad1d({2, 1})),
      layer("zero_pad2d", nn::ZeroPad2d({1, 2, 0, 1})),
      evaluated(layer("feature_dropout_eval", nn::Dropout2d())),
      layer("tanhshrink", nn::Tanhshrink()),
      layer("softmin", nn::Softmin(1)),
      layer("hardshrink", nn::Hardshrink(0.3)),
      layer("softshrink", nn::Softshrink()),
  };
}

Tensor gelu_of(const Tensor& x) { return gelu(x); }

template <class M>
LayerCase called(std::string name, M module,
                 std::function<Tensor(const M& module, const Inputs& in)> call) {
  auto held = std::make_shared<M>(std::move(module));
  return {std::move(name), held,
          [held, call](const Inputs& in) { return results(call(*held, in)); }};
}

std::vector<LayerCase> cell_and_transformer_cases() {
  using nn::RNNNonlinearity;
  nn::RecurrentOptions deep{.num_layers = 2, .batch_first = true, .bidirectional = true};
  nn::TransformerOptions small{.dim_feedforward = 6, .dropout = 0}, batch_first = small,
                                                                    norm_first = small;
  batch_first.batch_first = norm_first.batch_first = norm_first.norm_first = true;
  nn::TransformerOptions gelu_first = norm_first;
  gelu_first.activation = gelu_of;
  gelu_first.bias = false;
  return {
      layer("rnn", nn::RNN(3, 4)),
      layer("rnn_relu", nn::RNN(3, 2, deep, RNNNonlinearity::relu)),
      layer("rnn_state", nn::RNN(3, 4, {.bias = false})),
      layer("rnn_cell", nn::RNNCell(3, 4)),
      layer("rnn_cell_relu", nn::RNNCell(3, 4, false, RNNNonlinearity::relu)),
      layer("gru_cell", nn::GRUCell(3, 4)),
      layer("lstm_cell", nn::LSTMCell(3, 4)),
      layer("lstm_cell_alone", nn::LSTMCell(3, 4, false)),
      layer("encoder_layer", nn::TransformerEncoderLayer(4, 2, small)),
      layer("encoder_layer_first", nn::TransformerEncoderLayer(4, 2, gelu_first)),
      called<nn::TransformerEncoder>(
          "encoder",
          nn::TransformerEncoder(nn::TransformerEncoderLayer(4, 2, batch_first), 2,
                                 nn::LayerNorm(4)),
          [](const nn::TransformerEncoder& m, const Inputs& in) {
            return m(in[0], nn::EncoderMasks{.is_causal = true});
          }),
      layer("decoder_layer", nn::TransformerDecoderLayer(4, 2, small)),
      called<nn::TransformerDecoder>(
          "decoder", nn::TransformerDecoder(nn::TransformerDecoderLayer(4, 2, norm_first), 2),
          [](const nn::TransformerDecoder& m, const Inputs& in) {
            return m(in[0], in[1], nn::DecoderMasks{.tgt_is_causal = true});
          }),
  };
}

std::vector<LayerCase> pair_loss_cases() {
  using nn::Reduction;
  return {
      layer("margin_ranking", nn::MarginRankingLoss(0.3)),
      layer("hinge_embedding", nn::HingeEmbeddingLoss(0.7, Reduction::sum)),
      layer("cosine_embedding", nn::CosineEmbeddingLoss(0.1)),
      layer("triplet_margin", nn::TripletMarginLoss({.margin = 0.5, .swap = true})),
      layer("poisson_nll", nn::PoissonNLLLoss()),
      layer("poisson_nll_options", nn::PoissonNLLLoss({.log_input = false, .full = true})),
      called<nn::SoftMarginLoss>("soft_margin", nn::SoftMarginLoss(),
                                 [](const nn::SoftMarginLoss& m, const Inputs& in) {
                                   return m(in[0], in[1].to(Dtype::f32));
                                 }),
      called<nn::CTCLoss>("ctc", nn::CTCLoss({.blank = 1}),
                          [](const nn::CTCLoss& m, const Inputs& in) {
                            return m(in[0].log_softmax(2), in[1], in[2], in[3]);
                          }),
  };
}

std::vector<LayerCase> all_cases() {
  std::vector<LayerCase> all;
  for (auto&& some :
       {dense_cases(), stateless_cases(), sequence_cases(), loss_cases(), volume_cases(),
        shape_cases(), cell_and_transformer_cases(), pair_loss_cases()})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

const StateDict& recorded_layers() {
  static const StateDict recorded = nn_recording("layers");
  return recorded;
}

std::vector<Tensor> numbered(const StateDict& tensors) {
  std::vector<Tensor> out;
  for (const auto& [name, t] : tensors) out.push_back(t);
  return out;
}

class Layers : public ::testing::TestWithParam<LayerCase> {};

TEST_P(Layers, GiveWhatPyTorchGives) {
  const LayerCase& c = GetParam();
  StateDict recorded = below(recorded_layers(), c.name);
  ASSERT_FALSE(recorded.empty());
  c.module->load_state_dict(below(recorded, "state"));
  Inputs inputs = numbered(below(recorded, "in"));
  for (Tensor& t : inputs)
    if (is_floating(t.dtype())) t.requires_grad_();

  std::vector<Tensor> found = c.call(inputs), expected = numbered(below(recorded, "out")),
                      weights = numbered(below(recorded, "weight"));
  ASSERT_EQ(found.size(), expected.size());
  Tensor loss = zeros({});
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(difference(found[i], expected[i]), "") << "output " << i;
    loss = loss + (found[i] * weights[i]).sum();
  }
  loss.backward();
  for (const auto& [i, grad] : below(recorded, "grad_in"))
    EXPECT_EQ(difference(inputs[std::stoul(i)].grad(), grad), "") << "gradient of input " << i;
  StateDict parameters;
  for (const auto& [name, p] : c.module->named_parameters()) parameters[name] = p;
  for (const auto& [name, grad] : below(recorded, "grad"))
    EXPECT_EQ(difference(parameters.at(name).grad(), grad), "") << "gradient of " << name;
  StateDict state = c.module->state_dict();
  for (const auto& [name, after] : below(recorded, "after"))
    EXPECT_EQ(difference(state.at(name), after), "") << name << " after forward";
}

INSTANTIATE_TEST_SUITE_P(Recorded, Layers, ::testing::ValuesIn(all_cases()),
                         [](const auto& info) { return info.param.name; });

TEST(LayerCases, AreAllThatWereRecorded) {
  std::vector<std::string> recorded, tested;
  for (const auto& [name, t] : recorded_layers()) {
    std::string first = name.substr(0, name.find('/'));
    if (recorded.empty() || recorded.back() != first) recorded.push_back(first);
  }
  for (const LayerCase& c : all_cases()) tested.push_back(c.name);
  EXPECT_THAT(tested, ::testing::UnorderedElementsAreArray(recorded));
}

TEST(LayerMessages, NameTheLayerAndTheNumber) {
  EXPECT_EQ(message_of([] { nn::Conv2d(3, 4, 3, {.groups = 2}); }),
            "Conv2d: expected in_channels and out_channels to be multiples of groups = 2, found 3 "
            "and 4");
  EXPECT_EQ(message_of([] { nn::Dropout(1.5); }),
            "Dropout: expected a probability in [0, 1], found 1.5");
  EXPECT_EQ(message_of([] {
              nn::BatchNorm2d(3)(ones({2, 3}));
            }),
            "BatchNorm2d: expected 4 dimensions, found f32[2, 3]");
  EXPECT_EQ(message_of([] { nn::Embedding(4, 3, {.padding_idx = 4}); }),
            "Embedding: expected padding_idx in [-4, 4), found 4");
  EXPECT_EQ(message_of([] { nn::Upsample({}); }),
            "Upsample: expected a size or a scale_factor, found none");
  EXPECT_EQ(message_of([] {
              nn::Upsample({.size = {4}, .mode = nn::UpsampleMode::linear})(ones({1, 1, 2, 2}));
            }),
            "interpolate: linear takes tensors of 3 dimensions, found f32[1, 1, 2, 2]");
  EXPECT_EQ(message_of([] {
              nn::InstanceNorm2d(3)(ones({2, 3}));
            }),
            "InstanceNorm2d: expected 3 or 4 dimensions, found f32[2, 3]");
  EXPECT_EQ(message_of([] { nn::MultiheadAttention(5, 2); }),
            "MultiheadAttention: expected embed_dim to be a multiple of num_heads = 2, found 5");
}

TEST(Transformers, HaveLayersWithValuesOfTheirOwn) {
  nn::TransformerEncoderLayer layer(4, 2);
  nn::TransformerEncoder stack(layer, 3);
  EXPECT_EQ(stack.parameters().size(), 3 * layer.parameters().size());
  EXPECT_TRUE(equal(stack.layers[0].linear1.weight, stack.layers[2].linear1.weight));
  stack.layers[0].linear1.weight.detach().zero_();
  EXPECT_FALSE(equal(stack.layers[0].linear1.weight, stack.layers[2].linear1.weight));
  EXPECT_FALSE(equal(stack.layers[0].linear1.weight, layer.linear1.weight));
}

TEST(Layers, DropoutOfFeaturesTakesWholeOnes) {
  manual_seed(4);
  Tensor y = nn::Dropout2d(0.5)(ones({8, 16, 3, 3})).sum({2, 3});
  for (double sum : y.to(Dtype::f64).reshape({-1}).to_vector<double>())
    EXPECT_TRUE(sum == 0 || sum == 18) << sum;
}

TEST(Layers, DropoutZeroesAndScalesInTraining) {
  manual_seed(3);
  Tensor y = nn::Dropout(0.25)(ones({4000}));
  double zero_part = number_of((y == 0).to(Dtype::f32).mean());
  EXPECT_NEAR(zero_part, 0.25, 0.03);
  EXPECT_FLOAT_EQ(static_cast<float>(number_of(y.max())), 1 / 0.75F);
}

}  // namespace
}  // namespace tenon
