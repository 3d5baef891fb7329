package message

import "net"

// ServerMember is a server as seen by gossip. Status is alive, leaving, left or failed.
type ServerMember struct {
	Name        string
	Addr        net.IP
	Port        uint16
	Tags        map[string]string
	Status      string
	ProtocolMin uint8
	ProtocolMax uint8
	ProtocolCur uint8
	DelegateMin uint8
	DelegateMax uint8
	DelegateCur uint8
}

// The gossip tag that identifies servers of this project. Other servers do not set it.
const (
	ProjectTag = "project"
	Project    = "open-nomad"
)

// Ours reports whether the member is a server of this project. Versions that do not set the tag are not recognized.
func (m *ServerMember) Ours() bool { return m.Tags[ProjectTag] == Project }
