// SPDX-License-Identifier: GPL-2.0-only
// The INFORMATION_SCHEMA tables. One per view of abi/views.def.
#pragma once

namespace flushlight {

// Init function of the table's plugin, by view.
#define FL_VIEW(view, help) int init_table_##view(void *schema_table);
#include "abi/views.def"

}  // namespace flushlight
