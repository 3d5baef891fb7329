package state

import (
	"encoding/json"
	"fmt"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
)

// schedulerConfigs, autopilotConfigs and clusterMetas hold one row each.
var schedulerConfigs = &table[nomad.SchedulerConfiguration]{
	name: TableSchedulerConf,
	id:   func(*nomad.SchedulerConfiguration) key { return theOnly },
}

// In snapshots, which have no record type for it, the configuration of autopilot is
// an index row: this prefix and its JSON, with the index of its last change.
const autopilotPrefix = "autopilot_config/"

var autopilotConfigs = &table[nomad.AutopilotConfig]{
	name: TableAutopilotConf,
	id:   func(*nomad.AutopilotConfig) key { return theOnly },
}

var clusterMetas = &table[nomad.ClusterMetadata]{
	name: TableClusterMeta,
	id:   func(*nomad.ClusterMetadata) key { return theOnly },
}

// theOnly is the key of the row of a table that has one.
var theOnly = keyOf("only")

// SchedulerConfig returns how the scheduler places, and the index of its last
// change; nil when nobody has set it.
func (s *Snapshot) SchedulerConfig(ws memdb.WatchSet) (uint64, *nomad.SchedulerConfiguration) {
	c := schedulerConfigs.get(s.tx, ws, theOnly)
	if c == nil {
		return 0, nil
	}
	return c.ModifyIndex, c
}

// SetSchedulerConfig stores how the scheduler places. With CAS it does so only
// when nobody changed it since the index the caller has seen; done says whether.
func (s *Store) SetSchedulerConfig(index uint64, req *nomad.SchedulerSetConfigRequest) (c *Changes, done bool, err error) {
	c, err = s.write(index, func(t *txn) error {
		old := schedulerConfigs.get(t, nil, theOnly)
		conf := req.Config
		if req.CAS && (old == nil && conf.ModifyIndex != 0 || old != nil && conf.ModifyIndex != old.ModifyIndex) {
			return nil
		}
		canonicalScheduler(&conf)
		conf.CreateIndex, conf.ModifyIndex = index, index
		if old != nil {
			conf.CreateIndex = old.CreateIndex
		}
		schedulerConfigs.put(t, &conf)
		done = true
		return nil
	})
	return c, done, err
}

// canonicalScheduler fills in what older servers leave out.
func canonicalScheduler(c *nomad.SchedulerConfiguration) {
	if c.SchedulerAlgorithm == "" {
		c.SchedulerAlgorithm = nomad.SchedulerAlgorithmBinpack
	}
	if c.NodeLimitForFeasibilityChecks == 0 {
		c.NodeLimitForFeasibilityChecks = nomad.DefaultNodeLimitForFeasibilityChecks
	}
}

// AutopilotConfig returns how the leader keeps the servers, nil when nobody has
// said it.
func (s *Snapshot) AutopilotConfig(ws memdb.WatchSet) *nomad.AutopilotConfig {
	return autopilotConfigs.get(s.tx, ws, theOnly)
}

// autopilotRow is the configuration as it goes into a snapshot.
func autopilotRow(c *nomad.AutopilotConfig) *nomad.IndexEntry {
	text, err := json.Marshal(c)
	if err != nil {
		panic(fmt.Sprintf("state: bug: autopilot configuration: %v", err))
	}
	return &nomad.IndexEntry{Key: autopilotPrefix + string(text), Value: c.ModifyIndex}
}

// readAutopilot takes the configuration back.
func (r *Restore) readAutopilot(text string) error {
	c := new(nomad.AutopilotConfig)
	if err := json.Unmarshal([]byte(text), c); err != nil {
		return fmt.Errorf("configuration of autopilot: %w", err)
	}
	return r.txn.Insert(autopilotConfigs.name, c)
}

// SetAutopilotConfig stores how the leader keeps the servers. With CAS it does so
// only when nobody changed it since the index the caller has seen; done says whether.
func (s *Store) SetAutopilotConfig(index uint64, req *nomad.AutopilotSetConfigRequest) (c *Changes, done bool, err error) {
	c, err = s.write(index, func(t *txn) error {
		old := autopilotConfigs.get(t, nil, theOnly)
		conf := req.Config
		if req.CAS && (old == nil && conf.ModifyIndex != 0 || old != nil && conf.ModifyIndex != old.ModifyIndex) {
			return nil
		}
		conf.CreateIndex, conf.ModifyIndex = index, index
		if old != nil {
			conf.CreateIndex = old.CreateIndex
		}
		autopilotConfigs.put(t, &conf)
		done = true
		return nil
	})
	return c, done, err
}

// ClusterMetadata returns the name of the cluster, nil before it has one.
func (s *Snapshot) ClusterMetadata(ws memdb.WatchSet) *nomad.ClusterMetadata {
	return clusterMetas.get(s.tx, ws, theOnly)
}

// SetClusterMetadata stores the name of the cluster.
func (s *Store) SetClusterMetadata(index uint64, m *nomad.ClusterMetadata) (*Changes, error) {
	return s.write(index, func(t *txn) error {
		stored := *m
		clusterMetas.put(t, &stored)
		return nil
	})
}
