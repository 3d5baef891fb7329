package consensus

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/hashicorp/raft"
)

// Config says where and how a server keeps its log.
type Config struct {
	// FSM applies committed entries.
	FSM raft.FSM
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
	// Multiplier stretches every Raft timer, 1 to 10; zero is 1.
	Multiplier int
	Log        *slog.Logger
}

// enqueueTimeout bounds how long a command waits for its turn in the log.
const enqueueTimeout = 30 * time.Second

// raftConfig returns the settings of compat/raft-fsm.md section 4.
func raftConfig(c Config, id string) (*raft.Config, error) {
	m := time.Duration(max(c.Multiplier, 1))
	if m > 10 {
		return nil, fmt.Errorf("raft_multiplier %d is above 10", m)
	}
	rc := raft.DefaultConfig()
	rc.LocalID = raft.ServerID(id)
	rc.HeartbeatTimeout = m * time.Second
	rc.ElectionTimeout = m * time.Second
	rc.LeaderLeaseTimeout = m * 500 * time.Millisecond
	rc.CommitTimeout = m * 50 * time.Millisecond
	rc.ShutdownOnRemove = false
	rc.NoLegacyTelemetry = true
	rc.Logger = raftLogger(c.Log)
	return rc, nil
}
