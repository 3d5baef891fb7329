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
