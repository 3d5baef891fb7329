package message

// RaftConfigurationResponse is the reply of Operator.RaftGetConfiguration.
type RaftConfigurationResponse struct {
	Servers []*RaftServer
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
	RaftIDAddress
	WriteRequest
}

// LeadershipTransferResponse is the reply of Operator.TransferLeadershipToPeer. Noop means that the server was already
// the leader.
type LeadershipTransferResponse struct {
	From RaftIDAddress
	To   RaftIDAddress
	Noop bool
	WriteMeta
}

// RaftServer is one server in the Raft configuration.
type RaftServer struct {
	ID           string
	Node         string
	Address      string
	Leader       bool
	Voter        bool
	RaftProtocol string
}

// RaftIDAddress identifies a server in the Raft configuration.
type RaftIDAddress struct {
	Address string
	ID      string
}
