package api

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strconv"
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

// Servers lists the addresses of the servers that a client agent uses.
func (a *Agent) Servers() ([]string, error) {
	out, _, err := get[[]string](a.client, "/v1/agent/servers", nil)
	return out, err
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

// Status asks about the servers of a region.
type Status struct{ client *Client }

// Status returns the handle for the servers of a region.
func (c *Client) Status() *Status { return &Status{c} }

// Leader returns the RPC address of the leader.
func (s *Status) Leader() (string, error) { return s.RegionLeader("") }

// RegionLeader returns the RPC address of the leader of a region.
func (s *Status) RegionLeader(region string) (string, error) {
	out, _, err := get[string](s.client, "/v1/status/leader", &QueryOptions{Region: region})
	return out, err
}

// Peers lists the RPC addresses of the servers.
func (s *Status) Peers() ([]string, error) {
	out, _, err := get[[]string](s.client, "/v1/status/peers", nil)
	return out, err
}

// Regions lists regions.
type Regions struct{ client *Client }

// Regions returns the handle for regions.
func (c *Client) Regions() *Regions { return &Regions{c} }

// List lists the regions that the servers know.
func (r *Regions) List() ([]string, error) {
	out, _, err := get[[]string](r.client, "/v1/regions", nil)
	return out, err
}

// Namespaces reads namespaces.
type Namespaces struct{ client *Client }

// Namespaces returns the handle for namespaces.
func (c *Client) Namespaces() *Namespaces { return &Namespaces{c} }

// List lists namespaces by their name.
func (n *Namespaces) List(q *QueryOptions) ([]*Namespace, *QueryMeta, error) {
	return get[[]*Namespace](n.client, "/v1/namespaces", q)
}

// PrefixList lists the namespaces whose name begins with prefix.
func (n *Namespaces) PrefixList(prefix string, q *QueryOptions) ([]*Namespace, *QueryMeta, error) {
	opts := QueryOptions{}
	if q != nil {
		opts = *q
	}
	opts.Prefix = prefix
	return n.List(&opts)
}

// Info returns a namespace.
func (n *Namespaces) Info(name string, q *QueryOptions) (*Namespace, *QueryMeta, error) {
	return get[*Namespace](n.client, "/v1/namespace/"+url.PathEscape(name), q)
}

// System acts on the whole cluster.
type System struct{ client *Client }

// System returns the handle for the whole cluster.
func (c *Client) System() *System { return &System{c} }

// GarbageCollect removes everything that is over, whatever its age.
func (s *System) GarbageCollect() error {
	_, err := s.client.put("/v1/system/gc", nil, nil, nil)
	return err
}

// ReconcileSummaries counts the allocations of every job anew.
func (s *System) ReconcileSummaries() error {
	_, err := s.client.put("/v1/system/reconcile/summaries", nil, nil, nil)
	return err
}

// Operator reads and changes how a region is run.
type Operator struct{ client *Client }

// Operator returns the handle for how a region is run.
func (c *Client) Operator() *Operator { return &Operator{c} }

const schedulerPath = "/v1/operator/scheduler/configuration"

// SchedulerGetConfiguration returns the settings of the scheduler.
func (o *Operator) SchedulerGetConfiguration(q *QueryOptions) (*SchedulerConfigurationResponse, *QueryMeta, error) {
	return get[*SchedulerConfigurationResponse](o.client, schedulerPath, q)
}

// SchedulerSetConfiguration stores the settings of the scheduler.
func (o *Operator) SchedulerSetConfiguration(conf *SchedulerConfiguration, q *WriteOptions) (*SchedulerSetConfigurationResponse, *WriteMeta, error) {
	return o.setScheduler(schedulerPath, conf, q)
}

// SchedulerCASConfiguration stores the settings of the scheduler if their index
// still is conf.ModifyIndex.
func (o *Operator) SchedulerCASConfiguration(conf *SchedulerConfiguration, q *WriteOptions) (*SchedulerSetConfigurationResponse, *WriteMeta, error) {
	return o.setScheduler(schedulerPath+"?cas="+strconv.FormatUint(conf.ModifyIndex, 10), conf, q)
}

func (o *Operator) setScheduler(path string, conf *SchedulerConfiguration, q *WriteOptions) (*SchedulerSetConfigurationResponse, *WriteMeta, error) {
	var out SchedulerSetConfigurationResponse
	meta, err := o.client.put(path, conf, &out, q)
	if err != nil {
		return nil, nil, err
	}
	out.WriteMeta = *meta
	return &out, meta, nil
}

// RaftGetConfiguration lists the servers of a region as Raft knows them.
func (o *Operator) RaftGetConfiguration(q *QueryOptions) (*RaftConfiguration, error) {
	out, _, err := get[*RaftConfiguration](o.client, "/v1/operator/raft/configuration", q)
	return out, err
}

// Metrics returns the metrics of the agent as they come: JSON, or with the
// parameter format=prometheus text.
func (o *Operator) Metrics(q *QueryOptions) ([]byte, error) {
	body, err := o.client.stream("/v1/metrics", q)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	out, err := io.ReadAll(body)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	return out, nil
}

// MetricsSummary returns the last complete interval of the agent's metrics, and
// what the agent said with it.
func (o *Operator) MetricsSummary(q *QueryOptions) (*MetricsSummary, *QueryMeta, error) {
	return get[*MetricsSummary](o.client, "/v1/metrics", q)
}
