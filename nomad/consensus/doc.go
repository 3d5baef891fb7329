// Package consensus runs hashicorp/raft with its data on disk or in memory. Its operations are
// those that a server needs: apply a command, follow leadership, wait for a barrier.
//
// Files in the server's directory (directories have mode 0700, files 0600):
//
//	node-id                 the server's UUID; an error if it is missing and a log exists
//	raft/version            "3", the Raft protocol; a larger number means a newer server
//	raft/wal/               the log and the vote: raft-wal segments and their index
//	raft/snapshots/         the last two snapshots
//	raft/peers.json         the servers of the cluster, written by an operator: read at the start, then removed
//	raft/peers.info         explains peers.json
//	raft/raft.db            the log and the vote with the log store boltdb, instead of raft/wal
//
// A directory with a log of the other store is refused, never replaced. Migrate converts the
// log. An Offline reads the directory of a stopped server and changes nothing.
//
// A server survives a full or failing disk (logstore). A leader that cannot write its log
// steps down. A follower accepts no entries. Both continue when the disk works again. The
// space of the log's index is reserved in advance, because raft panics if it cannot write its
// term. A failed snapshot leaves no files behind. A server starts only from the newest snapshot.
//
// The directory is locked (flock on the directory itself) while a server uses it. An error
// names damaged files, which are left unchanged.
//
//	opened ──single voter: immediate election──▶ leader ──Close──▶ closed
//	   ├──several voters: timers──▶ follower ◀──▶ leader ───────────▲
//	   └──no log: waits for Bootstrap or for a leader to add it──────▲
//
// Commands are passed to raft in groups (gather), which cost less than single commands. A
// leader sends the commit index to its followers at once (pipeline); raft alone sends it later.
// Raft writes entries to the leader's disk before it sends them.
//
// The goroutines are those of raft, one per group, and two per follower of a leader. Close ends
// them all.
package consensus
