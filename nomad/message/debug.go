package message

// The kinds of profiles in AgentPprofRequest.ReqType.
const (
	ProfileCmdline = "cmd"    // the command line
	ProfileCPU     = "cpu"    // a CPU profile
	ProfileTrace   = "trace"  // an execution trace
	ProfileLookup  = "lookup" // the profile with the name Profile, such as heap
)

// AgentPprofRequest is the request of Agent.Profile. Without NodeID and ServerID, the called agent
// answers.
type AgentPprofRequest struct {
	ReqType  string
	Profile  string // of ProfileLookup
	Seconds  int    // of ProfileCPU and ProfileTrace; default 1
	Debug    int    // of ProfileLookup: 0 is the binary format, others are text
	GC       int    // of the profile heap: 1 collects garbage first
	NodeID   string
	ServerID string // ID or name of a server, or "leader"
	QueryOptions
}

// AgentPprofResponse is the response of Agent.Profile.
type AgentPprofResponse struct {
	AgentID     string
	Payload     []byte
	HTTPHeaders map[string]string
}

// HostDataRequest is the request of Agent.Host. Without NodeID and ServerID, the called agent answers.
type HostDataRequest struct {
	ServerID string // ID or name of a server, or "leader"
	NodeID   string
	QueryOptions
}

// HostDataResponse is the response of Agent.Host.
type HostDataResponse struct {
	AgentID  string
	HostData *HostData
}

// HostData describes the host of an agent.
type HostData struct {
	OS          string
	Network     []map[string]string // one for each address of an interface
	ResolvConf  string              // the content of /etc/resolv.conf
	Hosts       string              // the content of /etc/hosts
	Environment map[string]string   // always empty: an environment can contain secrets
	Disk        map[string]DiskUsage
}

// DiskUsage is the usage of a file system.
type DiskUsage struct {
	DiskMB int64
	UsedMB int64
}
