// Package consensus opens hashicorp/raft over the disk of a server, or over
// memory, and gives the few operations the server needs: Apply a command, hear
// of leadership, wait for a barrier.
//
// On disk, below the server's directory (compat/raft-fsm.md section 4; every
// directory 0700, every file 0600):
//
//	node-id                 the server's UUID; its absence beside a log is an error
//	raft/version            "3", the Raft protocol; a larger number is of a newer server
//	raft/wal/               the log and the vote, raft-wal segments and their index
//	raft/snapshots/         the last two snapshots
//	raft/peers.json         the servers of the cluster, by an operator's hand: taken over at the start, then removed
//	raft/peers.info         says what peers.json is for
//	raft/raft.db            the log and the vote with the log store boltdb, instead of raft/wal
//
// A directory with the log of the other store is refused, never replaced: Migrate
// makes one of the other. An Offline reads the directory of a server that does not
// run, and changes nothing.
//
// A disk that is full or fails is lived through (guardedLog): a leader that cannot
// write its log steps down, a follower takes nothing, and both go on when the disk
// does. The index of the log has its space beforehand, for raft panics without its
// term. A snapshot that cannot be written leaves nothing behind. The log is scanned
// before raft-wal opens it (scan.go), which would shorten a damaged one silently; only
// the newest snapshot is started from.
//
// The directory is locked (flock on the directory itself) as long as a server
// uses it. What is found damaged is named in the error and left as it is.
//
//	opened ──single voter: an election is held at once──▶ leader ──Close──▶ closed
//	   ├──several voters: timers──▶ follower ◀──▶ leader ──────────────────▲
//	   └──no log: waits for Bootstrap or for a leader that adds it──────────▲
//
// Commands go to raft in groups (gather), which cost less than one by one. A leader sends the
// commit index to its followers at once (pipeline); raft sends it later. Raft writes entries to the
// disk of the leader before it sends them.
//
// Goroutines are those of raft, one for each group, and two for each follower of a leader;
// Close ends them all.
package consensus
