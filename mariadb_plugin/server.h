// SPDX-License-Identifier: GPL-2.0-only
// The server's private headers, in the one order in which they compile. Include this before anything else.
//
// They are those of exactly one server version; DBUG_OFF (set by CMake) must match the server's build, or
// the offsets in THD shift silently. layout.cpp checks both in the running server.
#pragma once

#define MYSQL_SERVER 1
#include <my_global.h>
// keep this order
#include <sql_class.h>
// keep this order
#include <log.h>
#include <mysql/plugin.h>
#include <mysql/plugin_audit.h>
#include <mysql/service_thd_specifics.h>
#include <scheduler.h>
#include <sql_acl.h>
#include <sql_i_s.h>
#include <sql_plugin.h>
#include <sql_show.h>
#include <table.h>
#include <tztime.h>

// the server defines these as macros
#undef min
#undef max
#undef test
