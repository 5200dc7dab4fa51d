// Layer, group and batch normalisation, and the statistics that they are made of.
//
// All arrays are contiguous. T is float, double, Half or BFloat16; statistics are of the compute
// type, float for the 16-bit ones. Means and squared differences are exact to a few roundings, also
// where the mean is large against the deviation. Runs on the threads of the pool; their number
// changes no bit.
#pragma once

#include "core/kernels/narrow.h"

#include <cstdint>

namespace tenon::kernels {

/// For each of `rows` rows of n elements: its mean, rstd = 1 / sqrt(variance + eps), and
/// y = (x - mean) * rstd * weight + bias. weight and bias have n elements or are null; so may mean
/// and rstd be. y may be x.
template <class T>
void layer_norm(const T* x, T* y, Compute<T>* mean, Compute<T>* rstd, int64_t rows, int64_t n,
                Compute<T> eps, const T* weight, const T* bias);

/// x is batch x channels x inner; each group of channels / groups channels of an image is
/// normalised together. mean and rstd have batch x groups elements or are null, weight and bias
/// `channels` or are null. y may be x.
template <class T>
void group_norm(const T* x, T* y, Compute<T>* mean, Compute<T>* rstd, int64_t batch,
                int64_t channels, int64_t groups, int64_t inner, Compute<T> eps, const T* weight,
                const T* bias);

/// Mean and sum of squared differences from it, of each of `rows` rows of n > 0 elements.
template <class T>
void row_moments(const T* x, Compute<T>* mean, Compute<T>* m2, int64_t rows, int64_t n);

/// The same for each channel of x = batch x channels x inner, over batch and inner, which are not
/// 0.
template <class T>
void channel_moments(const T* x, Compute<T>* mean, Compute<T>* m2, int64_t batch, int64_t channels,
                     int64_t inner);

/// y = (x - center[c]) * scale[c] + shift[c] over batch x channels x inner; center and shift may be
/// null. y may be x.
template <class T>
void scale_channels(const T* x, T* y, int64_t batch, int64_t channels, int64_t inner,
                    const Compute<T>* center, const Compute<T>* scale, const Compute<T>* shift);

/// Of each channel, over batch x inner: the sum of g, and that of g * (x - center[c]). C: float or
/// double.
template <class C>
void channel_gradient_sums(const C* g, const C* x, const C* center, double* of_g, double* of_gx,
                           int64_t batch, int64_t channels, int64_t inner);

/// y = g * a[c] + (x - center[c]) * b[c] + d[c] over batch x channels x inner.
template <class C>
void combine_channels(const C* g, const C* x, C* y, int64_t batch, int64_t channels, int64_t inner,
                      const C* center, const C* a, const C* b, const C* d);

}  // namespace tenon::kernels
