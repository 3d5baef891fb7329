package consensus

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/hashicorp/raft"
)

// Config says where and how a server keeps its log.
type Config struct {
	// FSM applies committed entries, those that were committed together at once.
	FSM raft.BatchingFSM
	// Dir is the server's directory, <data_dir>/server. Empty: everything is in
	// memory and nothing is synced.
	Dir string
	// ID is the server's UUID. Empty: the one found in Dir, or a new one.
	ID string
	// Address is where other servers reach this one.
	Address string
	// Transport carries Raft messages, over Streams when it is nil. Without both
	// the server has no peers.
	Transport raft.Transport
	Streams   *Streams
	// Locate finds the address of a server by its ID, "" when it is not known; nil
	// takes the addresses of the log.
	Locate func(id string) string
	// Scratch makes an FSM to be thrown away, which raft/peers.json needs.
	Scratch func() raft.FSM
	// Bootstrap makes this server, when its log is empty, the only voter of a new
	// cluster.
	Bootstrap bool
	// OnlyOurs returns an error while the region may have servers of other builds: commands that
	// only this project knows are refused with it. Nil refuses none. A server that joins after
	// the question skips the entry by its flag.
	OnlyOurs func() error
	// Backend is how the log is kept on disk.
	Backend Backend
	// NoLogCache reads every entry from the disk again instead of from memory.
	NoLogCache bool
	// SegmentSize is how many bytes of the disk the log takes at a time. Default 64 MiB.
	SegmentSize int
	Tuning      Tuning
	Log         *slog.Logger
}

// Tuning are the settings that may change while a server runs. Zero is the default.
type Tuning struct {
	// Multiplier stretches every Raft timer, 1 to 10. Default 1.
	Multiplier int
	// SnapshotThreshold is how many entries make a snapshot worth while. Default 8192.
	SnapshotThreshold uint64
	// SnapshotInterval is how often that is looked at. Default 120 s.
	SnapshotInterval time.Duration
	// TrailingLogs is how many entries stay after a snapshot. Default 10240.
	TrailingLogs uint64
}

// enqueueTimeout bounds how long a command waits for its turn in the log.
const enqueueTimeout = 30 * time.Second

// raftConfig returns the settings of compat/raft-fsm.md section 4.
func raftConfig(c Config, id string) (*raft.Config, error) {
	m := time.Duration(max(c.Tuning.Multiplier, 1))
	if m > 10 {
		return nil, fmt.Errorf("raft_multiplier %d is above 10", m)
	}
	rc := raft.DefaultConfig()
	rc.LocalID = raft.ServerID(id)
	tuned := c.Tuning.settings()
	rc.HeartbeatTimeout, rc.ElectionTimeout = tuned.HeartbeatTimeout, tuned.ElectionTimeout
	rc.SnapshotThreshold, rc.SnapshotInterval, rc.TrailingLogs = tuned.SnapshotThreshold, tuned.SnapshotInterval, tuned.TrailingLogs
	rc.LeaderLeaseTimeout = m * 500 * time.Millisecond
	rc.CommitTimeout = m * 50 * time.Millisecond
	rc.ShutdownOnRemove = false
	rc.BatchApplyCh = true // while entries are written to the disk those of the next write gather
	rc.NoLegacyTelemetry = true
	rc.Logger = raftLogger(c.Log)
	return rc, nil
}

// settings are Raft's own, with the defaults filled in.
func (t Tuning) settings() raft.ReloadableConfig {
	m := time.Duration(max(t.Multiplier, 1))
	rc := raft.ReloadableConfig{HeartbeatTimeout: m * time.Second, ElectionTimeout: m * time.Second,
		SnapshotThreshold: 8192, SnapshotInterval: 120 * time.Second, TrailingLogs: 10240}
	if t.SnapshotThreshold != 0 {
		rc.SnapshotThreshold = t.SnapshotThreshold
	}
	if t.SnapshotInterval != 0 {
		rc.SnapshotInterval = t.SnapshotInterval
	}
	if t.TrailingLogs != 0 {
		rc.TrailingLogs = t.TrailingLogs
	}
	return rc
}
