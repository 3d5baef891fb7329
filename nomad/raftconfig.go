package nomad

// RaftConfigurationResponse is the reply of Operator.RaftGetConfiguration.
type RaftConfigurationResponse struct {
	Servers []*RaftServer
	Index   uint64
}

// RaftServer is one server as the Raft log has it.
type RaftServer struct {
	ID           string
	Node         string
	Address      string
	Leader       bool
	Voter        bool
	RaftProtocol string
}

// RaftIDAddress names a server of the log.
type RaftIDAddress struct {
	Address string
	ID      string
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

// RaftPeerRequest is the request of Operator.TransferLeadershipToPeer: an ID or an
// address.
type RaftPeerRequest struct {
	RaftIDAddress
	WriteRequest
}

// LeadershipTransferResponse is the reply of Operator.TransferLeadershipToPeer.
// Noop says that the server led already.
type LeadershipTransferResponse struct {
	From RaftIDAddress
	To   RaftIDAddress
	Noop bool
	WriteMeta
}
