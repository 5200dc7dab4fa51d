// A graph as SVG, without a layout program.
#pragma once

#include <tenon/plugin.hpp>

#include <string>

/// Layers from inputs to outputs; `clear_meta` leaves out dtypes and sizes.
std::string svg_of(const tenon::plugin::graph& g, bool clear_meta);
