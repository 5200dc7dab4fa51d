// What the numbers among a pointwise op's arguments are for, by their names in its schema.
#pragma once

#include "core/scalar/scalar_program.h"
#include "ops/op.h"

namespace tenon {

/// Whether it takes part in promotion; others (alpha, value, negative_slope, ...) only convert.
bool promotes(const SchemaArg& arg);

/// Whether it is a factor, which has to fit the result's dtype.
bool scales(const SchemaArg& arg);

/// Whether no element of the result is to lie beyond it.
bool bounds(const SchemaArg& arg);

/// The bits of a bound among integers of a type: one that no element can reach bounds nothing, so
/// -1 is 0 for u8, not 255. It is neither infinite nor NaN.
uint64_t fitted_bound(ScalarLiteral bound, Dtype dtype);

}  // namespace tenon
