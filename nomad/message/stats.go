package message

import "github.com/open-nomad/open-nomad/nomad"

// AllocStatsRequest is the request of ClientAllocations.Stats and Allocations.Stats.
type AllocStatsRequest struct {
	AllocID string
	Task    string
	QueryOptions
}

// AllocStatsResponse is the reply of ClientAllocations.Stats and Allocations.Stats.
type AllocStatsResponse struct {
	Stats *nomad.AllocResourceUsage
	QueryMeta
}

// ClientStatsResponse is the reply of ClientStats.Stats.
type ClientStatsResponse struct {
	HostStats *nomad.HostStats
	QueryMeta
}
