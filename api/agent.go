package api

// AgentSelf is the configuration, the member entry and the statistics of an agent.
type AgentSelf struct {
	Config map[string]any               `json:"config"`
	Member AgentMember                  `json:"member"`
	Stats  map[string]map[string]string `json:"stats"`
}

// AgentMember is a server in the gossip pool.
type AgentMember struct {
	Name        string
	Addr        string
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

// ServerMembers lists the servers that are known to an agent.
type ServerMembers struct {
	ServerName   string
	ServerRegion string
	ServerDC     string
	Members      []*AgentMember
}

// AgentHealth is the health of the client or server part of an agent.
type AgentHealth struct {
	Ok      bool   `json:"ok"`
	Message string `json:"message"`
}

// AgentHealthResponse is the health of an agent. The part that it does not run is nil.
type AgentHealthResponse struct {
	Client *AgentHealth `json:"client,omitempty"`
	Server *AgentHealth `json:"server,omitempty"`
}

// HostDataResponse is the response of GET /v1/agent/host.
type HostDataResponse struct {
	AgentID  string
	HostData *HostData `json:",omitempty"`
}

// HostData describes the host of an agent.
type HostData struct {
	OS          string
	Network     []map[string]string
	ResolvConf  string
	Hosts       string
	Environment map[string]string
	Disk        map[string]DiskUsage
}

// DiskUsage is the size and usage of a file system in MiB.
type DiskUsage struct {
	DiskMB int64
	UsedMB int64
}

// KeyringResponse contains the gossip keys: for each key, the number of servers that have
// it and the number that encrypt with it. It also contains messages of servers.
type KeyringResponse struct {
	Messages    map[string]string
	Keys        map[string]int
	PrimaryKeys map[string]int
	NumNodes    int
}

// KeyringRequest is a request for one gossip key.
type KeyringRequest struct{ Key string }
