package api

import (
	"time"
)

// The built-in node pools.
const (
	NodePoolAll     = "all"
	NodePoolDefault = "default"
)

// NodePool is a set of nodes that jobs choose by name. Identities of its nodes live for NodeIdentityTTL.
type NodePool struct {
	Name                   string
	Description            string
	Meta                   map[string]string
	NodeIdentityTTL        time.Duration
	SchedulerConfiguration *NodePoolSchedulerConfiguration
	CreateIndex            uint64
	ModifyIndex            uint64
}

// NodePoolSchedulerConfiguration overrides settings of the scheduler for a pool.
type NodePoolSchedulerConfiguration struct {
	SchedulerAlgorithm            SchedulerAlgorithm
	MemoryOversubscriptionEnabled *bool
}
