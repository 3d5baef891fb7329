package message

import "github.com/open-nomad/open-nomad/nomad"

// AutopilotSetConfigRequest is the request of Operator.AutopilotSetConfiguration. With CAS, the configuration
// is stored only if its current index equals Config.ModifyIndex.
type AutopilotSetConfigRequest struct {
	Datacenter string
	Config     nomad.AutopilotConfig
	CAS        bool
	WriteRequest
}

// OperatorHealthReply is the reply of Operator.ServerHealth: the health of the servers of a region.
// FailureTolerance is the number of voters that may fail before the region loses its leader.
// ReadReplicas are the servers that never vote.
type OperatorHealthReply struct {
	Healthy                    bool
	FailureTolerance           int
	Servers                    []nomad.ServerHealth
	Leader                     string
	Voters                     []string
	ReadReplicas               []string
	OptimisticFailureTolerance int
	// Warnings lists settings that an operator should change (open-nomad only).
	Warnings []string `codec:",omitempty"`
	// Unserved describes the stored features that this version does not support (open-nomad only).
	Unserved []string `codec:",omitempty"`
}
