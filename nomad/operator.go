package nomad

import "net"

// ClusterMetadata contains the ID of the region's cluster. It is created once, when the region first has a leader.
// CreateTime is in Unix nanoseconds.
type ClusterMetadata struct {
	ClusterID  string
	CreateTime int64
}

// IndexEntry is the index of the last change of one table. Snapshots contain these entries.
type IndexEntry struct {
	Key   string
	Value uint64
}

// RaftStats is the reply of Status.RaftStats.
type RaftStats struct {
	LastContact string
	LastTerm    uint64
	LastIndex   uint64
	// StateIndex is the index of the last entry that changed state (open-nomad only).
	StateIndex uint64
}

// SchedulerAlgorithm is the node ranking algorithm of the scheduler. Binpack fills nodes, spread distributes
// allocations evenly.
type SchedulerAlgorithm string

// SchedulerConfiguration holds the scheduler settings that operators can change at run time.
type SchedulerConfiguration struct {
	SchedulerAlgorithm            SchedulerAlgorithm
	PreemptionConfig              PreemptionConfig
	MemoryOversubscriptionEnabled bool
	RejectJobRegistration         bool
	PauseEvalBroker               bool
	NodeLimitForFeasibilityChecks uint
	CreateIndex                   uint64
	ModifyIndex                   uint64
}

// ServerMember is a server as seen by gossip. Status is alive, leaving, left or failed.
type ServerMember struct {
	Name        string
	Addr        net.IP
	Port        uint16
	Tags        map[string]string
	Status      string
	ProtocolMin uint8
	ProtocolMax uint8
	ProtocolCur uint8
	DelegateMin uint8
	DelegateMax uint8
	DelegateCur uint8
}

// The gossip tag that identifies servers of this project. Other servers do not set it.
const (
	ProjectTag = "project"
	Project    = "open-nomad"
)

// Ours reports whether the member is a server of this project. Versions that do not set the tag are not recognized.
func (m *ServerMember) Ours() bool { return m.Tags[ProjectTag] == Project }

// SnapshotHeader is the first record of a snapshot of the FSM.
type SnapshotHeader struct {
}
