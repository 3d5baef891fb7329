package message

import "github.com/open-nomad/open-nomad/nomad"

// RaftConfigurationResponse is the reply of Operator.RaftGetConfiguration.
type RaftConfigurationResponse struct {
	Servers []*nomad.RaftServer
	Index   uint64
}

// RaftPeerByIDRequest is the request of Operator.RaftRemovePeerByID.
type RaftPeerByIDRequest struct {
	ID string
	WriteRequest
}

// RaftPeerByAddressRequest is the request of Operator.RaftRemovePeerByAddress.
type RaftPeerByAddressRequest struct {
	Address string
	WriteRequest
}

// RaftPeerRequest is the request of Operator.TransferLeadershipToPeer. It contains an ID or an address.
type RaftPeerRequest struct {
	nomad.RaftIDAddress
	WriteRequest
}

// LeadershipTransferResponse is the reply of Operator.TransferLeadershipToPeer. Noop means that the server was already
// the leader.
type LeadershipTransferResponse struct {
	From nomad.RaftIDAddress
	To   nomad.RaftIDAddress
	Noop bool
	WriteMeta
}
