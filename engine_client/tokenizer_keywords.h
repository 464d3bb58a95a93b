/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Words that the tokenizer writes in capitals. Not every keyword of either engine: reserved words and those
 * that statements are told apart by. A word that is missing stays as the client wrote it, nothing worse.
 * To add one: put it into the array of its first letter (frequent ones come first).
 *
 * Included by tokenizer.c only.
 */
#ifndef FLUSHLIGHT_ENGINE_CLIENT_TOKENIZER_KEYWORDS_H
#define FLUSHLIGHT_ENGINE_CLIENT_TOKENIZER_KEYWORDS_H

#include <stddef.h>
#include <stdint.h>

enum keyword_flag {
	KEYWORD_FUNCTION = 1,                  /* written without a space before its parenthesis */
	KEYWORD_OPERAND = 2,                   /* a value: a sign after it is a binary operator */
	KEYWORD_NULL = 4,                      /* NULL: a literal in some places */
	KEYWORD_BEFORE_NULL = 8,               /* NULL after it is a literal */
	KEYWORD_ROWS = 16,                     /* a list of rows follows */
	KEYWORD_IN = 32,                       /* a list of values or rows follows */
	KEYWORD_TEMPORAL = 64,                 /* with a string after it: one literal */
	KEYWORD_IDENTIFIED = 128,              /* credentials follow */
	KEYWORD_SECRET_AFTER_IDENTIFIED = 256, /* the very next token is a credential */
	KEYWORD_PASSWORD = 512,                /* the next value is a credential */
	KEYWORD_FOR = 1024,                    /* PASSWORD FOR somebody = credential */
};

#define KEYWORD_BYTES_MAX 19u

struct keyword {
	char text[KEYWORD_BYTES_MAX + 1];
	uint8_t length;
	uint16_t flags;
};

struct keyword_bucket {
	const struct keyword *keywords;
	uint16_t count;
};

#define K(text, flags)                        \
	{                                     \
		text, sizeof(text) - 1, flags \
	}
#define BUCKET(array)                                   \
	{                                               \
		array, sizeof(array) / sizeof(array[0]) \
	}

