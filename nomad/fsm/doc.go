// Package fsm applies Raft log entries to state, writes snapshots and reads
// them back. It is the only writer of nomad/state.
//
// Commands (commands.go) is the table of every message number of
// compat/raft-fsm.md section 1: applied, ignored because nothing follows from
// them any more, or of a feature that this version lacks.
//
// Snapshot stream: one msgpack header (an empty map), then until the end one type
// byte and one msgpack value for each record of state.Tables. There is no length
// and no checksum inside; hashicorp/raft keeps those beside it.
//
// An entry that this version cannot apply must not be skipped: servers would drift
// apart. Only an entry with the ignore flag (bit 0x80) is skipped. A failed FSM refuses
// every further entry and writes no snapshot, so a restart fails at the same index.
//
//	applying ──unknown or unsupported number, undecodable body, unreadable snapshot──▶ failed
//
// Entries that were committed together are applied in one transaction of state
// (ApplyBatch); the outcome is that of one after the other.
//
// The package starts no goroutine: raft calls Apply, ApplyBatch, Snapshot and Restore from
// its own.
package fsm
