package message

import "github.com/open-nomad/open-nomad/nomad"

// KeyringResponse combines the servers' replies about gossip keys. It counts the servers that have each key and the
// servers that encrypt with it. Messages holds the messages of single servers.
type KeyringResponse struct {
	Messages    map[string]string
	Keys        map[string]int
	PrimaryKeys map[string]int `codec:",omitempty"`
	NumNodes    int
}

// SchedulerConfigurationResponse is the reply of Operator.SchedulerGetConfiguration.
type SchedulerConfigurationResponse struct {
	SchedulerConfig *nomad.SchedulerConfiguration
	QueryMeta
}

// SchedulerSetConfigRequest is the request of Operator.SchedulerSetConfiguration.
type SchedulerSetConfigRequest struct {
	Config nomad.SchedulerConfiguration
	CAS    bool
	WriteRequest
}

// SchedulerSetConfigurationResponse is the reply of Operator.SchedulerSetConfiguration.
type SchedulerSetConfigurationResponse struct {
	Updated bool
	WriteMeta
}

// ServerMembersResponse is the reply of Status.Members.
type ServerMembersResponse struct {
	ServerName   string
	ServerRegion string
	ServerDC     string
	Members      []*ServerMember
}

// SnapshotSaveRequest requests an archive of the complete state.
type SnapshotSaveRequest struct {
	QueryOptions
}

// SnapshotSaveResponse precedes the bytes of the archive. If ErrorMsg is set, no archive follows.
type SnapshotSaveResponse struct {
	SnapshotChecksum string
	ErrorCode        int    `codec:",omitempty"`
	ErrorMsg         string `codec:",omitempty"`
	QueryMeta
}

// SnapshotRestoreRequest replaces the complete state with the archive that follows it.
type SnapshotRestoreRequest struct {
	WriteRequest
}

// SnapshotRestoreResponse is the result of a restore.
type SnapshotRestoreResponse struct {
	ErrorCode int    `codec:",omitempty"`
	ErrorMsg  string `codec:",omitempty"`
	QueryMeta
}

// RaftStats is the reply of Status.RaftStats.
type RaftStats struct {
	LastContact string
	LastTerm    uint64
	LastIndex   uint64
	// StateIndex is the index of the last entry that changed state (open-nomad only).
	StateIndex uint64
}
