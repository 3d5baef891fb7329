// Package state holds the replicated state of the servers in memory: nodes, jobs, evaluations,
// allocations, deployments, root keys and so on. The tables have the names of Nomad 2.0.
//
// Only nomad/fsm writes. Store has one method for each Raft command. Each log entry is one
// transaction, or several committed entries share one (Store.WriteBatch). A write reads no clock
// and draws no random number, so that every server ends with the same rows. Times, IDs and random
// values arrive in the command. A write returns Changes, which lists what it created, updated and
// deleted.
//
// Reads go through a Snapshot: an immutable view that is cheap to take and safe for concurrent
// use. Callers share the returned rows and must not modify them. To change a row, copy it, edit
// the copy and submit a command. A memdb.WatchSet that is passed to a read fires when the result
// may have changed. Store.Abandoned wakes callers that wait on a store after a restore has
// replaced it.
//
// Each kind of row is a table.Table with declared indexes. Package nomad/state/table holds the
// rows and runs the transactions. This package has the rules. It is one package, although it is large,
// because most commands change rows of several kinds in one transaction: a plan changes allocations,
// deployments, volumes, summaries of jobs and usage of quotas. With a package for each kind, all of
// them would export their tables and the transaction to each other.
//
// These statuses are computed here from other rows:
//
//	job         pending ──allocation lives──▶ running ──all ended──▶ dead
//	               └──all evaluations and allocations ended──────────▲
//	deployment  running ──status update──▶ successful | failed | cancelled
//	CSI plugin  what its jobs expect, and what nodes report about its allocations
//	root key    prepublished ──upsert active──▶ active ──another active──▶ inactive | rekeying
//
// The package starts no goroutine and does no disk I/O.
package state
