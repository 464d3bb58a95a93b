# SPDX-License-Identifier: PostgreSQL
# With a real flushlightd, which this starts: a commit shows up in flushlight.statements for the next query, and
# so do two-phase commits, commits inside DO, asynchronous ones; a daemon or a backend that is killed costs
# nobody a statement.
#
#	FLUSHLIGHTD			the program; else flushlightd of PATH, else these tests are skipped
#	FLUSHLIGHT_TIER		A: fail unless the kernel side was loaded. Without CAP_BPF and CAP_PERFMON it is not (tier
#						B), and what needs it is left out
use strict;
use warnings;

use File::Spec;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $program = $ENV{FLUSHLIGHTD}
  // (grep { -x } map { "$_/flushlightd" } File::Spec->path, '/usr/sbin')[0];
plan skip_all => 'there is no flushlightd in PATH, and FLUSHLIGHTD names none'
  unless defined $program;

my $node = PostgreSQL::Test::Cluster->new('daemon');
# A name that a socket's address has room for.
my $socket = PostgreSQL::Test::Utils::tempdir_short() . '/s';
my $daemon_log = $node->basedir . '/flushlightd.log';
my $daemon;

sub start_daemon
{
	$daemon = IPC::Run::start(
		[ $program, '--socket', $socket, '--allow-peers', 'any', '--metrics-listen', '' ],
		'<', \undef, '>>', $daemon_log, '2>&1');
	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		return if -S $socket && slurp_file($daemon_log) =~ /serves/;
		last unless $daemon->pumpable || -S $socket;
		select(undef, undef, undef, 0.1);
	}
	BAIL_OUT("flushlightd did not start:\n" . slurp_file($daemon_log));
}

sub end_daemon
{
	my ($signal) = @_;

	return unless defined $daemon;
	$daemon->signal($signal);
	$daemon->finish;
	unlink $socket if $signal eq 'KILL';
	truncate $daemon_log, 0;
	undef $daemon;
	return;
}
END { end_daemon('TERM'); }

start_daemon();
$node->init;
$node->append_conf('postgresql.conf', <<CONF);
session_preload_libraries = 'flushlight'
flushlight.socket = '$socket'
fsync = on
max_prepared_transactions = 4
restart_after_crash = on
CONF
$node->start;
$node->safe_psql('postgres',
	'CREATE EXTENSION flushlight; CREATE TABLE t (i int, s text)');

# One row of the view, as its fields are named.
sub statements
{
	my ($columns, $where) = @_;

	return $node->safe_psql('postgres',
		"SELECT $columns FROM flushlight.statements WHERE db_name = 'postgres' AND $where");
}
sub reset_statistics { return $node->safe_psql('postgres', 'SELECT flushlight.reset()'); }

my $tier = $node->safe_psql('postgres',
	"SELECT tier FROM flushlight.health WHERE component = 'postgresql'");
my $traced = $tier eq 'A';
if (defined $ENV{FLUSHLIGHT_TIER})
{
	is($tier, $ENV{FLUSHLIGHT_TIER}, 'the tier that was asked for')
	  or diag slurp_file($daemon_log);
}
else
{
	note "tier $tier";
}

# What the view shows without the kernel side is NULL.
my $roles = $traced ? 'led + followed + unsynced = commits' : 'led IS NULL';

my $session = $node->background_psql('postgres');
reset_statistics();
for my $i (1 .. 10)
{
	$session->query_safe("INSERT INTO t VALUES ($i, 'a secret')");
	is(statements('commits', "query LIKE 'INSERT INTO t VALUES %'"), $i, "commit $i is seen by the next query");
}
is( statements("calls, kind, user_name, total_commit_ms > 0, flush_ms IS NULL, $roles, query",
		"commits > 0"),
	'10|statement|' . (getpwuid($>))[0] . '|t|' . ($traced ? 'f' : 't')
	  . '|t|INSERT INTO t VALUES ($1, $2)',
	'one row, with a normalised text');
if ($traced)
{
	my $causes = join ' + ', map { "${_}_ms" }
	  qw(oncpu flush write read queue throttle cpu replication lock idle other);
	is( statements("abs(($causes) / total_commit_ms - 1) < 0.01, abs((self_ms + journal_ms + peer_ms) / total_commit_ms - 1) < 0.01",
			'commits > 0'),
		't|t', 'causes and paths add up to the commit time');
	is(statements('led + followed > 0, syncs > 0', 'commits > 0'), 't|t', 'they were synced');
}

