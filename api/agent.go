package api

import (
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"strconv"
)

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

// Agent is the handle for the agent itself.
type Agent struct{ client *Client }

// Agent returns the handle for the agent itself.
func (c *Client) Agent() *Agent { return &Agent{c} }

// Self returns the configuration and the statistics of the agent.
func (a *Agent) Self() (*AgentSelf, error) {
	out, _, err := get[*AgentSelf](a.client, "/v1/agent/self", nil)
	return out, err
}

// NodeName returns the name of the agent.
func (a *Agent) NodeName() (string, error) {
	self, err := a.Self()
	if err != nil {
		return "", err
	}
	return self.Member.Name, nil
}

// Region returns the region of the agent.
func (a *Agent) Region() (string, error) { return a.configured("Region") }

// Datacenter returns the datacenter of the agent.
func (a *Agent) Datacenter() (string, error) { return a.configured("Datacenter") }

func (a *Agent) configured(name string) (string, error) {
	self, err := a.Self()
	if err != nil {
		return "", err
	}
	value, _ := self.Config[name].(string)
	return value, nil
}

// AgentReloadOpts are the options of Agent.Reload. There are none.
type AgentReloadOpts struct{}

// Reload makes the agent read its configuration again.
func (a *Agent) Reload(_ *AgentReloadOpts, q *WriteOptions) error {
	_, err := a.client.put("/v1/agent/reload", nil, nil, q)
	return err
}

// GetSchedulerWorkersInfo lists the scheduler workers of the agent's server.
func (a *Agent) GetSchedulerWorkersInfo(q *QueryOptions) (*AgentSchedulerWorkersInfo, error) {
	out, _, err := get[*AgentSchedulerWorkersInfo](a.client, "/v1/agent/schedulers", q)
	return out, err
}

// Members lists the servers in the gossip pool.
func (a *Agent) Members() (*ServerMembers, error) { return a.MembersOpts(nil) }

// MembersOpts is Members with options.
func (a *Agent) MembersOpts(q *QueryOptions) (*ServerMembers, error) {
	out, _, err := get[*ServerMembers](a.client, "/v1/agent/members", q)
	return out, err
}

// Join makes the agent's server join others. It returns the number of servers joined.
func (a *Agent) Join(addrs ...string) (int, error) {
	var out struct {
		NumJoined int    `json:"num_joined"`
		Error     string `json:"error"`
	}
	if _, err := a.client.put("/v1/agent/join?"+url.Values{"address": addrs}.Encode(), nil, &out, nil); err != nil {
		return 0, err
	}
	if out.Error != "" {
		return out.NumJoined, errors.New(out.Error)
	}
	return out.NumJoined, nil
}

// ForceLeave marks a failed server as left.
func (a *Agent) ForceLeave(node string) error { return a.ForceLeaveWithOptions(node, ForceLeaveOpts{}) }

// ForceLeaveOpts are the options of ForceLeaveWithOptions. Prune removes the server from
// the list of members.
type ForceLeaveOpts struct{ Prune bool }

// ForceLeaveWithOptions is ForceLeave with options.
func (a *Agent) ForceLeaveWithOptions(node string, opts ForceLeaveOpts) error {
	params := url.Values{"node": {node}}
	if opts.Prune {
		params.Set("prune", "true")
	}
	_, err := a.client.put("/v1/agent/force-leave?"+params.Encode(), nil, nil, nil)
	return err
}

// ListKeys lists the gossip keys of the servers.
func (a *Agent) ListKeys() (*KeyringResponse, error) {
	out, _, err := get[*KeyringResponse](a.client, "/v1/agent/keyring/list", nil)
	return out, err
}

// InstallKey installs a gossip key on all servers.
func (a *Agent) InstallKey(key string) (*KeyringResponse, error) {
	return a.keyring("install", key)
}

// UseKey makes a gossip key the primary key of all servers.
func (a *Agent) UseKey(key string) (*KeyringResponse, error) { return a.keyring("use", key) }

// RemoveKey removes a gossip key from all servers.
func (a *Agent) RemoveKey(key string) (*KeyringResponse, error) { return a.keyring("remove", key) }

func (a *Agent) keyring(do, key string) (*KeyringResponse, error) {
	var out KeyringResponse
	if _, err := a.client.put("/v1/agent/keyring/"+do, &KeyringRequest{Key: key}, &out, nil); err != nil {
		return nil, err
	}
	return &out, nil
}

// Servers lists the addresses of the servers that a client agent uses.
func (a *Agent) Servers() ([]string, error) {
	out, _, err := get[[]string](a.client, "/v1/agent/servers", nil)
	return out, err
}

// SetServers replaces the servers of a client agent. The client still gets the addresses
// of other servers from them.
func (a *Agent) SetServers(addrs []string) error {
	_, err := a.client.put("/v1/agent/servers?"+url.Values{"address": addrs}.Encode(), nil, nil, nil)
	return err
}

