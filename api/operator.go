package api

// SchedulerAlgorithm is the algorithm that ranks nodes.
type SchedulerAlgorithm string

// Algorithms of the scheduler.
const (
	SchedulerAlgorithmBinpack SchedulerAlgorithm = "binpack"
	SchedulerAlgorithmSpread  SchedulerAlgorithm = "spread"
)

// SchedulerConfiguration is the configuration of the scheduler that can change at run time.
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

// SchedulerConfigurationResponse is the response of GET /v1/operator/scheduler/configuration.
type SchedulerConfigurationResponse struct {
	SchedulerConfig *SchedulerConfiguration
	QueryMeta
}

// SchedulerSetConfigurationResponse reports whether the configuration was stored. It is not
// stored if a check index does not match.
type SchedulerSetConfigurationResponse struct {
	Updated bool
	WriteMeta
}

// PreemptionConfig enables preemption for each scheduler.
type PreemptionConfig struct {
	SystemSchedulerEnabled   bool
	SysBatchSchedulerEnabled bool
	BatchSchedulerEnabled    bool
	ServiceSchedulerEnabled  bool
}

// RaftConfiguration lists the Raft peers of a region.
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
