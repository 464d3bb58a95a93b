// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/serve/catalog.h"

namespace flushlight {
namespace {

constexpr CatalogColumn kColumns[] = {
#define FL_COLUMN(view, column, type, unit, help) {#view, #column, FL_CELL_##type, #unit, help},
#include "abi/views.def"
};

constexpr CatalogView kViews[] = {
#define FL_VIEW(view, help) {#view, help},
#include "abi/views.def"
};

}  // namespace

std::span<const CatalogColumn> catalog_columns() { return kColumns; }
std::span<const CatalogView> catalog_views() { return kViews; }

}  // namespace flushlight
