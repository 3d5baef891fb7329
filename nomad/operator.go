package nomad

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

// SnapshotHeader is the first record of a snapshot of the FSM.
type SnapshotHeader struct {
}
