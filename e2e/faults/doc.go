// Package faults runs real servers under faults and holds what they promise
// against what they did: every acknowledged write is kept, and every read and
// compare-and-set fits one order of events (linearizability).
//
//	Network (one bridge)          Cluster (one process a server)
//	   ├─ host 10.77.0.1  ────────  server s1 ◀── clients ──▶ History ──▶ Check
//	   ├─ host 10.77.0.2  ────────  server s2 ◀── (Workload)
//	   └─ host 10.77.0.3  ────────  server s3 ◀── Nemesis: kill, stop, cut, …
//
// Each server is a process with a disk and a network namespace of its own; all of
// them are below one group with bounded memory and processes. The namespaces have
// no name and no way out: they exist as long as the threads and processes in them,
// so nothing is left behind even when the test itself is killed. No interface of
// the machine is touched.
//
// `make test-faults` runs it as root. FAULTS is how long the nemesis works
// (default 5m), FAULTS_SEED chooses its order, FAULTS_KEEP the directory in which
// the histories of failures are kept.
package faults
