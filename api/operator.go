package api

// SchedulerAlgorithm is how the scheduler ranks nodes.
type SchedulerAlgorithm string

// Algorithms of the scheduler.
const (
	SchedulerAlgorithmBinpack SchedulerAlgorithm = "binpack"
	SchedulerAlgorithmSpread  SchedulerAlgorithm = "spread"
)

// SchedulerConfiguration holds the settings of the scheduler that change at run time.
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

// SchedulerConfigurationResponse is the answer of GET /v1/operator/scheduler/configuration.
type SchedulerConfigurationResponse struct {
	SchedulerConfig *SchedulerConfiguration
	QueryMeta
}

// SchedulerSetConfigurationResponse tells whether the settings were stored; with a
// check index they may not be.
type SchedulerSetConfigurationResponse struct {
	Updated bool
	WriteMeta
}

// PreemptionConfig says which schedulers may stop allocations of lower priority.
type PreemptionConfig struct {
	SystemSchedulerEnabled   bool
	SysBatchSchedulerEnabled bool
	BatchSchedulerEnabled    bool
	ServiceSchedulerEnabled  bool
}

// RaftConfiguration lists the servers of a region as Raft knows them.
type RaftConfiguration struct {
	Servers []*RaftServer
	Index   uint64
}

// RaftServer is a server of a RaftConfiguration.
type RaftServer struct {
	ID           string
	Node         string
	Address      string
	Leader       bool
	Voter        bool
	RaftProtocol string
}
