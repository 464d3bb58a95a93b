# SPDX-License-Identifier: PostgreSQL
# A backend that has the library loaded is killed: the server restarts by itself, without loss, and sessions load
# the library again. The same with the postmaster killed.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $loaded = "SELECT count(*) FROM pg_settings WHERE name = 'flushlight.track'";

my $node = PostgreSQL::Test::Cluster->new('crash');
$node->init;
$node->append_conf('postgresql.conf', <<CONF);
session_preload_libraries = 'flushlight'
flushlight.socket = '${\ $node->basedir }/nobody.sock'
restart_after_crash = on
CONF
$node->start;
$node->safe_psql('postgres',
	'CREATE EXTENSION flushlight; CREATE TABLE t (i int)');

# The victim has committed, and has a statement and a transaction open.
my $victim = $node->background_psql('postgres', on_error_stop => 0);
my $pid = $victim->query_safe('SELECT pg_backend_pid()');
is($victim->query_safe($loaded), '1', 'the victim has the library loaded');
$victim->query_safe('INSERT INTO t VALUES (1)');
$victim->query_safe('BEGIN');
$victim->query_safe('INSERT INTO t VALUES (2)');
$victim->query_until(qr/sleeps/, "\\echo sleeps\nSELECT pg_sleep(600);\n");
$node->poll_query_until('postgres',
	"SELECT wait_event = 'PgSleep' FROM pg_stat_activity WHERE pid = $pid");

my $log = -s $node->logfile;
kill 'KILL', $pid;
ok( $node->poll_query_until('postgres',
		"SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $pid)"),
	'the server answers again');
my $told = slurp_file($node->logfile, $log);
like($told, qr/\(PID $pid\) was terminated by signal 9/, 'the server saw the kill');
like($told, qr/all server processes terminated; reinitializing/, '... and restarted');
unlike($told, qr/PANIC/, '... without a panic');
is($node->safe_psql('postgres', $loaded), '1', 'new sessions load the library');
is($node->safe_psql('postgres', 'SELECT array_agg(i) FROM t'), '{1}', 'what was committed is there, and no more');
is($node->safe_psql('postgres', 'INSERT INTO t VALUES (3) RETURNING i'), '3', 'commits work');
# its psql lost the connection
$victim->{run}->pump while $victim->{run}->pumpable && $victim->{stderr} !~ /lost|terminated|closed/;
eval { $victim->quit };

$node->stop('immediate');
$node->start;
is($node->safe_psql('postgres', $loaded), '1', 'after a recovery too');
is($node->safe_psql('postgres', 'SELECT array_agg(i ORDER BY i) FROM t'), '{1,3}', '... without loss');

$node->stop;
done_testing();
