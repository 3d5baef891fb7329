package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"
)

// AutopilotConfiguration is the configuration of autopilot. In JSON, durations are strings
// such as "10s".
type AutopilotConfiguration struct {
	CleanupDeadServers      bool
	LastContactThreshold    time.Duration
	MaxTrailingLogs         uint64
	MinQuorum               uint
	ServerStabilizationTime time.Duration
	EnableRedundancyZones   bool
	DisableUpgradeMigration bool
	EnableCustomUpgrades    bool
	CreateIndex             uint64
	ModifyIndex             uint64
}

type plainAutopilot AutopilotConfiguration

// MarshalJSON implements json.Marshaler.
func (c *AutopilotConfiguration) MarshalJSON() ([]byte, error) {
	return json.Marshal(&struct {
		LastContactThreshold, ServerStabilizationTime string
		*plainAutopilot
	}{c.LastContactThreshold.String(), c.ServerStabilizationTime.String(), (*plainAutopilot)(c)})
}

// UnmarshalJSON implements json.Unmarshaler. Durations are strings or nanoseconds.
func (c *AutopilotConfiguration) UnmarshalJSON(data []byte) error {
	in := struct {
		LastContactThreshold, ServerStabilizationTime any
		*plainAutopilot
	}{plainAutopilot: (*plainAutopilot)(c)}
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	for field, v := range map[*time.Duration]any{&c.LastContactThreshold: in.LastContactThreshold,
		&c.ServerStabilizationTime: in.ServerStabilizationTime} {
		d, err := durationOf(v)
		if err != nil {
			return err
		}
		*field = d
	}
	return nil
}

// OperatorHealthReply is the health of the servers of a region.
type OperatorHealthReply struct {
	Healthy                    bool
	FailureTolerance           int
	Servers                    []ServerHealth
	Leader                     string
	Voters                     []string
	ReadReplicas               []string                 `json:",omitempty"`
	RedundancyZones            map[string]AutopilotZone `json:",omitempty"`
	Upgrade                    *AutopilotUpgrade        `json:",omitempty"`
	OptimisticFailureTolerance int                      `json:",omitempty"`
	// Warnings lists problems that an operator should fix. Upstream servers send none.
	Warnings []string `json:",omitempty"`
	// Unserved lists stored features that the leader's version does not support, such as
	// "3 periodic jobs will not be launched". If an upstream server leads, the list is that of the
	// server that was asked. Upstream servers send none.
	Unserved []string `json:",omitempty"`
}

// ServerHealth is the health of one server. In JSON, LastContact is a string such as "20ms".
type ServerHealth struct {
	ID          string
	Name        string
	Address     string
	SerfStatus  string
	Version     string
	Leader      bool
	LastContact time.Duration
	LastTerm    uint64
	LastIndex   uint64
	Healthy     bool
	Voter       bool
	StableSince time.Time
}

type plainHealth ServerHealth

// MarshalJSON implements json.Marshaler.
func (s *ServerHealth) MarshalJSON() ([]byte, error) {
	return json.Marshal(&struct {
		LastContact string
		*plainHealth
	}{s.LastContact.String(), (*plainHealth)(s)})
}

// UnmarshalJSON implements json.Unmarshaler. LastContact is a string or nanoseconds.
func (s *ServerHealth) UnmarshalJSON(data []byte) (err error) {
	in := struct {
		LastContact any
		*plainHealth
	}{plainHealth: (*plainHealth)(s)}
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	s.LastContact, err = durationOf(in.LastContact)
	return err
}

// AutopilotZone is a redundancy zone of the Enterprise edition.
type AutopilotZone struct {
	Servers          []string
	Voters           []string
	FailureTolerance int
}

// AutopilotZoneUpgradeVersions are the servers of a zone during an upgrade.
type AutopilotZoneUpgradeVersions struct {
	TargetVersionVoters    []string
	TargetVersionNonVoters []string
	OtherVersionVoters     []string
	OtherVersionNonVoters  []string
}

// AutopilotUpgrade is an upgrade of the Enterprise edition.
type AutopilotUpgrade struct {
	Status                    string
	TargetVersion             string
	TargetVersionVoters       []string
	TargetVersionNonVoters    []string
	TargetVersionReadReplicas []string
	OtherVersionVoters        []string
	OtherVersionNonVoters     []string
	OtherVersionReadReplicas  []string
	RedundancyZones           map[string]AutopilotZoneUpgradeVersions
}

const autopilotPath = "/v1/operator/autopilot/configuration"

// AutopilotGetConfiguration returns the configuration of autopilot.
func (o *Operator) AutopilotGetConfiguration(q *QueryOptions) (*AutopilotConfiguration, *QueryMeta, error) {
	return get[*AutopilotConfiguration](o.client, autopilotPath, q)
}

// AutopilotSetConfiguration stores the configuration of autopilot.
func (o *Operator) AutopilotSetConfiguration(conf *AutopilotConfiguration, q *WriteOptions) (*WriteMeta, error) {
	var done bool
	return o.client.put(autopilotPath, conf, &done, q)
}

// AutopilotCASConfiguration stores the configuration of autopilot if the stored index is
// conf.ModifyIndex. It reports whether it was stored.
func (o *Operator) AutopilotCASConfiguration(conf *AutopilotConfiguration, q *WriteOptions) (bool, *WriteMeta, error) {
	var done bool
	meta, err := o.client.put(autopilotPath+"?cas="+strconv.FormatUint(conf.ModifyIndex, 10), conf, &done, q)
	return done, meta, err
}

// AutopilotServerHealth returns the health of the servers. Unhealthy servers are not an
// error.
func (o *Operator) AutopilotServerHealth(q *QueryOptions) (*OperatorHealthReply, *QueryMeta, error) {
	out, meta, err := get[*OperatorHealthReply](o.client, "/v1/operator/autopilot/health", q)
	var refused UnexpectedResponseError
	if errors.As(err, &refused) && refused.StatusCode() == http.StatusTooManyRequests {
		out = &OperatorHealthReply{}
		if json.Unmarshal([]byte(refused.Body()), out) == nil && !out.Healthy && len(out.Servers) > 0 {
			return out, &QueryMeta{}, nil
		}
	}
	return out, meta, err
}
