# SPDX-License-Identifier: PostgreSQL
# A standby made by base backup carries the setting: its sessions load the library, its views answer, and after
# a promotion it writes.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $loaded = "SELECT count(*) FROM pg_settings WHERE name = 'flushlight.track'";

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1);
$primary->start;
# as README tells administrators to: the setting lies in postgresql.auto.conf, which a base backup copies
$primary->safe_psql('postgres', $_)
  for 'CREATE EXTENSION flushlight',
  'CREATE TABLE t (i int)',
  "ALTER SYSTEM SET session_preload_libraries = 'flushlight'",
  "SELECT pg_reload_conf()";
$primary->poll_query_until('postgres', $loaded, '1');
$primary->safe_psql('postgres',
	"ALTER SYSTEM SET flushlight.socket = '" . $primary->basedir . "/nobody.sock'");

$primary->backup('copy');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'copy', has_streaming => 1);
$standby->start;
$primary->safe_psql('postgres', 'INSERT INTO t VALUES (1)');
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));

is($standby->safe_psql('postgres', 'SELECT pg_is_in_recovery()'), 't', 'it is a standby');
is($standby->safe_psql('postgres', $loaded), '1', 'its sessions load the library');
is($standby->safe_psql('postgres', 'SELECT count(*) FROM t'), '1', 'it answers');
my ($out, $err);
is( $standby->psql('postgres', 'SELECT * FROM flushlight.statements',
		stdout => \$out, stderr => \$err),
	0, 'its views can be asked');
is($out, '', '... no rows without a daemon');
is(scalar(() = $err =~ /WARNING: /g), 1, '... and one warning') or diag $err;

$standby->promote;
is($standby->safe_psql('postgres', 'INSERT INTO t VALUES (2) RETURNING i'), '2', 'promoted, it writes');
is($standby->safe_psql('postgres', $loaded), '1', '... with the library');

$standby->stop;
$primary->stop;
done_testing();
