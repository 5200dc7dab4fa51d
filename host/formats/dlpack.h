// DLPack: tensors in and out without a copy, as versioned capsules (DLManagedTensorVersioned, 1.x).
#pragma once

#include <tenon/tensor.h>

namespace tenon {

/// A capsule that shares the tensor's memory. The receiver calls its deleter once. Throws UserError
/// for fakes, for devices other than the CPU, and for dtypes that DLPack cannot name.
void* to_dlpack(const Tensor& t);

/// A tensor over the capsule's memory; the capsule's deleter runs with the last reference, or
/// before this throws. Throws UserError (bad_file: nonsensical; unsupported: well-formed but not
/// ours).
Tensor from_dlpack(void* capsule);
/// The function that the capsule is given back to, or null.
const void* dlpack_deleter(const void* capsule);

}  // namespace tenon
