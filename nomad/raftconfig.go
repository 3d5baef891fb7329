package nomad

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
