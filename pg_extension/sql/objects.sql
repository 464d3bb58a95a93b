-- What the extension brings, and who may use it.
CREATE EXTENSION flushlight;
SELECT extversion, nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE extname = 'flushlight';
SELECT relname, obj_description(oid) FROM pg_class WHERE relnamespace = 'flushlight'::regnamespace ORDER BY 1;
-- every column has a comment and one of four types
SELECT count(*) > 100 AS many, count(*) FILTER (WHERE col_description(attrelid, attnum) IS NULL) AS without_comment
FROM pg_attribute WHERE attrelid IN (SELECT oid FROM pg_class WHERE relnamespace = 'flushlight'::regnamespace) AND attnum > 0;
SELECT DISTINCT format_type(atttypid, -1) FROM pg_attribute
WHERE attrelid IN (SELECT oid FROM pg_class WHERE relnamespace = 'flushlight'::regnamespace) AND attnum > 0 ORDER BY 1;
-- no name is a reserved word
SELECT attname FROM pg_attribute JOIN pg_get_keywords() ON word = attname
WHERE attrelid IN (SELECT oid FROM pg_class WHERE relnamespace = 'flushlight'::regnamespace) AND attnum > 0 AND catcode = 'R';
CREATE ROLE regress_flushlight_nobody;
SELECT has_schema_privilege('regress_flushlight_nobody', 'flushlight', 'USAGE') AS schema,
       bool_and(has_table_privilege('regress_flushlight_nobody', oid, 'SELECT')) AS views,
       has_function_privilege('regress_flushlight_nobody', 'flushlight.reset(oid, oid, bigint, boolean)', 'EXECUTE') AS reset
FROM pg_class WHERE relnamespace = 'flushlight'::regnamespace;
SET ROLE regress_flushlight_nobody;
SELECT flushlight.reset();
SELECT count(*) FROM flushlight.statements WHERE false;
RESET ROLE;
DROP ROLE regress_flushlight_nobody;
