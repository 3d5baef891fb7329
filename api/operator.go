package api

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
)

// SchedulerAlgorithm is the algorithm that ranks nodes.
type SchedulerAlgorithm string

// Algorithms of the scheduler.
const (
	SchedulerAlgorithmBinpack SchedulerAlgorithm = "binpack"
	SchedulerAlgorithmSpread  SchedulerAlgorithm = "spread"
)

// SchedulerConfiguration is the configuration of the scheduler that can change at run time.
type SchedulerConfiguration struct {
	SchedulerAlgorithm            SchedulerAlgorithm
	PreemptionConfig              PreemptionConfig
	MemoryOversubscriptionEnabled bool
	RejectJobRegistration         bool
	PauseEvalBroker               bool
	NodeLimitForFeasibilityChecks uint
	CreateIndex                   uint64
	ModifyIndex                   uint64
}

// SchedulerConfigurationResponse is the response of GET /v1/operator/scheduler/configuration.
type SchedulerConfigurationResponse struct {
	SchedulerConfig *SchedulerConfiguration
	QueryMeta
}

// SchedulerSetConfigurationResponse reports whether the configuration was stored. It is not
// stored if a check index does not match.
type SchedulerSetConfigurationResponse struct {
	Updated bool
	WriteMeta
}

// PreemptionConfig enables preemption for each scheduler.
type PreemptionConfig struct {
	SystemSchedulerEnabled   bool
	SysBatchSchedulerEnabled bool
	BatchSchedulerEnabled    bool
	ServiceSchedulerEnabled  bool
}

// RaftConfiguration lists the Raft peers of a region.
type RaftConfiguration struct {
	Servers []*RaftServer
	Index   uint64
}

// RaftServer is a server of a RaftConfiguration.
type RaftServer struct {
	ID           string
	Node         string
	Address      string
	Leader       bool
	Voter        bool
	RaftProtocol string
}

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
func (o *Operator) SchedulerGetConfiguration(q *QueryOptions) (*SchedulerConfigurationResponse, *QueryMeta, error) {
	return get[*SchedulerConfigurationResponse](o.client, schedulerPath, q)
}

// SchedulerSetConfiguration stores the configuration of the scheduler.
func (o *Operator) SchedulerSetConfiguration(conf *SchedulerConfiguration, q *WriteOptions) (*SchedulerSetConfigurationResponse, *WriteMeta,
	error) {
	return o.setScheduler(schedulerPath, conf, q)
}

// SchedulerCASConfiguration stores the configuration of the scheduler if the stored index
// is conf.ModifyIndex.
func (o *Operator) SchedulerCASConfiguration(conf *SchedulerConfiguration, q *WriteOptions) (*SchedulerSetConfigurationResponse, *WriteMeta,
	error) {
	return o.setScheduler(schedulerPath+"?cas="+strconv.FormatUint(conf.ModifyIndex, 10), conf, q)
}

func (o *Operator) setScheduler(path string, conf *SchedulerConfiguration, q *WriteOptions) (*SchedulerSetConfigurationResponse, *WriteMeta,
	error) {
	var out SchedulerSetConfigurationResponse
	meta, err := o.client.put(path, conf, &out, q)
	if err != nil {
		return nil, nil, err
	}
	out.WriteMeta = *meta
	return &out, meta, nil
}

// RaftGetConfiguration lists the Raft peers of a region.
func (o *Operator) RaftGetConfiguration(q *QueryOptions) (*RaftConfiguration, error) {
	out, _, err := get[*RaftConfiguration](o.client, "/v1/operator/raft/configuration", q)
	return out, err
}

// RaftRemovePeerByID removes a server from the Raft configuration of its region.
func (o *Operator) RaftRemovePeerByID(id string, q *WriteOptions) error {
	_, err := o.client.write(call{http.MethodDelete, "/v1/operator/raft/peer?" + url.Values{"id": {id}}.Encode(), nil, nil}, q)
	return err
}

// RaftRemovePeerByAddress removes the server at an address from the Raft configuration of its region.
func (o *Operator) RaftRemovePeerByAddress(address string, q *WriteOptions) error {
	_, err := o.client.write(call{http.MethodDelete, "/v1/operator/raft/peer?" + url.Values{"address": {address}}.Encode(), nil, nil}, q)
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
func (o *Operator) MetricsSummary(q *QueryOptions) (*MetricsSummary, *QueryMeta, error) {
	return get[*MetricsSummary](o.client, "/v1/metrics", q)
}
