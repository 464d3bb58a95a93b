-- Without a daemon: one warning, no rows, never an error; and statements are none the wiser.
\set VERBOSITY terse
SELECT kind, queryid FROM flushlight.statements;
SELECT component FROM flushlight.health;
SELECT flushlight.reset();
CREATE TABLE absent (i int PRIMARY KEY);
BEGIN;
INSERT INTO absent VALUES (1);
SAVEPOINT a;
INSERT INTO absent VALUES (1);
ROLLBACK TO a;
COMMIT;
INSERT INTO absent VALUES (2);
SELECT * FROM absent ORDER BY i;
DROP TABLE absent;
-- misuse
SELECT flushlight.view_rows('statements');
SELECT * FROM flushlight.view_rows('statements') AS (queryid bigint) WHERE false;
