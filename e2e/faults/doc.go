// Package faults runs real servers under faults and checks their guarantees. Every acknowledged
// write is kept, and all reads and compare-and-set operations are linearizable.
//
//	Network (one bridge)          Cluster (one process a server)
//	   ├─ host 10.77.0.1  ────────  server s1 ◀── clients ──▶ History ──▶ Check
//	   ├─ host 10.77.0.2  ────────  server s2 ◀── (Workload)
//	   └─ host 10.77.0.3  ────────  server s3 ◀── Nemesis: kill, stop, cut, …
//
// A cluster may have clients too, and Schedules: jobs that are drained, updated with canaries and
// launched by cron while leaders change. A Recorder follows the event streams of all servers. The
// rules of drains, canaries, reverts and launches are checked on that Timeline.
//
// Random histories of a cluster use Machines: clients whose tasks are processes. Users, operators and failures act in
// random order. At rest, a model compares what the servers and machines have with what the documentation says.
//
// Each server is a process with its own disk and network namespace. All of them are in one control
// group with limits on memory and processes. The namespaces have no name and no route to the
// outside. They exist as long as the threads and processes in them, so that nothing remains even if
// the test is killed. No interface of the machine is used.
//
// `make test-faults` runs it as root. FAULTS is the duration of the faults (default 5m),
// FAULTS_SEED selects their order, and FAULTS_KEEP is the directory for the histories of failures.
// HISTORY_SEED selects one random history, or with + at its end the first of several.
package faults
