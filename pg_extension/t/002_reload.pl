# SPDX-License-Identifier: PostgreSQL
# session_preload_libraries on and off by a reload, while sessions run: new sessions follow, open ones stay as
# they are, and nobody sees an error.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $rounds = 4;

my $node = PostgreSQL::Test::Cluster->new('reload');
$node->init;
$node->append_conf('postgresql.conf',
	"flushlight.socket = '" . $node->basedir . "/nobody.sock'\nlog_statement = none\n");
$node->start;
$node->safe_psql('postgres',
	'CREATE EXTENSION flushlight; CREATE TABLE t (i int)');

# A setting of the library's own is one that only the library defines.
my $loaded = "SELECT count(*) FROM pg_settings WHERE name = 'flushlight.track'";

sub preload
{
	my ($library) = @_;

	$node->safe_psql('postgres', $library
		? "ALTER SYSTEM SET session_preload_libraries = '$library'"
		: 'ALTER SYSTEM RESET session_preload_libraries');
	$node->reload;
	# the postmaster takes the reload over before it starts a session that asks
	$node->poll_query_until('postgres', $loaded, $library ? '1' : '0')
	  or die 'the reload was not taken over';
	return;
}

my $old = $node->background_psql('postgres');
is($old->query_safe($loaded), '0', 'not loaded without the setting');

# Sessions that come and go all the time, and some that stay.
my ($coming_out, $staying_out) = ('', '');
my $script = $node->basedir . '/load.sql';
append_to_file($script, "INSERT INTO t VALUES (1);\n");
my @pgbench = ('pgbench', '-n', '-f', $script, '-h', $node->host, '-p', $node->port);
my $coming = IPC::Run::start([ @pgbench, '-C', '-c', '2', '-t', '1000000', 'postgres' ],
	'>', \$coming_out, '2>&1', IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
my $staying = IPC::Run::start([ @pgbench, '-c', '2', '-t', '100000000', 'postgres' ],
	'>', \$staying_out, '2>&1', IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
$node->poll_query_until('postgres', 'SELECT count(*) > 10 FROM t');

my @observed;
for my $round (1 .. $rounds)
{
	preload('flushlight');
	push @observed, $node->background_psql('postgres');
	is($observed[-1]->query_safe($loaded), '1', "round $round: a new session loads it");
	is($old->query_safe($loaded), '0', "round $round: an open one does not");
	preload('');
	is($node->safe_psql('postgres', $loaded), '0', "round $round: off, a new session does not load it");
}
is($_->query_safe($loaded), '1', 'a session that loaded it keeps it') for @observed;
is($_->query_safe('INSERT INTO t VALUES (2) RETURNING i'), '2', '... and works') for @observed;

ok($staying->pumpable && $coming->pumpable, 'the load ran all the time');
# before the load is ended: that the server calls an error
is(join("\n", grep { /FATAL|PANIC|ERROR: / } split /\n/, slurp_file($node->logfile)),
	'', 'the log tells of no error');
for my $load ($coming, $staying)
{
	$load->signal('INT');
	$load->finish;
}
unlike($coming_out, qr/error|failed|lost/i, 'sessions that came and went saw none');
unlike($staying_out, qr/error|failed|lost/i, 'nor did those that stayed');

$_->quit for $old, @observed;
$node->stop;
done_testing();
