// The bits of an op: from its rows where they know, else by the name of its packet.
//
// Rows tell pointwise and random ops; all numbers computed from sizes (`sym.*`) are cheap. In-place
// forms are what their functional ops are. The lists hold what PyTorch's lists say beyond that,
// also of ops that this build has no rows for; names without a namespace are in `aten`.
#include "partition/op_classes.h"

#include "ops/op_table.h"

#include <tenon/plugin.h>

#include <string>
#include <unordered_map>

namespace tenon::partition {
namespace {

// Mirrors PyTorch's get_default_op_list (torch/_functorch/partitioners.py) and its tag
// nondeterministic_seeded, whose recorded results must come out.
constexpr std::string_view views =
    "alias as_strided expand permute prims.broadcast_in_dim select slice split squeeze t unsqueeze "
    "view";
constexpr std::string_view random_and_fusible = "native_dropout rand_like randn_like";
constexpr std::string_view compute_intensive =
    "_efficient_attention_forward _flash_attention_forward _scaled_dot_product_efficient_attention "
    "_scaled_dot_product_flash_attention _scaled_mm addmm bmm convolution convolution_backward mm "
    "upsample_bilinear2d";

constexpr std::string_view recomputable =
    "__ilshift__ __ixor__ _grad_sum_to_size _to_copy _unsafe_view alias amax angle any arange "
    "argmax as_strided bitwise_left_shift_ bitwise_right_shift_ broadcast_tensors clone "
    "conj_physical empty empty_like equal expand float_power frexp full full_like gather gcd i0 "
    "igamma igammac index isfinite isinf isneginf isposinf lcm ldexp lift_fresh_copy "
    "masked_fill mean mvlgamma nan_to_num native_dropout_backward new_zeros nextafter ones "
    "permute polygamma positive pow_ prims._low_memory_max_pool_offsets_to_indices "
    "prims.broadcast_in_dim prims.convert_element_type prims.div prims.iota "
    "prims.prepare_softmax_online prims.sum prims.var reshape rrelu scalar_tensor select "
    "signbit slice special_airy_ai special_bessel_j0 special_bessel_j1 special_bessel_y0 "
    "special_bessel_y1 special_chebyshev_polynomial_t special_chebyshev_polynomial_u "
    "special_chebyshev_polynomial_v special_chebyshev_polynomial_w special_erfcx "
    "special_hermite_polynomial_h special_hermite_polynomial_he special_i0e special_i1 "
    "special_i1e special_laguerre_polynomial_l special_legendre_polynomial_p special_log_ndtr "
    "special_modified_bessel_i0 special_modified_bessel_i1 special_modified_bessel_k0 "
    "special_modified_bessel_k1 special_ndtri special_scaled_modified_bessel_k0 "
    "special_scaled_modified_bessel_k1 special_shifted_chebyshev_polynomial_t "
    "special_shifted_chebyshev_polynomial_u special_shifted_chebyshev_polynomial_v "
    "special_shifted_chebyshev_polynomial_w special_spherical_bessel_j0 special_zeta split "
    "square squeeze std sum sum_to_size t to triu type_as unsqueeze var var_mean view zeros "
    "zeros_like";
constexpr std::string_view seeded =
    "_cudnn_rnn _efficient_attention_forward _flash_attention_forward "
    "_flash_attention_forward_no_dropout_inplace _fused_dropout "
    "_scaled_dot_product_attention_math_for_mps _scaled_dot_product_cudnn_attention "
    "_scaled_dot_product_cudnn_attention_backward _scaled_dot_product_efficient_attention "
    "_scaled_dot_product_efficient_attention_backward _scaled_dot_product_flash_attention "
    "_scaled_dot_product_flash_attention_for_cpu "
    "_scaled_dot_product_fused_attention_overrideable _standard_gamma binomial cauchy "
    "exponential geometric gru log_normal lstm miopen_rnn multinomial normal_functional poisson "
    "rnn_relu rnn_tanh rrelu_with_noise_ rrelu_with_noise_functional";

using Table = std::unordered_map<std::string, uint16_t>;

void add_names(Table& table, std::string_view names, uint16_t bits) {
  while (!names.empty()) {
    size_t end = std::min(names.find(' '), names.size());
    std::string name(names.substr(0, end));
    if (name.find('.') == name.npos) name.insert(0, "aten.");
    table[name] |= bits;
    names.remove_prefix(std::min(end + 1, names.size()));
  }
}

const Table& packet_table() {
  static const auto& table = *new Table([] {
    Table made;
    add_names(made, views, class_view);
    add_names(made, random_and_fusible, class_random);
    add_names(made, compute_intensive, class_compute);
    add_names(made, recomputable, class_recomputable);
    add_names(made, seeded, class_seeded);
    add_names(made, "cat", class_cat);
    add_names(made, "empty", class_keep);
    add_names(made, "copy_", class_copy);
    add_names(made, "lift_fresh lift_fresh_copy", class_lift);
    made["getitem"] = class_getitem | class_recomputable;
    return made;
  }());
  return table;
}

uint16_t listed(std::string_view packet) {
  auto found = packet_table().find(std::string(packet));
  return found == packet_table().end() ? uint16_t{0} : found->second;
}

uint16_t told_by_row(std::string_view target) {
  // Names without a namespace are not ops: `getitem`.
  const OpEntry* row = target.find('.') == target.npos ? nullptr : find_op(target);
  if (row == nullptr) return 0;
  uint16_t bits = 0;
  if (row->tags & TN_TAG_POINTWISE) bits |= class_recomputable;
  if (row->tags & TN_TAG_RANDOM) bits |= class_seeded;
  if (row->tags & TN_TAG_DATA_DEPENDENT) bits |= class_data_number;
  return bits;
}

// "aten.mul" of "aten.mul_", not of "aten.__and__".
std::string_view functional_name(std::string_view packet) {
  bool in_place = packet.ends_with('_') && !packet.ends_with("__");
  return in_place ? packet.substr(0, packet.size() - 1) : packet;
}

}  // namespace

std::string_view packet_of(std::string_view target) {
  size_t first = target.find('.');
  if (first == target.npos) return target;
  return target.substr(0, std::min(target.find('.', first + 1), target.size()));
}

uint16_t classes_of(std::string_view target) {
  std::string_view packet = packet_of(target);
  uint16_t bits = listed(packet) | told_by_row(target);
  if (bits == 0) bits = listed(functional_name(packet)) & (class_recomputable | class_seeded);
  if (target.starts_with("sym.")) bits |= class_recomputable;
  if (target.starts_with("_c10d_functional.") || target.starts_with("c10d."))
    bits |= class_collective;
  if (bits & class_seeded) bits |= class_keep;
  return bits;
}

}  // namespace tenon::partition
