# SPDX-License-Identifier: PostgreSQL
# Without a daemon: the extension is created and upgraded, each view has no rows, one warning, and an answer
# within a second; statements are none the wiser.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $node = PostgreSQL::Test::Cluster->new('absent');
$node->init;
$node->append_conf('postgresql.conf',
	"session_preload_libraries = 'flushlight'\nflushlight.socket = '"
	  . $node->basedir
	  . "/nobody.sock'\n");
$node->start;

$node->safe_psql('postgres', 'CREATE EXTENSION flushlight');
my @views = split /\n/, $node->safe_psql('postgres', q{
	SELECT relname FROM pg_class
	WHERE relnamespace = 'flushlight'::regnamespace AND relkind = 'v' ORDER BY 1});
cmp_ok(scalar @views, '>=', 8, 'the extension brings its views');

my $session = $node->background_psql('postgres', on_error_stop => 0);
for my $view (@views)
{
	$session->{stderr} = '';
	my $begin = time;
	my $rows = $session->query("SELECT * FROM flushlight.$view");
	my $seconds = time - $begin;
	my @warnings = $session->{stderr} =~ /^.*WARNING: .*$/mg;

	is($rows, '', "$view: no rows");
	is(scalar @warnings, 1, "$view: one warning") or diag $session->{stderr};
	like($warnings[0] // '', qr/cannot reach flushlightd at .*nobody\.sock/,
		"$view: it says what is missing");
	cmp_ok($seconds, '<', 1, "$view: within a second");
}
$session->{stderr} = '';
$session->query('SELECT flushlight.reset()');
like($session->{stderr}, qr/^.*ERROR: .*was not reset/m,
	'a reset that did not happen is an error');
$session->{stderr} = '';
is( $session->query(
		'CREATE TABLE t (i int); INSERT INTO t VALUES (1), (2); SELECT sum(i) FROM t'
	),
	'3',
	'statements work');
is($session->{stderr}, '', '... without a word');
$session->quit;

# What an upgrade makes is what an installation makes.
my $objects = q{
	SELECT pg_describe_object(classid, objid, 0), coalesce(obj_description(objid, classid::regclass::name), ''),
		   coalesce((SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod) || ' '
									   || coalesce(col_description(attrelid, attnum), ''), ', ' ORDER BY attnum)
					 FROM pg_attribute WHERE attrelid = objid AND classid = 'pg_class'::regclass), ''),
		   coalesce((SELECT relacl::text || pg_get_viewdef(oid) FROM pg_class WHERE oid = objid), ''),
		   coalesce((SELECT proacl::text || pg_get_functiondef(oid) FROM pg_proc WHERE oid = objid), '')
	FROM pg_depend WHERE deptype = 'e' AND refclassid = 'pg_extension'::regclass
		AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'flushlight')
	ORDER BY 1};
my $installed = $node->safe_psql('postgres', $objects);
$node->safe_psql('postgres',
	"DROP EXTENSION flushlight; CREATE EXTENSION flushlight VERSION '0.0'");
is( $node->safe_psql(
		'postgres',
		"SELECT count(*) FROM pg_class WHERE relnamespace = 'flushlight'::regnamespace"
	),
	'0',
	'0.0 has no views');
$node->safe_psql('postgres', 'ALTER EXTENSION flushlight UPDATE');
is( $node->safe_psql(
		'postgres',
		"SELECT extversion = default_version FROM pg_extension
		 JOIN pg_available_extensions ON name = extname WHERE extname = 'flushlight'"
	),
	't',
	'updated to the version of this source');
isnt($installed, '', 'the extension owns objects');
is($node->safe_psql('postgres', $objects),
	$installed, 'an upgrade makes what an installation makes');

$node->safe_psql('postgres', 'DROP EXTENSION flushlight');
is( $node->safe_psql('postgres', q{
		SELECT count(*) FROM pg_depend
		WHERE refclassid = 'pg_namespace'::regclass AND refobjid = 'flushlight'::regnamespace}),
	'0',
	'dropped: the schema is empty');

$node->stop;
done_testing();
