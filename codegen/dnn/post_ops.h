// Post-ops in oneDNN's terms, and whether it has fast code for them.
//
// Measured with oneDNN 2.6: elementwise functions stay in the fast kernels (brgemm, brgconv,
// brdgmm); a binary operand of the result's size makes it leave them for slow ones. But `sum`,
// which adds what the result held before, stays. So one `add` is a sum onto the operand, which is
// put where the result goes; a second one is left to the caller.
//
// Its maxima and minima give a limit for what is not a number, so relu and hardsigmoid are done
// behind it, on each slice while that is in the cache.
#pragma once

#include "engine.h"
#include "prepared.h"

#include <optional>
#include <span>
#include <string_view>

namespace onednn {

/// What is done behind oneDNN's code: the last post-op, where that would lose what is not a number.
std::optional<PostOp> done_behind(std::span<const PostOp> post_ops);
/// Applies it to these bytes of TN_F32 or TN_BF16.
void apply(PostOp op, void* numbers, size_t bytes, int32_t dtype);

/// Attributes with these post-ops; none where they are not of the fast kind, or lose what is not a
/// number.
std::optional<dnnl::primitive_attr> attributes(std::span<const PostOp> post_ops);

/// Whether there is an operand, to be put where the result goes.
bool has_operand(std::span<const PostOp> post_ops);

/// What oneDNN takes for this; empty where that is its reference, or where post-ops make it leave
/// what it takes without them.
template <class PrimitiveDesc, class OpDesc>
PrimitiveDesc describe(const OpDesc& desc, const dnnl::primitive_attr& attr) {
  PrimitiveDesc made(desc, attr, engine());
  if (is_reference(made)) return {};
  if (attr.get_post_ops().len() == 0) return made;
  PrimitiveDesc plain(desc, attributes(), engine());
  bool same = std::string_view(made.impl_info_str()) == plain.impl_info_str();
  return same ? made : PrimitiveDesc();
}

}  // namespace onednn
