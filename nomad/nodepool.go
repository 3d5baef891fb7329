package nomad

import (
	"encoding/json"
	"fmt"
	"time"
)

// The built-in node pools.
const (
	NodePoolAll                = "all"
	NodePoolAllDescription     = "Node pool with all nodes in the cluster."
	NodePoolDefault            = "default"
	NodePoolDefaultDescription = "Default node pool."
)

// DefaultNodePoolNodeIdentityTTL is the lifetime of a node identity if the node pool does not set one.
const DefaultNodePoolNodeIdentityTTL = 24 * time.Hour

// NodePool is a named set of nodes that jobs can select. NodeIdentityTTL is the lifetime of the identities of its
// nodes.
type NodePool struct {
	Name                   string
	Description            string
	Meta                   map[string]string
	SchedulerConfiguration *NodePoolSchedulerConfiguration
	NodeIdentityTTL        time.Duration
	Hash                   []byte
	CreateIndex            uint64
	ModifyIndex            uint64
}

// UnmarshalJSON accepts the TTL as a duration string such as "24h" or as a number of nanoseconds.
func (p *NodePool) UnmarshalJSON(b []byte) error {
	type plain NodePool
	in := &struct {
		NodeIdentityTTL json.RawMessage
		*plain
	}{plain: (*plain)(p)}
	if err := json.Unmarshal(b, in); err != nil {
		return err
	}
	var text string
	switch raw := in.NodeIdentityTTL; {
	case len(raw) == 0 || json.Unmarshal(raw, &text) == nil && text == "":
		return nil
	case text == "":
		return json.Unmarshal(raw, &p.NodeIdentityTTL)
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("NodeIdentityTTL: %w", err)
	}
	p.NodeIdentityTTL = d
	return nil
}

// NodePoolSchedulerConfiguration overrides scheduler settings for a pool. A nil field keeps the setting of the region.
type NodePoolSchedulerConfiguration struct {
	SchedulerAlgorithm            SchedulerAlgorithm
	MemoryOversubscriptionEnabled *bool
}

// MemoryOversubscription reports whether memory_max is in effect on the nodes of a pool, given the configuration of
// the region. Both may be nil.
func (p *NodePool) MemoryOversubscription(region *SchedulerConfiguration) bool {
	if p != nil && p.SchedulerConfiguration != nil && p.SchedulerConfiguration.MemoryOversubscriptionEnabled != nil {
		return *p.SchedulerConfiguration.MemoryOversubscriptionEnabled
	}
	return region != nil && region.MemoryOversubscriptionEnabled
}
