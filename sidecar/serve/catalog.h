// SPDX-License-Identifier: GPL-2.0-or-later
// abi/views.def as a table.
#pragma once
#include <span>
#include <string_view>

#include "abi/attach.h"

namespace flushlight {

struct CatalogColumn {
  std::string_view view, name;
  fl_cell_type type;
  std::string_view unit, help;
};
std::span<const CatalogColumn> catalog_columns();

struct CatalogView {
  std::string_view name, help;
};
std::span<const CatalogView> catalog_views();

}  // namespace flushlight
