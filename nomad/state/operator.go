package state

import (
	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad"
)

// schedulerConfigs, autopilotConfigs and clusterMetas hold one row each.
var schedulerConfigs = &table[nomad.SchedulerConfiguration]{
	name: TableSchedulerConf,
	id:   func(*nomad.SchedulerConfiguration) key { return theOnly },
}

// autopilotConfigs is in no snapshot, since there is no record type for it: after a
// restore it is empty, and the leader writes its own.
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
		old := schedulerConfigs.get(t.Txn, nil, theOnly)
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
// said it since the state began or was restored.
func (s *Snapshot) AutopilotConfig(ws memdb.WatchSet) *nomad.AutopilotConfig {
	return autopilotConfigs.get(s.tx, ws, theOnly)
}

// SetAutopilotConfig stores how the leader keeps the servers. With CAS it does so
// only when nobody changed it since the index the caller has seen; done says whether.
func (s *Store) SetAutopilotConfig(index uint64, req *nomad.AutopilotSetConfigRequest) (c *Changes, done bool, err error) {
	c, err = s.write(index, func(t *txn) error {
		old := autopilotConfigs.get(t.Txn, nil, theOnly)
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
