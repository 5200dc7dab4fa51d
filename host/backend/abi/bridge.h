// The host's side of the plugin ABI: the table that every plugin gets, and conversions at the
// border.
#pragma once

#include "backend/life/lifetime.h"
#include "core/value.h"

#include <tenon/plugin.h>

#include <vector>

namespace tenon {

extern const tn_tensor_api tensor_api;
extern const tn_ops_api ops_api;
extern const tn_run_api run_api;
extern const tn_opt_api opt_api;
extern const tn_svc_api svc_api;

/// The table that plugins get, this host's own unless another was set; valid for the life of the
/// process.
const tn_host* host_table();
/// Gives the plugins that are loaded from here on another table, such as one that watches them;
/// null: this host's own again. The table must live as long as the process.
void set_host_table(const tn_host* table);
const tn_host& own_host_table();

/// A new reference for the plugin that this thread is in, and a Tensor that takes over a reference
/// from one. What is taken has to be noted by who knows from whom.
inline tn_tensor* give(Tensor t) {
  if (t.defined()) note_held(Held::tensor, 1);
  return t.release();
}
inline Tensor take_tensor(tn_tensor* t) {
  return Tensor::adopt(static_cast<detail::TensorHead*>(t));
}
/// A second reference to what a plugin lent.
Tensor share_tensor(tn_tensor* t);

}  // namespace tenon
