// Package state holds what the servers have agreed on: nodes, jobs,
// evaluations, allocations, deployments, keys and the rest, in memory, in
// tables named as in compat/raft-fsm.md section 2.
//
// Writing is for nomad/fsm alone: one method of Store for each Raft command,
// one transaction for each log entry, or for several that were committed together
// (Together). A write reads no clock and draws no
// random number, so that every server ends with the same rows; all it needs
// comes in the command. It answers with Changes: what others want to hear.
//
// Reading goes through a Snapshot: a view that never changes, cheap to take,
// safe for many goroutines. What it hands out is shared by everybody and must
// not be written to: copy, edit, submit. A memdb.WatchSet given to a read is
// woken when its result may have changed; Abandoned wakes those who wait on a
// store that a restore has replaced.
//
// Each table is a memdb table with declared indexes (table[T]). A write is an insert, and a
// read within the transaction sees it.
//
// The statuses that are computed here, from what else is in state:
//
//	job         pending ──allocation lives──▶ running ──all ended──▶ dead
//	               └──all evaluations and allocations ended──────────▲
//	deployment  running ──status update──▶ successful | failed | cancelled
//	root key    prepublished ──upsert active──▶ active ──another active──▶ inactive | rekeying
//
// The package starts no goroutine and touches no disk.
package state