reset_statistics();
$session->query_safe('BEGIN');
$session->query_safe("INSERT INTO t VALUES (1, 'two phases')");
$session->query_safe("PREPARE TRANSACTION 'a secret'");
is( statements('kind, commits', "query LIKE 'PREPARE TRANSACTION%'"), 'commit|1', 'PREPARE TRANSACTION is a commit');
is( statements('kind, commits, caused_commits, round(caused_commit_ms::numeric, 6) = (SELECT round(total_commit_ms::numeric, 6)
				FROM flushlight.statements WHERE query LIKE $$PREPARE TRANSACTION%$$)', "query LIKE 'INSERT%'"),
	'statement|0|1|t', '... of the statement that wrote most');
$session->query_safe("COMMIT PREPARED 'a secret'");
is( statements('kind, commits', "query LIKE 'COMMIT PREPARED%'"), 'commit|1', 'so is COMMIT PREPARED');
is(statements('sum(commits)', 'true'), '2', 'each counts once');
is(statements('count(*)', "query LIKE '%secret%'"), '0', 'their names stay in the database');

reset_statistics();
$session->query_safe(q{DO $$ BEGIN
	FOR k IN 1..3 LOOP INSERT INTO t VALUES (k, 'do'); COMMIT; END LOOP;
	INSERT INTO t VALUES (4, 'do'); ROLLBACK;
END $$});
is(statements('commits, toplevel', "kind = 'commit' AND query LIKE 'DO %'"), '3|0', 'COMMIT inside DO is a commit under it');
is(statements('calls, commits', "kind = 'statement' AND query LIKE 'DO %'"), '1|0', '... which itself made none');
is(statements('sum(commits)', 'true'), '3', 'a rollback is none');

reset_statistics();
$session->query_safe('SET synchronous_commit = off');
$session->query_safe("INSERT INTO t VALUES ($_, 'later')") for 1 .. 10;
is(statements('commits', "query LIKE 'INSERT%'"), '10', 'asynchronous commits are commits');
is(statements('led, followed, unsynced', "query LIKE 'INSERT%'"), $traced ? '0|0|10' : '||',
	$traced ? '... that nobody waited for' : '... (who waited for them is not known here)');
$session->query_safe('RESET synchronous_commit');

# A killed backend: the server restarts, the daemon stays, the statistics go on.
reset_statistics();
$session->query_safe("INSERT INTO t VALUES (1, 'before')");
my $victim = $node->background_psql('postgres', on_error_stop => 0);
my $pid = $victim->query_safe('SELECT pg_backend_pid()');
$victim->query_safe("INSERT INTO t VALUES (1, 'the last one')");
kill 'KILL', $pid;
$node->poll_query_until('postgres',
	"SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $pid)");
eval { $_->quit } for $victim, $session;
$session = $node->background_psql('postgres');
$session->query_safe("INSERT INTO t VALUES (1, 'after')");
is(statements('commits', "query LIKE 'INSERT%'"), '3', 'after a crash commits are counted on');
is( $node->safe_psql('postgres',
		"SELECT count(*), max(lost) FROM flushlight.health WHERE component = 'postgresql'"),
	'1|0', '... for the same server, and none was lost');

# A killed daemon: statements go on, the views say it, and the next one is found.
end_daemon('KILL');
my ($out, $err);
$node->psql('postgres', "INSERT INTO t VALUES (1, 'meanwhile'); SELECT * FROM flushlight.statements",
	stdout => \$out, stderr => \$err);
is($out, '', 'no rows without a daemon');
is(scalar(() = $err =~ /WARNING: /g), 1, '... and one warning') or diag $err;
start_daemon();
my $commits = 0;
for (1 .. 100)
{
	$session->query_safe("INSERT INTO t VALUES (1, 'back')");
	last if $commits = statements('sum(commits)', "query LIKE 'INSERT%'");
	select(undef, undef, undef, 0.1);
}
cmp_ok($commits, '>', 0, 'an open session finds the next daemon');

$session->quit;
$node->stop;
end_daemon('TERM');
done_testing();
