package consensus

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/nomad/consensus/logstore"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// Config configures the log of a server.
type Config struct {
	// FSM applies committed entries. Entries that were committed together arrive as one batch.
	FSM raft.BatchingFSM
	// Dir is the server's directory, <data_dir>/server. If it is empty, everything is kept in
	// memory and nothing is synced.
	Dir string
	// ID is the server's UUID. If it is empty, the ID in Dir or a new ID is used.
	ID string
	// Address is the address at which other servers reach this one.
	Address string
	// Transport carries Raft messages. If it is nil, Streams carries them. Without both the
	// server has no peers.
	Transport raft.Transport
	Streams   *Streams
	// Locate returns the address of the server with the ID, or "" if it is unknown. If Locate
	// is nil, the addresses in the log are used.
	Locate func(id string) string
	// NewTempFSM returns a temporary FSM, which recovery with raft/peers.json needs.
	NewTempFSM func() raft.FSM
	// Bootstrap makes this server the only voter of a new cluster if its log is empty.
	Bootstrap bool
	// CheckOwnCommands returns an error while the region may contain servers of other implementations.
	// Commands of a type that only this project implements then fail with that error. Nil allows all
	// commands. A server of another implementation that joins later skips the entries of these
	// commands, because they have the ignore flag.
	CheckOwnCommands func(t message.CommandType) error
	// Backend configures the log store.
	Backend logstore.Backend
	// NoLogCache disables the cache of recent entries.
	NoLogCache bool
	// SegmentSize is the size of a log segment in bytes. Default 64 MiB.
	SegmentSize int
	Tuning      Tuning
	Log         *slog.Logger
}

// Tuning holds the settings that may change while a server runs. Zero means the default.
type Tuning struct {
	// Multiplier scales every Raft timer, 1 to 10. Default 1.
	Multiplier int
	// SnapshotThreshold is the minimum number of new entries for a snapshot. Default 8192.
	SnapshotThreshold uint64
	// SnapshotInterval is how often the threshold is checked. Default 120 s.
	SnapshotInterval time.Duration
	// TrailingLogs is how many entries are kept after a snapshot. Default 10240.
	TrailingLogs uint64
}

// enqueueTimeout limits how long a command waits in the queue.
const enqueueTimeout = 30 * time.Second

// raftConfig returns raft's configuration, with the settings of Nomad 2.0.
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
	rc.BatchApplyCh = true // new entries form a batch while the previous batch is written
	rc.NoLegacyTelemetry = true
	rc.Logger = raftLogger(c.Log)
	return rc, nil
}

// settings returns the settings for raft, with defaults filled in.
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
