-- Settings, their defaults and who may change them.
SELECT name, setting, context FROM pg_settings WHERE name LIKE 'flushlight.%' AND name <> 'flushlight.socket' ORDER BY name;
SELECT boot_val, context FROM pg_settings WHERE name = 'flushlight.socket';
SET flushlight.track = 'all';
SET flushlight.track = 'some';
SET flushlight.enabled = off;
SET flushlight.enabled = on;
SET flushlight.socket = '/tmp/elsewhere';
SET flushlight.nonsense = 1;
CREATE ROLE regress_flushlight_nobody;
SET ROLE regress_flushlight_nobody;
SET flushlight.enabled = off;
SET flushlight.track = 'top';
RESET ROLE;
DROP ROLE regress_flushlight_nobody;
