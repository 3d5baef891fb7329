package nomad

import "net"

// ClusterMetadata holds the fields of a cluster metadata.
type ClusterMetadata struct {
	ClusterID  string
	CreateTime int64
}

// IndexEntry holds the fields of an index entry.
type IndexEntry struct {
	Key   string
	Value uint64
}

// RaftStats is the reply of Status.RaftStats.
type RaftStats struct {
	LastContact string
	LastTerm    uint64
	LastIndex   uint64
}

// SchedulerAlgorithm holds the fields of a scheduler algorithm.
type SchedulerAlgorithm string

// SchedulerConfiguration holds the fields of a scheduler configuration.
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

// ServerMember holds the fields of a server member.
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

// ServerMembersResponse is the reply of Status.Members.
type ServerMembersResponse struct {
	ServerName   string
	ServerRegion string
	ServerDC     string
	Members      []*ServerMember
}

// SnapshotHeader holds the fields of a snapshot header.
type SnapshotHeader struct {
}