// Health returns the health of the agent. An unhealthy agent responds with status 500 and
// the same body, which is not an error here.
func (a *Agent) Health() (*AgentHealthResponse, error) {
	out, _, err := get[*AgentHealthResponse](a.client, "/v1/agent/health", nil)
	if err == nil {
		return out, nil
	}
	if unhealthy, ok := err.(UnexpectedResponseError); ok {
		var health AgentHealthResponse
		if json.Unmarshal([]byte(unhealthy.body), &health) == nil {
			return &health, nil
		}
	}
	return nil, err
}

// Host returns data on the host of a server or node. Without an ID, it is the agent's host.
func (a *Agent) Host(serverID, nodeID string, q *QueryOptions) (*HostDataResponse, error) {
	params := url.Values{}
	setIf(params, "server_id", serverID)
	setIf(params, "node_id", nodeID)
	out, _, err := get[*HostDataResponse](a.client, "/v1/agent/host?"+params.Encode(), q)
	return out, err
}

// PprofOptions selects an agent and the form of a profile. Without a node and a server, the called
// agent answers.
type PprofOptions struct {
	ServerID string // this or NodeID; it may be "leader"
	NodeID   string
	Seconds  int // of the profiles "profile" and "trace"
	GC       int // other than 0: collect garbage before the profile "heap"
	Debug    int // other than 0: text
}

// CPUProfile reads a profile of the use of the processor.
func (a *Agent) CPUProfile(opts PprofOptions, q *QueryOptions) ([]byte, error) {
	return a.Lookup("profile", opts, q)
}

// Trace reads a trace of the execution.
func (a *Agent) Trace(opts PprofOptions, q *QueryOptions) ([]byte, error) {
	return a.Lookup("trace", opts, q)
}

// Lookup reads a profile of an agent, such as "heap" or "goroutine".
func (a *Agent) Lookup(profile string, opts PprofOptions, q *QueryOptions) ([]byte, error) {
	body, err := a.Profile(profile, opts, q)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return io.ReadAll(body)
}

// Profile reads a profile of an agent, such as "heap", "profile" or "trace". The caller closes the
// reader.
func (a *Agent) Profile(name string, o PprofOptions, q *QueryOptions) (io.ReadCloser, error) {
	params := url.Values{"seconds": {strconv.Itoa(o.Seconds)}, "debug": {strconv.Itoa(o.Debug)}}
	if o.GC != 0 {
		params.Set("gc", strconv.Itoa(o.GC))
	}
	setParams(params, map[string]string{"node_id": o.NodeID, "server_id": o.ServerID})
	return a.client.stream("/v1/agent/pprof/"+url.PathEscape(name)+"?"+params.Encode(), q)
}

// MonitorOptions selects an agent and the lines of its log. Without a node and a server, the
// called agent answers.
type MonitorOptions struct {
	NodeID, ServerID string // at most one; a server ID may be "leader"
	LogLevel         string // default INFO
	JSON, Location   bool   // the format of the lines
}

// Monitor follows the log of an agent. Parameters of the query select the agent and the lines. The
// channel of frames is closed when stopCh is closed or the log ends.
func (a *Agent) Monitor(stopCh <-chan struct{}, q *QueryOptions) (<-chan *StreamFrame, <-chan error) {
	return a.client.frames("/v1/agent/monitor", stopCh, q)
}

// MonitorExport is Monitor for stored log lines.
func (a *Agent) MonitorExport(stopCh <-chan struct{}, q *QueryOptions) (<-chan *StreamFrame, <-chan error) {
	return a.client.frames("/v1/agent/monitor/export", stopCh, q)
}

// FollowLog follows the log of an agent as plain text. The caller closes the reader.
func (a *Agent) FollowLog(o MonitorOptions, q *QueryOptions) (io.ReadCloser, error) {
	params := url.Values{"plain": {"true"}, "log_json": {strconv.FormatBool(o.JSON)}, "log_include_location": {strconv.FormatBool(o.Location)}}
	setParams(params, map[string]string{"log_level": o.LogLevel, "node_id": o.NodeID, "server_id": o.ServerID})
	return a.client.stream("/v1/agent/monitor?"+params.Encode(), q)
}

// MonitorExportOptions selects an agent and a source of stored log lines.
type MonitorExportOptions struct {
	NodeID, ServerID string // at most one; a server ID may be "leader"
	OnDisk           bool   // the log file of the agent
	ServiceName      string // a unit of journald
	LogsSince        string // a duration, default 72h
	Follow           bool   // journald only
}

// ReadLog reads stored log lines of an agent as plain text. The caller closes the reader.
func (a *Agent) ReadLog(o MonitorExportOptions, q *QueryOptions) (io.ReadCloser, error) {
	params := url.Values{"plain": {"true"}, "on_disk": {strconv.FormatBool(o.OnDisk)}, "follow": {strconv.FormatBool(o.Follow)}}
	setParams(params, map[string]string{"service_name": o.ServiceName, "logs_since": o.LogsSince, "node_id": o.NodeID,
		"server_id": o.ServerID})
	return a.client.stream("/v1/agent/monitor/export?"+params.Encode(), q)
}

// setParams sets the parameters that are not empty.
func setParams(params url.Values, values map[string]string) {
	for k, v := range values {
		if v != "" {
			params.Set(k, v)
		}
	}
}
