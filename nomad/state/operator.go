package state

import (
	"encoding/json"
	"fmt"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state/table"
)

// schedulerConfigs has a single row, as have autopilotConfigs and clusterMetas.
var schedulerConfigs = &table.Table[nomad.SchedulerConfiguration]{
	Name: TableSchedulerConf,
	ID:   func(*nomad.SchedulerConfiguration) table.Key { return theOnly },
}

// autopilotPrefix begins the key of the index row that holds the autopilot configuration in
// snapshots, which have no record type for it. The JSON of the configuration follows the prefix.
// The value is the index of its last change.
const autopilotPrefix = "autopilot_config/"

var autopilotConfigs = &table.Table[nomad.AutopilotConfig]{
	Name: TableAutopilotConf,
	ID:   func(*nomad.AutopilotConfig) table.Key { return theOnly },
}

var clusterMetas = &table.Table[nomad.ClusterMetadata]{
	Name: TableClusterMeta,
	ID:   func(*nomad.ClusterMetadata) table.Key { return theOnly },
}

// theOnly is the key of the single row of a table.
var theOnly = table.KeyOf("only")

// SchedulerConfig returns the scheduler configuration and the index of its last change. The
// configuration is nil if it was never set.
func (s *Snapshot) SchedulerConfig(ws memdb.WatchSet) (uint64, *nomad.SchedulerConfiguration) {
	c := schedulerConfigs.Get(s.tx, ws, theOnly)
	if c == nil {
		return 0, nil
	}
	return c.ModifyIndex, c
}

// SetSchedulerConfig stores the scheduler configuration. With CAS it does so only if the
// ModifyIndex of the request is the current one. done reports whether the configuration was
// stored.
func (s *Store) SetSchedulerConfig(index uint64, req *message.SchedulerSetConfigRequest) (c *Changes, done bool, err error) {
	c, err = s.write(index, func(t *txn) error {
		old := schedulerConfigs.Get(t, nil, theOnly)
		conf := req.Config
		if req.CAS && (old == nil && conf.ModifyIndex != 0 || old != nil && conf.ModifyIndex != old.ModifyIndex) {
			return nil
		}
		canonicalScheduler(&conf)
		conf.CreateIndex, conf.ModifyIndex = index, index
		if old != nil {
			conf.CreateIndex = old.CreateIndex
		}
		schedulerConfigs.Put(t.Txn, &conf)
		done = true
		return nil
	})
	return c, done, err
}

// canonicalScheduler sets defaults for fields that older servers leave out.
func canonicalScheduler(c *nomad.SchedulerConfiguration) {
	if c.SchedulerAlgorithm == "" {
		c.SchedulerAlgorithm = nomad.SchedulerAlgorithmBinpack
	}
	if c.NodeLimitForFeasibilityChecks == 0 {
		c.NodeLimitForFeasibilityChecks = nomad.DefaultNodeLimitForFeasibilityChecks
	}
}

// AutopilotConfig returns the autopilot configuration, or nil if it was never set.
func (s *Snapshot) AutopilotConfig(ws memdb.WatchSet) *nomad.AutopilotConfig {
	return autopilotConfigs.Get(s.tx, ws, theOnly)
}

// autopilotRow returns the snapshot row of the autopilot configuration.
func autopilotRow(c *nomad.AutopilotConfig) *nomad.IndexEntry {
	text, err := json.Marshal(c)
	if err != nil {
		panic(fmt.Sprintf("state: bug: autopilot configuration: %v", err))
	}
	return &nomad.IndexEntry{Key: autopilotPrefix + string(text), Value: c.ModifyIndex}
}

// readAutopilot restores the autopilot configuration from its JSON.
func (r *Restore) readAutopilot(text string) error {
	c := new(nomad.AutopilotConfig)
	if err := json.Unmarshal([]byte(text), c); err != nil {
		return fmt.Errorf("configuration of autopilot: %w", err)
	}
	return autopilotConfigs.Load(r.txn.Txn, c)
}

// SetAutopilotConfig stores the autopilot configuration. With CAS it does so only if the
// ModifyIndex of the request is the current one. done reports whether the configuration was
// stored.
func (s *Store) SetAutopilotConfig(index uint64, req *message.AutopilotSetConfigRequest) (c *Changes, done bool, err error) {
	c, err = s.write(index, func(t *txn) error {
		old := autopilotConfigs.Get(t, nil, theOnly)
		conf := req.Config
		if req.CAS && (old == nil && conf.ModifyIndex != 0 || old != nil && conf.ModifyIndex != old.ModifyIndex) {
			return nil
		}
		conf.CreateIndex, conf.ModifyIndex = index, index
		if old != nil {
			conf.CreateIndex = old.CreateIndex
		}
		autopilotConfigs.Put(t.Txn, &conf)
		done = true
		return nil
	})
	return c, done, err
}

// ClusterMetadata returns the cluster metadata, or nil if it is not set yet.
func (s *Snapshot) ClusterMetadata(ws memdb.WatchSet) *nomad.ClusterMetadata {
	return clusterMetas.Get(s.tx, ws, theOnly)
}

// SetClusterMetadata stores the cluster metadata.
func (s *Store) SetClusterMetadata(index uint64, m *nomad.ClusterMetadata) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		stored := *m
		clusterMetas.Put(t.Txn, &stored)
		return nil
	})
}
