// What a manifest names, and whether that is there: what is not never takes effect, in silence.
#pragma once

#include "backend/find/manifest.h"

namespace tenon::kit {

/// Fails where something that the manifest offers can never be used or set; warns of names that
/// mean nothing to this host.
void check_manifest_names(const PluginManifest& manifest);

}  // namespace tenon::kit
