package api

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
)

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

// RaftRemovePeerByID takes a server out of the Raft configuration of its region.
func (o *Operator) RaftRemovePeerByID(id string, q *WriteOptions) error {
	_, err := o.client.write(http.MethodDelete, "/v1/operator/raft/peer?"+url.Values{"id": {id}}.Encode(), nil, nil, q)
	return err
}

// RaftTransferLeadershipByID makes the server with the ID the leader.
func (o *Operator) RaftTransferLeadershipByID(id string, q *WriteOptions) error {
	return o.transfer(url.Values{"id": {id}}, q)
}

// RaftTransferLeadershipByAddress makes the server at the address the leader.
func (o *Operator) RaftTransferLeadershipByAddress(address string, q *WriteOptions) error {
	return o.transfer(url.Values{"address": {address}}, q)
}

func (o *Operator) transfer(to url.Values, q *WriteOptions) error {
	_, err := o.client.put("/v1/operator/raft/transfer-leadership?"+to.Encode(), nil, nil, q)
	return err
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
