// The ways in which conv.cpp has a convolution of f32 or f64 computed.
#pragma once

#include "core/kernels/conv.h"

namespace tenon::kernels {

/// One input channel a group: weighted sums of shifted planes.
template <class T>
void conv_depthwise(const ConvShape& shape, const T* x, const T* weight, const T* bias, T* y);

template <class T>
void conv_transposed_by_columns(const ConvShape& shape, const T* x, const T* weight, const T* bias,
                                T* y);

template <class T>
void conv_weight_grad_by_columns(const ConvShape& shape, const T* x, const T* grad_y,
                                 T* grad_weight);

/// Microseconds of one thread for so many multiply-adds, for the estimates of the thread pool.
double conv_us(double multiply_adds);

}  // namespace tenon::kernels
