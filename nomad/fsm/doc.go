// Package fsm applies Raft log entries to state, and writes and restores snapshots. It is the
// only writer of nomad/state.
//
// The table of commands (commands.go) has every message number of Nomad 2.0. A command is
// applied, or ignored because it is obsolete.
//
// A snapshot stream is one msgpack header (an empty map), and then one type byte and one
// msgpack value per record of state.Tables. The stream contains no length and no checksum;
// hashicorp/raft stores those in another file.
//
// An entry that this version cannot apply must not be skipped, or the servers' states would
// diverge. Only an entry with the ignore flag (bit 0x80) is skipped. A failed FSM refuses all
// further entries and writes no snapshot, so the server fails at the same index after a
// restart.
//
//	applying ──unknown number, undecodable body, unreadable snapshot──▶ failed
//
// Entries that were committed together are applied in one transaction (ApplyBatch). The result
// is the same as applying them one by one.
//
// The package starts no goroutine: raft calls Apply, ApplyBatch, Snapshot and Restore.
package fsm
