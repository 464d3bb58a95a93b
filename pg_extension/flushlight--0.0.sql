/* SPDX-License-Identifier: PostgreSQL */
/* Where every upgrade path starts: the schema alone. */
\echo Use "CREATE EXTENSION flushlight" to load this file. \quit
