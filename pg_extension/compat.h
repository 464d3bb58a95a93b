/* SPDX-License-Identifier: PostgreSQL */
/*
 * Every difference between PostgreSQL 14 and 18 that the extension meets. No other file compares versions.
 */
#ifndef FLUSHLIGHT_PG_COMPAT_H
#define FLUSHLIGHT_PG_COMPAT_H

#include "postgres.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "executor/executor.h"
#include "executor/instrument.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "parser/analyze.h"
#include "utils/guc.h"
#include "utils/wait_event.h"

#if PG_VERSION_NUM < 140000 || PG_VERSION_NUM >= 190000
#error "flushlight supports PostgreSQL 14 to 18"
#endif

/*
 * struct Port without the headers of GSSAPI and OpenSSL: its layout does not depend on the first, and the
 * fields of the second are its last.
 */
#undef ENABLE_GSS
#undef USE_OPENSSL
#include "libpq/libpq-be.h"

/* 16: moved, and utility statements are jumbled as trees instead of hashed as texts */
#if PG_VERSION_NUM >= 160000
#include "nodes/queryjumble.h"
#else
#include "utils/queryjumble.h"
#endif

/* 15: libraries claim their prefix of settings */
#if PG_VERSION_NUM < 150000
#define MarkGUCPrefixReserved(prefix) EmitWarningsOnPlaceholders(prefix)
#endif

/* 18: ExecutorRun lost execute_once */
#if PG_VERSION_NUM >= 180000
#define FL_EXECUTOR_RUN_ARGS QueryDesc *queryDesc, ScanDirection direction, uint64 count
#define FL_EXECUTOR_RUN_PASS queryDesc, direction, count
#else
#define FL_EXECUTOR_RUN_ARGS QueryDesc *queryDesc, ScanDirection direction, uint64 count, bool execute_once
#define FL_EXECUTOR_RUN_PASS queryDesc, direction, count, execute_once
#endif

/* 16: _PG_init is declared by fmgr.h */
#if PG_VERSION_NUM < 160000
extern void _PG_init(void);
#endif

/* 18: a module can name itself and its version */
#ifdef PG_MODULE_MAGIC_EXT
#define FL_MODULE_MAGIC PG_MODULE_MAGIC_EXT(.name = "flushlight", .version = FLUSHLIGHT_VERSION)
#else
#define FL_MODULE_MAGIC PG_MODULE_MAGIC
#endif

/* 18: query ids became signed */
#define FL_QUERY_ID(node) ((uint64)(node)->queryId)

#endif
