// PyTorch's list of ops for autocast on CUDA.
//
// It is another one than that for the CPU, which the rows hold: there products, here products and
// whatever sums or exponentiates. An op that is not on it computes in the types that it is given.
#include "ops/modes/autocast.h"

#include <vector>

namespace tenon {

namespace {

using enum CudaCast;

constexpr CudaCastRow rows[] = {
    {"aten.conv1d.default", lower},
    {"aten.conv1d.padding", lower},
    {"aten.conv2d.default", lower},
    {"aten.conv2d.padding", lower},
    {"aten.conv3d.default", lower},
    {"aten.conv3d.padding", lower},
    {"aten.conv_transpose1d.default", lower},
    {"aten.conv_transpose2d.input", lower},
    {"aten.conv_transpose3d.input", lower},
    {"aten.convolution.default", lower},
    {"aten.prelu.default", lower},
    {"aten.addmm.default", lower},
    {"aten.addmv.default", lower},
    {"aten.addr.default", lower},
    {"aten.matmul.default", lower},
    {"aten.einsum.default", lower},
    {"aten.mm.default", lower},
    {"aten.mv.default", lower},
    {"aten.linalg_vecdot.default", lower},
    {"aten.linear.default", lower},
    {"aten.addbmm.default", lower},
    {"aten.baddbmm.default", lower},
    {"aten.bmm.default", lower},
    {"aten.chain_matmul.default", lower},
    {"aten.linalg_multi_dot.default", lower},
    {"aten.lstm_cell.default", lower},
    {"aten.gru_cell.default", lower},
    {"aten.rnn_tanh_cell.default", lower},
    {"aten.rnn_relu_cell.default", lower},
    {"aten.scaled_dot_product_attention.default", lower},
    {"aten.acos.default", fp32},
    {"aten.asin.default", fp32},
    {"aten.cosh.default", fp32},
    {"aten.erfinv.default", fp32},
    {"aten.exp.default", fp32},
    {"aten.expm1.default", fp32},
    {"aten.log.default", fp32},
    {"aten.log10.default", fp32},
    {"aten.log2.default", fp32},
    {"aten.log1p.default", fp32},
    {"aten.reciprocal.default", fp32},
    {"aten.rsqrt.default", fp32},
    {"aten.sinh.default", fp32},
    {"aten.tan.default", fp32},
    {"aten.pow.Tensor_Scalar", fp32},
    {"aten.pow.Tensor_Tensor", fp32},
    {"aten.pow.Scalar", fp32},
    {"aten.softplus.default", fp32},
    {"aten.layer_norm.default", fp32},
    {"aten.native_layer_norm.default", fp32},
    {"aten.group_norm.default", fp32},
    {"aten.frobenius_norm.dim", fp32},
    {"aten.nuclear_norm.default", fp32},
    {"aten.nuclear_norm.dim", fp32},
    {"aten.cosine_similarity.default", fp32},
    {"aten.poisson_nll_loss.default", fp32},
    {"aten.cosine_embedding_loss.default", fp32},
    {"aten.nll_loss.default", fp32},
    {"aten.nll_loss2d.default", fp32},
    {"aten.hinge_embedding_loss.default", fp32},
    {"aten.kl_div.default", fp32},
    {"aten.l1_loss.default", fp32},
    {"aten.smooth_l1_loss.default", fp32},
    {"aten.huber_loss.default", fp32},
    {"aten.mse_loss.default", fp32},
    {"aten.margin_ranking_loss.default", fp32},
    {"aten.multilabel_margin_loss.default", fp32},
    {"aten.soft_margin_loss.default", fp32},
    {"aten.triplet_margin_loss.default", fp32},
    {"aten.multi_margin_loss.default", fp32},
    {"aten.binary_cross_entropy_with_logits.default", fp32},
    {"aten.dist.default", fp32},
    {"aten.pdist.default", fp32},
    {"aten.cdist.default", fp32},
    {"aten.renorm.default", fp32},
    {"aten.logsumexp.default", fp32},
    {"aten.upsample_nearest1d.default", fp32},
    {"aten._upsample_nearest_exact1d.default", fp32},
    {"aten.upsample_nearest2d.default", fp32},
    {"aten._upsample_nearest_exact2d.default", fp32},
    {"aten.upsample_nearest3d.default", fp32},
    {"aten._upsample_nearest_exact3d.default", fp32},
    {"aten.upsample_linear1d.default", fp32},
    {"aten.upsample_bilinear2d.default", fp32},
    {"aten._upsample_bilinear2d_aa.default", fp32},
    {"aten.upsample_trilinear3d.default", fp32},
    {"aten.upsample_bicubic2d.default", fp32},
    {"aten._upsample_bicubic2d_aa.default", fp32},
    {"aten.norm.Scalar", fp32},
    {"aten.norm.ScalarOpt_dim", fp32},
    {"aten.prod.default", fp32_dtype},
    {"aten.prod.dim_int", fp32_dtype},
    {"aten.softmax.int", fp32_dtype},
    {"aten.log_softmax.int", fp32_dtype},
    {"aten.cumprod.default", fp32_dtype},
    {"aten.cumsum.default", fp32_dtype},
    {"aten.linalg_vector_norm.default", fp32_dtype},
    {"aten.linalg_matrix_norm.default", fp32_dtype},
    {"aten.linalg_matrix_norm.str_ord", fp32_dtype},
    {"aten.sum.default", fp32_dtype},
    {"aten.sum.dim_IntList", fp32_dtype},
    {"aten.addcdiv.default", promote},
    {"aten.addcmul.default", promote},
    {"aten.atan2.default", promote},
    {"aten.bilinear.default", promote},
    {"aten.cross.default", promote},
    {"aten.dot.default", promote},
    {"aten.vdot.default", promote},
    {"aten.grid_sampler.default", promote},
    {"aten.index_put.default", promote},
    {"aten.tensordot.default", promote},
    {"aten.scatter_add.default", promote},
    {"aten.cat.default", promote},
    {"aten.stack.default", promote},
    {"aten.binary_cross_entropy.default", refused},
};

// By id. Ops that are added later are not on the list.
std::vector<CudaCast> policies_by_id() {
  std::vector<CudaCast> out;
  for (const CudaCastRow& row : rows) {
    auto id = static_cast<size_t>(op_id(row.op));
    if (id >= out.size()) out.resize(id + 1, none);
    out[id] = row.cast;
  }
  return out;
}

}  // namespace

std::span<const CudaCastRow> cuda_cast_list() { return rows; }

CudaCast cast_on_cuda(const OpEntry& op) {
  static const auto* const policies = new std::vector<CudaCast>(policies_by_id());
  auto id = static_cast<size_t>(op.id);
  return id < policies->size() ? (*policies)[id] : none;
}

}  // namespace tenon
