package httpclient

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/open-nomad/open-nomad/api"
)

// System is the handle for cluster-wide operations.
type System struct{ client *Client }

// System returns the handle for cluster-wide operations.
func (c *Client) System() *System { return &System{c} }

// GarbageCollect removes all objects in a terminal state, regardless of their age.
func (s *System) GarbageCollect() error {
	_, err := s.client.put("/v1/system/gc", nil, nil, nil)
	return err
}

// ReconcileSummaries recalculates the summaries of all jobs.
func (s *System) ReconcileSummaries() error {
	_, err := s.client.put("/v1/system/reconcile/summaries", nil, nil, nil)
	return err
}

// Operator is the handle for the operator endpoints.
type Operator struct{ client *Client }

// Operator returns the handle for the operator endpoints.
func (c *Client) Operator() *Operator { return &Operator{c} }

const schedulerPath = "/v1/operator/scheduler/configuration"

// SchedulerGetConfiguration returns the configuration of the scheduler.
func (o *Operator) SchedulerGetConfiguration(q *QueryOptions) (*api.SchedulerConfigurationResponse, *api.QueryMeta, error) {
	return get[*api.SchedulerConfigurationResponse](o.client, schedulerPath, q)
}

// SchedulerSetConfiguration stores the configuration of the scheduler.
func (o *Operator) SchedulerSetConfiguration(conf *api.SchedulerConfiguration, q *WriteOptions) (*api.SchedulerSetConfigurationResponse, *api.WriteMeta, error) {
	return o.setScheduler(schedulerPath, conf, q)
}

// SchedulerCASConfiguration stores the configuration of the scheduler if the stored index
// is conf.ModifyIndex.
func (o *Operator) SchedulerCASConfiguration(conf *api.SchedulerConfiguration, q *WriteOptions) (*api.SchedulerSetConfigurationResponse, *api.WriteMeta, error) {
	return o.setScheduler(schedulerPath+"?cas="+strconv.FormatUint(conf.ModifyIndex, 10), conf, q)
}

func (o *Operator) setScheduler(path string, conf *api.SchedulerConfiguration, q *WriteOptions) (*api.SchedulerSetConfigurationResponse, *api.WriteMeta, error) {
	var out api.SchedulerSetConfigurationResponse
	meta, err := o.client.put(path, conf, &out, q)
	if err != nil {
		return nil, nil, err
	}
	out.WriteMeta = *meta
	return &out, meta, nil
}

// RaftGetConfiguration lists the Raft peers of a region.
func (o *Operator) RaftGetConfiguration(q *QueryOptions) (*api.RaftConfiguration, error) {
	out, _, err := get[*api.RaftConfiguration](o.client, "/v1/operator/raft/configuration", q)
	return out, err
}

// RaftRemovePeerByID removes a server from the Raft configuration of its region.
func (o *Operator) RaftRemovePeerByID(id string, q *WriteOptions) error {
	_, err := o.client.write(http.MethodDelete, "/v1/operator/raft/peer?"+url.Values{"id": {id}}.Encode(), nil, nil, q)
	return err
}

// RaftTransferLeadershipByID transfers leadership to the server with the ID.
func (o *Operator) RaftTransferLeadershipByID(id string, q *WriteOptions) error {
	return o.transfer(url.Values{"id": {id}}, q)
}

// RaftTransferLeadershipByAddress transfers leadership to the server at the address.
func (o *Operator) RaftTransferLeadershipByAddress(address string, q *WriteOptions) error {
	return o.transfer(url.Values{"address": {address}}, q)
}

func (o *Operator) transfer(to url.Values, q *WriteOptions) error {
	_, err := o.client.put("/v1/operator/raft/transfer-leadership?"+to.Encode(), nil, nil, q)
	return err
}

// Metrics returns the metrics of the agent as JSON, or as text with the parameter
// format=prometheus.
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

// MetricsSummary returns the last complete interval of the agent's metrics.
func (o *Operator) MetricsSummary(q *QueryOptions) (*api.MetricsSummary, *api.QueryMeta, error) {
	return get[*api.MetricsSummary](o.client, "/v1/metrics", q)
}
