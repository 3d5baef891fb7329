package api

import (
	"encoding/json"
	"errors"
	"net/url"
)

// Agent asks the agent about itself.
type Agent struct{ client *Client }

// Agent returns the handle for the agent itself.
func (c *Client) Agent() *Agent { return &Agent{c} }

// Self returns the configuration and the counters of the agent.
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

// Members lists the servers that the agent knows.
func (a *Agent) Members() (*ServerMembers, error) { return a.MembersOpts(nil) }

// MembersOpts is Members with options.
func (a *Agent) MembersOpts(q *QueryOptions) (*ServerMembers, error) {
	out, _, err := get[*ServerMembers](a.client, "/v1/agent/members", q)
	return out, err
}

// Join makes the agent's server meet others, and returns how many it met.
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

// ForceLeave makes a server that failed one that left.
func (a *Agent) ForceLeave(node string) error { return a.ForceLeaveWithOptions(node, ForceLeaveOpts{}) }

// ForceLeaveOpts are the options of ForceLeaveWithOptions. Prune forgets the server.
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

// KeyringResponse is what the servers said about the keys of gossip: how many have
// each key, how many encrypt with it, and what some of them had to say.
type KeyringResponse struct {
	Messages    map[string]string
	Keys        map[string]int
	PrimaryKeys map[string]int
	NumNodes    int
}

// KeyringRequest names a key of gossip.
type KeyringRequest struct{ Key string }

// ListKeys lists the keys of gossip that the servers have.
func (a *Agent) ListKeys() (*KeyringResponse, error) {
	out, _, err := get[*KeyringResponse](a.client, "/v1/agent/keyring/list", nil)
	return out, err
}

// InstallKey gives all servers another key of gossip.
func (a *Agent) InstallKey(key string) (*KeyringResponse, error) { return a.keyring("install", key) }

// UseKey makes all servers encrypt gossip with a key.
func (a *Agent) UseKey(key string) (*KeyringResponse, error) { return a.keyring("use", key) }

// RemoveKey makes all servers forget a key of gossip.
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

// SetServers makes addrs the servers that a client agent uses. It goes on learning of
// others from them.
func (a *Agent) SetServers(addrs []string) error {
	_, err := a.client.put("/v1/agent/servers?"+url.Values{"address": addrs}.Encode(), nil, nil, nil)
	return err
}

// Health returns the health of the agent. An unhealthy one answers with status
// 500 and the same body; that is no error here.
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

// Host describes the machine of a server or node; with neither, that of the agent.
func (a *Agent) Host(serverID, nodeID string, q *QueryOptions) (*HostDataResponse, error) {
	params := url.Values{}
	setIf(params, "server_id", serverID)
	setIf(params, "node_id", nodeID)
	out, _, err := get[*HostDataResponse](a.client, "/v1/agent/host?"+params.Encode(), q)
	return out, err
}
