package gc

import (
	"context"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// Intervals of the core jobs. A zero field selects the default.
type Intervals struct {
	Eval       time.Duration // default 5 min
	Job        time.Duration // default 5 min
	Node       time.Duration // default 5 min
	Deployment time.Duration // default 5 min
	RootKey    time.Duration // default 10 min
	Token      time.Duration // of all ACL tokens; default 5 min
	CSIClaim   time.Duration // default 5 min
	CSIPlugin  time.Duration // default 5 min
}

// rekeyEvery is the interval of the search for variables of rekeying keys: it resumes interrupted
// work.
const rekeyEvery = 10 * time.Minute

// Timer creates core evaluations on the leader.
type Timer struct {
	every   map[string]time.Duration
	index   func() uint64
	enqueue func(*nomad.Evaluation)
}

// NewTimer returns a Timer that passes its evaluations to enqueue, created at index.
func NewTimer(every Intervals, index func() uint64, enqueue func(*nomad.Evaluation)) *Timer {
	t := &Timer{every: make(map[string]time.Duration), index: index, enqueue: enqueue}
	for name, d := range map[string]time.Duration{
		nomad.CoreJobEvalGC:               every.Eval,
		nomad.CoreJobJobGC:                every.Job,
		nomad.CoreJobNodeGC:               every.Node,
		nomad.CoreJobDeploymentGC:         every.Deployment,
		nomad.CoreJobRootKeyRotateOrGC:    every.RootKey,
		nomad.CoreJobLocalTokenExpiredGC:  every.Token,
		nomad.CoreJobGlobalTokenExpiredGC: every.Token,
		nomad.CoreJobOneTimeTokenGC:       every.Token,
		nomad.CoreJobVariablesRekey:       rekeyEvery,
		nomad.CoreJobCSIVolumeClaimGC:     every.CSIClaim,
		nomad.CoreJobCSIPluginGC:          every.CSIPlugin,
	} {
		switch {
		case d > 0:
		case name == nomad.CoreJobRootKeyRotateOrGC:
			d = 10 * time.Minute
		default:
			d = 5 * time.Minute
		}
		t.every[name] = d
	}
	return t
}

// Run creates evaluations until ctx ends.
func (t *Timer) Run(ctx context.Context) error {
	next := make(map[string]time.Time)
	start := time.Now()
	for name, d := range t.every {
		next[name] = start.Add(d)
	}
	for {
		name := nearest(next)
		timer := time.NewTimer(time.Until(next[name]))
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case now := <-timer.C:
			next[name] = now.Add(t.every[name])
			t.enqueue(nomad.NewCoreEval(name, t.index(), now))
		}
	}
}

func nearest(next map[string]time.Time) string {
	var first string
	for name, at := range next {
		if first == "" || at.Before(next[first]) {
			first = name
		}
	}
	return first
}
