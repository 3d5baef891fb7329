// Package gc removes terminal objects: evaluations and their allocations, jobs, deployments, nodes,
// ACL tokens and root keys that nothing refers to. The work arrives as evaluations of type _core,
// one for each core job. Timer creates them.
//
//	core job            removes                                        after
//	eval-gc             terminal evaluations, terminal allocations     EvalAfter, BatchEvalAfter
//	job-gc              dead jobs, with their evaluations and allocs   JobAfter
//	deployment-gc       terminal deployments without live allocations  DeploymentAfter
//	node-gc             nodes that are down and empty                  NodeAfter
//	root-key-rotate-gc  inactive keys without live tokens              RootKeyAfter
//	local-token-expired-gc, global-token-expired-gc
//	                    expired ACL tokens                             TokenAfter; global ones in the authoritative region
//	one-time-token-gc   expired one-time tokens                        now
//	csi-volume-claim-gc nothing: it retries the release of claims      CSIClaimAfter
//	csi-plugin-gc       CSI plugins without instances and jobs         CSIPluginAfter
//	variables-rekey     nothing: it re-encrypts variables, and         on a full rotation
//	                    secrets of CSI volumes
//	force-gc            all of these at any age, except keys           now
//
// A terminal allocation is kept while a client still runs it. One of a batch job is kept as a record
// of the completed work while the job exists. A failed one is kept for its reschedule history.
//
// A job ID such as csi-volume-claim-gc:data limits that core job to the volume data, at any age.
//
// The Collector reads snapshots and writes by RPC, in requests of bounded size, with the leader's
// token from the evaluation. It keeps no state. The Timer is one goroutine on the leader.
package gc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Config of a Collector. A zero age selects the default.
type Config struct {
	RPC             message.Caller
	Store           func() *state.Store // the current store: a restore replaces it
	Region          string
	EvalAfter       time.Duration // default 1 h
	BatchEvalAfter  time.Duration // of batch jobs; default 24 h
	JobAfter        time.Duration // default 4 h
	NodeAfter       time.Duration // default 24 h
	DeploymentAfter time.Duration // default 1 h
	// RootKeyAfter counts from the time at which a key would be rotated. Default 1 h.
	RootKeyAfter time.Duration
	// RootKeyRotation is how long a key signs. Default 720 h.
	RootKeyRotation time.Duration
	// CSIClaimAfter is the time since the last step of the release of a claim. Default 5 min.
	CSIClaimAfter time.Duration
	// CSIPluginAfter counts from the last change of an empty plugin. Default 1 h.
	CSIPluginAfter time.Duration
	// TokenAfter counts from the expiration of a token. Default 1 h.
	TokenAfter time.Duration
	// Access is set if ACLs are enabled, Authoritative if this is the authoritative region.
	Access, Authoritative bool
	// RekeyPerSecond is the maximum rate of re-encrypted variables and volumes, RekeyWithin the maximum
	// duration in one evaluation. Defaults 100 and 30 s.
	RekeyPerSecond int
	RekeyWithin    time.Duration
	Log            *slog.Logger
}

func (c Config) withDefaults() Config {
	c.EvalAfter = positive(c.EvalAfter, time.Hour)
	c.BatchEvalAfter = positive(c.BatchEvalAfter, 24*time.Hour)
	c.JobAfter = positive(c.JobAfter, 4*time.Hour)
	c.NodeAfter = positive(c.NodeAfter, 24*time.Hour)
	c.DeploymentAfter = positive(c.DeploymentAfter, time.Hour)
	c.RootKeyAfter = positive(c.RootKeyAfter, time.Hour)
	c.TokenAfter = positive(c.TokenAfter, time.Hour)
	c.CSIClaimAfter = positive(c.CSIClaimAfter, 5*time.Minute)
	c.CSIPluginAfter = positive(c.CSIPluginAfter, time.Hour)
	c.RootKeyRotation = positive(c.RootKeyRotation, 720*time.Hour)
	c.RekeyWithin = positive(c.RekeyWithin, 30*time.Second)
	if c.RekeyPerSecond <= 0 {
		c.RekeyPerSecond = 100
	}
	return c
}

