package nomad

import "net"

// ClusterMetadata is made once, when a region first gets a leader: the ID of the
// region's cluster. CreateTime is in Unix nanoseconds.
type ClusterMetadata struct {
	ClusterID  string
	CreateTime int64
}

// IndexEntry is the index of the last change of one table, in a snapshot.
type IndexEntry struct {
	Key   string
	Value uint64
}

// KeyringResponse is what the servers said about the keys of gossip: how many have
// each key, how many encrypt with it, and what some of them had to say.
type KeyringResponse struct {
	Messages    map[string]string
	Keys        map[string]int
	PrimaryKeys map[string]int `codec:",omitempty"`
	NumNodes    int
}

// RaftStats is the reply of Status.RaftStats.
type RaftStats struct {
	LastContact string
	LastTerm    uint64
	LastIndex   uint64
	// StateIndex is that of the last entry that changed state (open-nomad only).
	StateIndex uint64
}

// SchedulerAlgorithm is how the scheduler ranks nodes: binpack fills them, spread
// evens them out.
type SchedulerAlgorithm string

// SchedulerConfiguration holds the settings of the scheduler that operators change
// at run time.
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

// SchedulerConfigurationResponse is the reply of Operator.SchedulerGetConfiguration.
type SchedulerConfigurationResponse struct {
	SchedulerConfig *SchedulerConfiguration
	QueryMeta
}

// SchedulerSetConfigRequest is the request of Operator.SchedulerSetConfiguration.
type SchedulerSetConfigRequest struct {
	Config SchedulerConfiguration
	CAS    bool
	WriteRequest
}

// SchedulerSetConfigurationResponse is the reply of Operator.SchedulerSetConfiguration.
type SchedulerSetConfigurationResponse struct {
	Updated bool
	WriteMeta
}

// ServerMember is a server as gossip sees it. Status is alive, leaving, left or
// failed.
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

// The tag by which servers of this project know each other; others leave it out.
const (
	ProjectTag = "project"
	Project    = "open-nomad"
)

// Ours reports whether the member is a server of this project, of a version that says so.
func (m *ServerMember) Ours() bool { return m.Tags[ProjectTag] == Project }

// ServerMembersResponse is the reply of Status.Members.
type ServerMembersResponse struct {
	ServerName   string
	ServerRegion string
	ServerDC     string
	Members      []*ServerMember
}

// SnapshotHeader begins every snapshot of the FSM.
type SnapshotHeader struct {
}

// SnapshotSaveRequest asks for an archive of the whole state.
type SnapshotSaveRequest struct {
	QueryOptions
}

// SnapshotSaveResponse comes before the bytes of the archive, or instead of them
// when ErrorMsg is set.
type SnapshotSaveResponse struct {
	SnapshotChecksum string
	ErrorCode        int    `codec:",omitempty"`
	ErrorMsg         string `codec:",omitempty"`
	QueryMeta
}

// SnapshotRestoreRequest replaces the whole state by the archive that follows it.
type SnapshotRestoreRequest struct {
	WriteRequest
}

// SnapshotRestoreResponse says how that went.
type SnapshotRestoreResponse struct {
	ErrorCode int    `codec:",omitempty"`
	ErrorMsg  string `codec:",omitempty"`
	QueryMeta
}
