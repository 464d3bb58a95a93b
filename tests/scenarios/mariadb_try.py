import argparse, sys, time
from maria_rig import *
p=argparse.ArgumentParser();p.add_argument("--engines");p.add_argument("--plugin");p.add_argument("--daemon");p.add_argument("--work");p.add_argument("--tracing",action="store_true");p.add_argument("--options",default="")
a=p.parse_args()
with private_server(a, options=a.options.split(), tracing=a.tracing) as (s,d):
    for v in "STATEMENTS STATEMENTS_RECENT STATEMENTS_INFO SLOW_COMMITS THREADS DEVICES LATENCY HEALTH".split():
        print(v, len(s.sql(f"SELECT * FROM {SCHEMA}{v}")))
    s.sql("".join(f"INSERT INTO d.t(a,b) VALUES ({i},'zq7marker');" for i in range(20)))
    time.sleep(0.5)
    print("\n".join("  ".join(r) for r in s.sql(f"SELECT kind,calls,commits,caused_commits,toplevel,user_name,db_name,ROUND(total_commit_ms,2),ROUND(p50_commit_ms,3),flush_ms,other_ms,ROUND(1-other_ms/total_commit_ms,4),led,followed,unsynced,coverage,rows_changed,query FROM {SCHEMA}STATEMENTS")))
    print("\n".join("  ".join(r) for r in s.sql(f"SELECT component,state,detail,tier,coverage,lost,unattached FROM {SCHEMA}HEALTH")))
    print(s.log_text()[-1500:])
    print(d.log.read_text()[-1500:])
