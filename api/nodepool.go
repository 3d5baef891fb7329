package api

import (
	"encoding/json"
	"fmt"
	"time"
)

// The built-in node pools.
const (
	NodePoolAll     = "all"
	NodePoolDefault = "default"
)

// NodePool is a named set of nodes that a job can select. NodeIdentityTTL is the TTL of the
// identities of its nodes.
type NodePool struct {
	Name                   string
	Description            string
	Meta                   map[string]string
	NodeIdentityTTL        time.Duration
	SchedulerConfiguration *NodePoolSchedulerConfiguration
	CreateIndex            uint64
	ModifyIndex            uint64
}

// NodePoolSchedulerConfiguration overrides the scheduler configuration for a node pool.
type NodePoolSchedulerConfiguration struct {
	SchedulerAlgorithm            SchedulerAlgorithm
	MemoryOversubscriptionEnabled *bool
}

// MarshalJSON encodes the TTL as a string such as "24h0m0s", or "" if it is zero.
func (n *NodePool) MarshalJSON() ([]byte, error) {
	type plain NodePool
	return json.Marshal(&struct {
		NodeIdentityTTL string
		*plain
	}{durationText(n.NodeIdentityTTL), (*plain)(n)})
}

// UnmarshalJSON decodes the TTL from a string or from nanoseconds.
func (n *NodePool) UnmarshalJSON(b []byte) error {
	type plain NodePool
	aux := &struct {
		NodeIdentityTTL any
		*plain
	}{plain: (*plain)(n)}
	if err := json.Unmarshal(b, aux); err != nil {
		return err
	}
	ttl, err := durationOf(aux.NodeIdentityTTL)
	if err != nil {
		return fmt.Errorf("NodeIdentityTTL: %w", err)
	}
	n.NodeIdentityTTL = ttl
	return nil
}