static const struct keyword keywords_a[] = {
	K("AND", KEYWORD_BEFORE_NULL),
	K("AS", KEYWORD_SECRET_AFTER_IDENTIFIED),
	K("ADD", 0),
	K("AFTER", 0),
	K("ALL", 0),
	K("ALTER", 0),
	K("ALWAYS", 0),
	K("ANALYZE", 0),
	K("ANY", 0),
	K("ASC", 0),
	K("ATOMIC", 0),
	K("AUTO_INCREMENT", 0),
	K("AVG", KEYWORD_FUNCTION),
};
static const struct keyword keywords_b[] = {
	K("BEGIN", 0),
	K("BY", KEYWORD_SECRET_AFTER_IDENTIFIED),
	K("BEFORE", 0),
	K("BETWEEN", KEYWORD_BEFORE_NULL),
	K("BIGINT", KEYWORD_FUNCTION),
	K("BINARY", 0),
	K("BLOB", 0),
	K("BOOLEAN", 0),
};
static const struct keyword keywords_c[] = {
	K("COMMIT", 0),
	K("CALL", KEYWORD_BEFORE_NULL),
	K("CASCADE", 0),
	K("CASE", KEYWORD_BEFORE_NULL),
	K("CAST", KEYWORD_FUNCTION),
	K("CHANGE", 0),
	K("CHAR", KEYWORD_FUNCTION),
	K("CHARACTER", 0),
	K("CHECK", 0),
	K("CHECKPOINT", 0),
	K("CLOSE", 0),
	K("CLUSTER", 0),
	K("COALESCE", KEYWORD_FUNCTION),
	K("COLLATE", 0),
	K("COLUMN", 0),
	K("COMMITTED", 0),
	K("CONCAT", KEYWORD_FUNCTION),
	K("CONCURRENTLY", 0),
	K("CONSTRAINT", 0),
	K("CONVERT", KEYWORD_FUNCTION),
	K("COPY", 0),
	K("COUNT", KEYWORD_FUNCTION),
	K("CREATE", 0),
	K("CROSS", 0),
	K("CURRENT_DATE", KEYWORD_OPERAND),
	K("CURRENT_TIME", KEYWORD_OPERAND),
	K("CURRENT_TIMESTAMP", KEYWORD_OPERAND),
	K("CURRENT_USER", KEYWORD_OPERAND),
	K("CURSOR", 0),
};
static const struct keyword keywords_d[] = {
	K("DELETE", 0),
	K("DATABASE", 0),
	K("DATABASES", 0),
	K("DATE", KEYWORD_TEMPORAL | KEYWORD_FUNCTION),
	K("DATETIME", 0),
	K("DATE_ADD", KEYWORD_FUNCTION),
	K("DATE_SUB", KEYWORD_FUNCTION),
	K("DEALLOCATE", 0),
	K("DECIMAL", KEYWORD_FUNCTION),
	K("DECLARE", 0),
	K("DEFAULT", KEYWORD_BEFORE_NULL | KEYWORD_OPERAND),
	K("DELAYED", 0),
	K("DESC", 0),
	K("DESCRIBE", 0),
	K("DETERMINISTIC", 0),
	K("DISTINCT", 0),
	K("DIV", KEYWORD_BEFORE_NULL),
	K("DO", 0),
	K("DOUBLE", KEYWORD_FUNCTION),
	K("DROP", 0),
	K("DUPLICATE", 0),
};
static const struct keyword keywords_e[] = {
	K("EACH", 0),
	K("ELSE", KEYWORD_BEFORE_NULL),
	K("ELSEIF", 0),
	K("ENCRYPTED", 0),
	K("END", KEYWORD_OPERAND),
	K("ENGINE", 0),
	K("ESCAPE", 0),
	K("EXCEPT", 0),
	K("EXCLUSIVE", 0),
	K("EXECUTE", 0),
	K("EXISTS", 0),
	K("EXPLAIN", 0),
	K("EXTENSION", 0),
	K("EXTRACT", KEYWORD_FUNCTION),
};
static const struct keyword keywords_f[] = {
	K("FROM", 0),
	K("FOR", KEYWORD_FOR),
	K("FALSE", KEYWORD_OPERAND),
	K("FETCH", 0),
	K("FLOAT", KEYWORD_FUNCTION),
	K("FLUSH", 0),
	K("FOLLOWING", 0),
	K("FORCE", 0),
	K("FOREIGN", 0),
	K("FOUND", 0),
	K("FULL", 0),
	K("FUNCTION", 0),
};
static const struct keyword keywords_g[] = {
	K("GROUP", 0),
	K("GLOBAL", 0),
	K("GRANT", 0),
	K("GREATEST", KEYWORD_FUNCTION),
};
static const struct keyword keywords_h[] = {
	K("HANDLER", 0),
	K("HAVING", 0),
	K("HIGH_PRIORITY", 0),
};
static const struct keyword keywords_i[] = {
	K("INSERT", 0),
	K("INTO", 0),
	K("IN", KEYWORD_IN | KEYWORD_BEFORE_NULL),
	K("IS", 0),
	K("IDENTIFIED", KEYWORD_IDENTIFIED),
	K("IF", 0),
	K("IFNULL", KEYWORD_FUNCTION),
	K("IGNORE", 0),
	K("ILIKE", 0),
	K("IMMEDIATE", 0),
	K("INDEX", 0),
	K("INNER", 0),
	K("INSTALL", 0),
	K("INT", KEYWORD_FUNCTION),
	K("INTEGER", KEYWORD_FUNCTION),
	K("INTERSECT", 0),
	K("INTERVAL", 0),
	K("ISOLATION", 0),
	K("ITERATE", 0),
};
static const struct keyword keywords_j[] = {
	K("JOIN", 0),
	K("JSON_EXTRACT", KEYWORD_FUNCTION),
};
static const struct keyword keywords_k[] = {
	K("KEY", 0),
	K("KEYS", 0),
	K("KILL", 0),
};
static const struct keyword keywords_l[] = {
	K("LIMIT", 0),
	K("LEFT", 0),
	K("LAST_INSERT_ID", KEYWORD_FUNCTION),
	K("LATERAL", 0),
	K("LEADING", 0),
	K("LEAST", KEYWORD_FUNCTION),
	K("LEAVE", 0),
	K("LIKE", KEYWORD_BEFORE_NULL),
	K("LINES", 0),
	K("LISTEN", 0),
	K("LOAD", 0),
	K("LOCAL", 0),
	K("LOCALTIME", KEYWORD_OPERAND),
	K("LOCALTIMESTAMP", KEYWORD_OPERAND),
	K("LOCK", 0),
	K("LOCKED", 0),
	K("LOGS", 0),
	K("LONGBLOB", 0),
	K("LONGTEXT", 0),
	K("LOOP", 0),
	K("LOW_PRIORITY", 0),
};
static const struct keyword keywords_m[] = {
	K("MASTER", 0), K("MATERIALIZED", 0),       K("MAX", KEYWORD_FUNCTION),
	K("MERGE", 0),  K("MIN", KEYWORD_FUNCTION), K("MOD", KEYWORD_BEFORE_NULL),
};
static const struct keyword keywords_n[] = {
	K("NULL", KEYWORD_NULL | KEYWORD_OPERAND),
	K("NOT", 0),
	K("NATURAL", 0),
	K("NEXT", 0),
	K("NO", 0),
	K("NOTIFY", 0),
	K("NOW", KEYWORD_FUNCTION),
	K("NOWAIT", 0),
	K("NULLIF", KEYWORD_FUNCTION),
	K("NUMERIC", KEYWORD_FUNCTION),
};
static const struct keyword keywords_o[] = {
	K("ON", 0),
	K("OR", KEYWORD_BEFORE_NULL),
	K("ORDER", KEYWORD_BEFORE_NULL),
	K("OF", 0),
	K("OFFSET", 0),
	K("ONLY", 0),
	K("OPEN", 0),
	K("OPTIMIZE", 0),
	K("OPTION", 0),
	K("OUTER", 0),
	K("OVER", 0),
};
static const struct keyword keywords_p[] = {
	K("PARTITION", 0), K("PASSWORD", KEYWORD_PASSWORD),
	K("PREPARE", 0),   K("PRIMARY", 0),
	K("PROCEDURE", 0), K("PURGE", 0),
};
static const struct keyword keywords_q[] = {
	K("QUICK", 0),
};
static const struct keyword keywords_r[] = {
	K("RAND", KEYWORD_FUNCTION),
	K("READ", 0),
	K("REASSIGN", 0),
	K("RECURSIVE", 0),
	K("REFERENCES", 0),
	K("REFRESH", 0),
	K("REGEXP", KEYWORD_BEFORE_NULL),
	K("REINDEX", 0),
	K("RELEASE", 0),
	K("RENAME", 0),
	K("REPAIR", 0),
	K("REPEATABLE", 0),
	K("REPLACE", 0),
	K("REQUIRE", 0),
	K("RESET", 0),
	K("RESTRICT", 0),
	K("RETURN", KEYWORD_BEFORE_NULL),
	K("RETURNING", 0),
	K("REVOKE", 0),
	K("RIGHT", 0),
	K("RLIKE", KEYWORD_BEFORE_NULL),
	K("ROLE", 0),
	K("ROLLBACK", 0),
	K("ROW", 0),
	K("ROWS", 0),
};
static const struct keyword keywords_s[] = {
	K("SELECT", KEYWORD_BEFORE_NULL),
	K("SET", 0),
	K("SAVEPOINT", 0),
	K("SCHEMA", 0),
	K("SECURITY", 0),
	K("SEQUENCE", 0),
	K("SERIALIZABLE", 0),
	K("SESSION", 0),
	K("SHARE", 0),
	K("SHOW", 0),
	K("SIGNAL", 0),
	K("SIGNED", 0),
	K("SKIP", 0),
	K("SLAVE", 0),
	K("SMALLINT", KEYWORD_FUNCTION),
	K("SONAME", 0),
	K("START", 0),
	K("STOP", 0),
	K("STRAIGHT_JOIN", 0),
	K("SUBSTRING", KEYWORD_FUNCTION),
	K("SUM", KEYWORD_FUNCTION),
	K("SYSDATE", KEYWORD_FUNCTION),
};
static const struct keyword keywords_t[] = {
	K("TABLE", 0),
	K("TABLES", 0),
	K("TABLESPACE", 0),
	K("TEMPORARY", 0),
	K("THEN", KEYWORD_BEFORE_NULL),
	K("TIME", KEYWORD_TEMPORAL | KEYWORD_FUNCTION),
	K("TIMESTAMP", KEYWORD_TEMPORAL | KEYWORD_FUNCTION),
	K("TINYINT", KEYWORD_FUNCTION),
	K("TO", 0),
	K("TRAILING", 0),
	K("TRANSACTION", 0),
	K("TRIGGER", 0),
	K("TRIM", KEYWORD_FUNCTION),
	K("TRUE", KEYWORD_OPERAND),
	K("TRUNCATE", 0),
};
static const struct keyword keywords_u[] = {
	K("UPDATE", 0),
	K("USING", KEYWORD_SECRET_AFTER_IDENTIFIED),
	K("UNCOMMITTED", 0),
	K("UNINSTALL", 0),
	K("UNION", 0),
	K("UNIQUE", 0),
	K("UNKNOWN", KEYWORD_OPERAND),
	K("UNLOCK", 0),
	K("UNSIGNED", 0),
	K("UNTIL", 0),
	K("USE", 0),
	K("USER", 0),
	K("UTC_TIMESTAMP", KEYWORD_OPERAND),
};
static const struct keyword keywords_v[] = {
	K("VALUES", KEYWORD_ROWS),
	K("VALUE", KEYWORD_ROWS),
	K("VACUUM", 0),
	K("VARBINARY", KEYWORD_FUNCTION),
	K("VARCHAR", KEYWORD_FUNCTION),
	K("VARIABLES", 0),
	K("VERBOSE", 0),
	K("VIEW", 0),
};
static const struct keyword keywords_w[] = {
	K("WHERE", 0), K("WHEN", KEYWORD_BEFORE_NULL),
	K("WHILE", 0), K("WINDOW", 0),
	K("WITH", 0),  K("WORK", 0),
	K("WRITE", 0),
};
static const struct keyword keywords_x[] = {
	K("XA", 0),
	K("XOR", KEYWORD_BEFORE_NULL),
};
static const struct keyword keywords_z[] = {
	K("ZEROFILL", 0),
};

/* Indexed by first letter: A to Z. */
static const struct keyword_bucket keyword_buckets[26] = {
	BUCKET(keywords_a), BUCKET(keywords_b), BUCKET(keywords_c), BUCKET(keywords_d), BUCKET(keywords_e),
	BUCKET(keywords_f), BUCKET(keywords_g), BUCKET(keywords_h), BUCKET(keywords_i), BUCKET(keywords_j),
	BUCKET(keywords_k), BUCKET(keywords_l), BUCKET(keywords_m), BUCKET(keywords_n), BUCKET(keywords_o),
	BUCKET(keywords_p), BUCKET(keywords_q), BUCKET(keywords_r), BUCKET(keywords_s), BUCKET(keywords_t),
	BUCKET(keywords_u), BUCKET(keywords_v), BUCKET(keywords_w), BUCKET(keywords_x), {NULL, 0}, /* Y */
	BUCKET(keywords_z),
};

#undef K
#undef BUCKET

#endif
