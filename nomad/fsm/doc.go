// Package fsm applies Raft log entries to state, writes snapshots and reads
// them back. It is the only writer of nomad/state.
//
// Commands (commands.go) is the table of every message number of
// compat/raft-fsm.md section 1: applied, ignored because nothing follows from
// them any more, or of a feature that is still to come, which fails by name.
//
// Snapshot stream: one msgpack header (an empty map), then until the end one type
// byte and one msgpack value for each record of state.Tables. There is no length
// and no checksum inside; hashicorp/raft keeps those beside it.
//
// An entry that nobody can apply, because its number is unknown or its body
// does not decode, must not be passed over: servers would drift apart.
//
//	applying ──unknown number, undecodable body──▶ failed (Failed is closed, every further entry is refused)
//
// Entries that were committed together are applied in one transaction of state
// (ApplyBatch); the outcome is that of one after the other.
//
// The package starts no goroutine: raft calls Apply, ApplyBatch, Snapshot and Restore from
// its own.
package fsm
