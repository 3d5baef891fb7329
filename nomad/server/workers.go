package server

import (
	"runtime"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/gc"
	"github.com/open-nomad/open-nomad/nomad/worker"
)

// Workers returns the status of each worker.
func (s *Server) Workers() []worker.Status { return s.pool.Status() }

// WorkerTypes returns the types of evaluations that the workers process.
func (s *Server) WorkerTypes() []string { return s.pool.Types() }

// SetWorkers changes the number of workers, in the form of Config.Workers, and their types of evaluations, without
// the core type. Workers that are not needed any more finish their evaluation.
func (s *Server) SetWorkers(n int, types []string) {
	s.pool.Set(workerCount(n), workerTypes(types))
	s.log.Info("set the scheduling workers", "number", len(s.Workers()), "types", s.WorkerTypes())
}

// workerCount returns the number of workers for a value of Config.Workers.
func workerCount(n int) int {
	if n == 0 {
		return max(2, runtime.NumCPU())
	}
	return max(0, n)
}

// workerTypes returns the types of evaluations of the workers: the enabled ones and the core type.
func workerTypes(enabled []string) []string {
	if len(enabled) == 0 {
		return worker.AllTypes()
	}
	return append([]string{nomad.JobTypeCore}, enabled...)
}

// newWorkers returns the workers, which share a garbage collector.
func (s *Server) newWorkers() *worker.Pool {
	collector := gc.New(gc.Config{RPC: s.asLeader(), Store: s.fsm.State, Region: s.cfg.Region, EvalAfter: s.cfg.EvalGCThreshold,
		BatchEvalAfter: s.cfg.BatchEvalGCThreshold, JobAfter: s.cfg.JobGCThreshold, NodeAfter: s.cfg.NodeGCThreshold,
		TokenAfter: s.cfg.ACLTokenGCThreshold, Authoritative: s.cfg.AuthoritativeRegion == s.cfg.Region, Access: s.cfg.Access.Enabled,
		DeploymentAfter: s.cfg.DeploymentGCThreshold, RootKeyAfter: s.cfg.RootKeyGCThreshold,
		RootKeyRotation: s.cfg.RootKeyRotationThreshold, CSIClaimAfter: s.cfg.CSIClaimGCThreshold,
		CSIPluginAfter: s.cfg.CSIPluginGCThreshold, Log: s.log})
	return worker.NewPool(workerCount(s.cfg.Workers), workerTypes(s.cfg.Schedulers), func(types []string) *worker.Worker {
		return worker.New(worker.Config{RPC: s.asLeader(), Store: s.fsm.State, Core: collector, Region: s.cfg.Region, Kinds: s.cfg.Kinds,
			Schemas: s.schemas, Schedulers: types, Log: s.log})
	})
}