// positive returns d, or the default if d is not positive.
func positive(d, or time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return or
}

// Collector processes core evaluations.
type Collector struct {
	cfg Config
}

// New returns a Collector.
func New(cfg Config) *Collector { return &Collector{cfg: cfg.withDefaults()} }

// coreJobs lists the core jobs in the order of force-gc: referring objects before the objects that
// they refer to.
var coreJobs = []struct {
	name string
	run  func(*Collector, context.Context, *sweep) error
}{
	{nomad.CoreJobJobGC, (*Collector).jobs},
	{nomad.CoreJobEvalGC, (*Collector).evals},
	{nomad.CoreJobDeploymentGC, (*Collector).deployments},
	{nomad.CoreJobNodeGC, (*Collector).nodes},
	{nomad.CoreJobCSIVolumeClaimGC, (*Collector).claims},
	{nomad.CoreJobCSIPluginGC, (*Collector).plugins},
	{nomad.CoreJobRootKeyRotateOrGC, (*Collector).rootKeys},
	{nomad.CoreJobLocalTokenExpiredGC, (*Collector).localTokens},
	{nomad.CoreJobGlobalTokenExpiredGC, (*Collector).globalTokens},
	{nomad.CoreJobOneTimeTokenGC, (*Collector).oneTimeTokens},
	{nomad.CoreJobVariablesRekey, (*Collector).rekey},
}

// Process runs one core evaluation.
func (c *Collector) Process(ctx context.Context, eval *nomad.Evaluation) error {
	name := eval.CoreJob()
	c = &Collector{cfg: c.cfg}
	c.cfg.RPC = bearer{c.cfg.RPC, eval.LeaderACL}
	if name == nomad.CoreJobForceGC {
		var errs []error
		for _, job := range coreJobs {
			sweep := c.sweep()
			sweep.force = true
			if err := job.run(c, ctx, sweep); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", job.name, err))
			}
		}
		return errors.Join(errs...)
	}
	for _, job := range coreJobs {
		if job.name == name {
			sweep := c.sweep()
			if name == nomad.CoreJobCSIVolumeClaimGC {
				sweep.forVolume(eval)
			}
			return job.run(c, ctx, sweep)
		}
	}
	return fmt.Errorf("unknown core job %q", name)
}

// bearer makes RPC calls with a token.
type bearer struct {
	rpc   message.Caller
	token string
}

// Call calls an RPC method.
func (b bearer) Call(ctx context.Context, method string, req, resp any) error {
	switch r := req.(type) {
	case interface{ Write() *message.WriteRequest }:
		r.Write().AuthToken = b.token
	case interface{ Query() *message.QueryOptions }:
		r.Query().AuthToken = b.token
	}
	return b.rpc.Call(ctx, method, req, resp)
}

// sweep is the input of one run: a snapshot and a time.
type sweep struct {
	snap  *state.Snapshot
	now   time.Time
	force bool // ignore ages

	volume, namespace string // of csi-volume-claim-gc for one volume; "" means all
}

func (c *Collector) sweep() *sweep {
	return &sweep{snap: c.cfg.Store().Snapshot(), now: time.Now()}
}

// old reports whether the last change (ns since 1970) has reached the age.
func (s *sweep) old(changed int64, age time.Duration) bool {
	return s.force || s.now.Sub(time.Unix(0, changed)) >= age
}

func (c *Collector) write() message.WriteRequest { return message.WriteRequest{Region: c.cfg.Region} }

// inBatches deletes objects in requests of bounded size.
func (c *Collector) inBatches(ids []string, what string, del func(batch []string) error) error {
	total := len(ids)
	for len(ids) > 0 {
		var batch []string
		batch, ids = split(ids, nomad.MaxUUIDsPerWriteRequest)
		if err := del(batch); err != nil {
			return fmt.Errorf("delete %d %s: %w", len(batch), what, err)
		}
	}
	if total > 0 {
		c.cfg.Log.Debug("collected", "what", what, "count", total)
	}
	return nil
}

// split returns the first n elements of list and the rest.
func split[T any](list []T, n int) (first, rest []T) {
	n = min(n, len(list))
	return list[:n], list[n:]
}
