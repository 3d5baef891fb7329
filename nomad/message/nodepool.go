package message

import "github.com/open-nomad/open-nomad/nomad"

// NodePoolDeleteRequest is the request of NodePool.DeleteNodePools.
type NodePoolDeleteRequest struct {
	Names []string
	WriteRequest
}

// NodePoolJobsRequest is the request of NodePool.ListJobs.
type NodePoolJobsRequest struct {
	Name   string
	Fields *nomad.JobStubFields
	QueryOptions
}

// NodePoolJobsResponse is the reply of NodePool.ListJobs.
type NodePoolJobsResponse struct {
	Jobs []*nomad.JobListStub
	QueryMeta
}

// NodePoolListRequest is the request of NodePool.List.
type NodePoolListRequest struct {
	QueryOptions
}

// NodePoolListResponse is the reply of NodePool.List.
type NodePoolListResponse struct {
	NodePools []*nomad.NodePool
	QueryMeta
}

// NodePoolNodesRequest is the request of NodePool.ListNodes.
type NodePoolNodesRequest struct {
	Name   string
	Fields *nomad.NodeStubFields
	QueryOptions
}

// NodePoolNodesResponse is the reply of NodePool.ListNodes.
type NodePoolNodesResponse struct {
	Nodes []*nomad.NodeListStub
	QueryMeta
}

// NodePoolSpecificRequest is the request of NodePool.GetNodePool.
type NodePoolSpecificRequest struct {
	Name string
	QueryOptions
}

// NodePoolUpsertRequest is the request of NodePool.UpsertNodePools.
type NodePoolUpsertRequest struct {
	NodePools []*nomad.NodePool
	WriteRequest
}

// SingleNodePoolResponse is the reply of NodePool.GetNodePool.
type SingleNodePoolResponse struct {
	NodePool *nomad.NodePool
	QueryMeta
}
