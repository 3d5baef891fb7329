package message

import (
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
)

// BatchNodeUpdateDrainRequest is the Raft entry that changes the drains of several nodes.
type BatchNodeUpdateDrainRequest struct {
	Updates    map[string]*nomad.DrainUpdate
	NodeEvents map[string]*nomad.NodeEvent
	UpdatedAt  int64
	WriteRequest
}

// EmitNodeEventsRequest is the request of Node.EmitEvents.
type EmitNodeEventsRequest struct {
	NodeEvents map[string][]*nomad.NodeEvent
	WriteRequest
}

// EmitNodeEventsResponse is the reply of Node.EmitEvents.
type EmitNodeEventsResponse struct {
	WriteMeta
}

// NodeAllocsResponse is the reply of Node.GetAllocs.
type NodeAllocsResponse struct {
	Allocs []*nomad.Allocation
	QueryMeta
}

// NodeBatchDeregisterRequest is the request of Node.BatchDeregister.
type NodeBatchDeregisterRequest struct {
	NodeIDs []string
	// PurgedAt is the time when an operator purged the nodes, in Unix seconds. It is zero if the
	// leader's garbage collection removed them. The server sets it, in the log only.
	PurgedAt int64 `codec:",omitempty"`
	WriteRequest
}

// NodeClientAllocsResponse is the reply of Node.GetClientAllocs. RestoreIndex is the index at which an operator
// restored a snapshot. After a restore, nodes report the status of their allocations again.
type NodeClientAllocsResponse struct {
	Allocs        map[string]uint64
	MigrateTokens map[string]string
	RestoreIndex  uint64 `codec:",omitempty"`
	QueryMeta
}

// NodeConnQueryResponse is the reply of Status.HasNodeConn.
type NodeConnQueryResponse struct {
	Connected   bool
	Established time.Time
	QueryMeta
}

// NodeDeregisterRequest is the request of Node.Deregister.
type NodeDeregisterRequest struct {
	NodeID string
	// PurgedAt is the time when the node was purged, in Unix seconds. The server sets it, in the
	// log only.
	PurgedAt int64 `codec:",omitempty"`
	WriteRequest
}

// NodeDrainUpdateResponse is the reply of Node.UpdateDrain.
type NodeDrainUpdateResponse struct {
	NodeModifyIndex uint64
	EvalIDs         []string
	EvalCreateIndex uint64
	WriteMeta
}

// NodeEligibilityUpdateResponse is the reply of Node.UpdateEligibility.
type NodeEligibilityUpdateResponse struct {
	NodeModifyIndex uint64
	EvalIDs         []string
	EvalCreateIndex uint64
	WriteMeta
}

// NodeEvaluateRequest is the request of Node.Evaluate.
type NodeEvaluateRequest struct {
	NodeID string
	WriteRequest
}

// NodeListRequest is the request of Node.List.
type NodeListRequest struct {
	QueryOptions
	Fields *nomad.NodeStubFields
}

// NodeListResponse is the reply of Node.List.
type NodeListResponse struct {
	Nodes []*nomad.NodeListStub
	QueryMeta
}

// NodeRegisterRequest is the request of Node.Register.
type NodeRegisterRequest struct {
	Node           *nomad.Node
	NodeEvent      *nomad.NodeEvent
	CreateNodePool bool
	// Introduction is set by the server that admits the node, in the log only.
	Introduction *idtoken.NodeIntroduction
	// SessionBefore is the session that held the node when the server checked. The server sets it,
	// in the log only. The entry fails if another session has replaced it since.
	SessionBefore string `codec:",omitempty"`
	// Strict is set by a server that enforces introductions, in the log only. Without an Introduction,
	// the entry then admits a node only if state has it unchanged or ByIdentity is set.
	Strict bool `codec:",omitempty"`
	// ByIdentity means that a node missing in state presented its own identity, for the same pool,
	// datacenter and name. The server sets it, in the log only.
	ByIdentity bool `codec:",omitempty"`
	// Proof proves that the agent has the private key of Node.Key. It is not in the log.
	Proof *NodeProof `codec:",omitempty"`
	WriteRequest
}

// NodeMetaApplyRequest is the request of NodeMeta.Apply. A nil value removes the key.
type NodeMetaApplyRequest struct {
	NodeID string
	Meta   map[string]*string
	QueryOptions
}

// NodeMetaResponse is the reply of NodeMeta.Apply and NodeMeta.Read. Meta is Static with the changes in Dynamic applied. A nil value in
// Dynamic removes the key.
type NodeMetaResponse struct {
	Meta    map[string]string
	Dynamic map[string]*string
	Static  map[string]string
}

// NodeSpecificRequest is the request of ClientAllocations.GarbageCollectAll, ClientStats.Stats, Node.GetAllocs,
// Node.GetClientAllocs, Node.GetNode, NodeMeta.Read, Status.HasNodeConn and Allocations.GarbageCollectAll.
type NodeSpecificRequest struct {
	NodeID   string
	SecretID string
	// AllocCount (open-nomad only) is the number of allocations in the last answer of Node.GetClientAllocs that the
	// client applied. If the node has fewer now, allocations were deleted, and the servers answer at once. Clients of
	// Nomad do not send it, and its servers ignore it.
	AllocCount int `codec:",omitempty"`
	QueryOptions
}

// NodeUpdateDrainRequest is the request of Node.UpdateDrain.
type NodeUpdateDrainRequest struct {
	NodeID        string
	DrainStrategy *nomad.DrainStrategy
	MarkEligible  bool
	NodeEvent     *nomad.NodeEvent
	UpdatedAt     int64
	Meta          map[string]string
	UpdatedBy     string
	WriteRequest
}

// NodeUpdateEligibilityRequest is the request of Node.UpdateEligibility.
type NodeUpdateEligibilityRequest struct {
	NodeID      string
	Eligibility string
	NodeEvent   *nomad.NodeEvent
	UpdatedAt   int64
	WriteRequest
}

// NodeUpdateResponse is the reply of Node.BatchDeregister, Node.Deregister, Node.Evaluate, Node.Register and
// Node.UpdateStatus.
type NodeUpdateResponse struct {
	HeartbeatTTL          time.Duration
	EvalIDs               []string
	EvalCreateIndex       uint64
	NodeModifyIndex       uint64
	Features              uint64
	LeaderRPCAddr         string
	NumNodes              int32
	Servers               []*nomad.NodeServerInfo
	SchedulingEligibility string
	SignedIdentity        *string
	// WantedSchemas are the digests of driver schemas that the node should send. Only servers of this project
	// set them.
	WantedSchemas []string `codec:",omitempty"`
	QueryMeta
}

// NodeUpdateStatusRequest is the request of Node.UpdateStatus.
type NodeUpdateStatusRequest struct {
	NodeID               string
	Status               string
	IdentitySigningKeyID string
	ForceIdentityRenewal bool
	NodeEvent            *nomad.NodeEvent
	UpdatedAt            int64
	// SessionID is the session of the agent, or "" if the agent does not send one.
	SessionID string `codec:",omitempty"`
	WriteRequest
}

// SingleNodeResponse is the reply of Node.GetNode.
type SingleNodeResponse struct {
	Node *nomad.Node
	QueryMeta
}
