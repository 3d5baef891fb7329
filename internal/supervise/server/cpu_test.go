package server_test

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/cgroup"
	"github.com/open-nomad/open-nomad/internal/supervise"
	"github.com/open-nomad/open-nomad/internal/supervise/proc"
)

// limited returns a task with a CPU quota and a weight.
func (r *rig) limited(s *proc.Spec, quota int64) *proc.Spec {
	r.t.Helper()
	if s.Group == nil {
		r.t.Skip("needs control groups")
	}
	s.Group.Limits = cgroup.Limits{CPUQuota: quota, CPUShares: 512}
	return s
}

// quota returns the CPU quota of a task's group.
func (r *rig) quota(s *proc.Spec) cgroup.Setting {
	r.t.Helper()
	settings := r.group(s).Compare(cgroup.Limits{CPUQuota: s.Group.Limits.CPUQuota})
	if len(settings) != 1 {
		r.t.Fatalf("Compare() = %+v, want the quota", settings)
	}
	return settings[0]
}

func (r *rig) group(s *proc.Spec) *cgroup.Group {
	r.t.Helper()
	h, err := cgroup.Detect()
	if err != nil {
		r.t.Fatal(err)
	}
	g, err := h.Open(s.Group.Parent, s.Group.Name)
	if err != nil {
		r.t.Fatal(err)
	}
	return g
}

// TestQuotaAfterCrash checks that a task gets its quota from the next supervisor if the first one
// dies between the execve and setting the quota. The test simulates this by removing the quota.
func TestQuotaAfterCrash(t *testing.T) {
	for name, next := range map[string]func(r *rig, c *supervise.Client){
		"killed":   func(r *rig, _ *supervise.Client) { r.crash() },
		"upgraded": func(r *rig, c *supervise.Client) { r.upgrade(c) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			c := r.client()
			s := r.limited(r.spec("sleep 1000"), 50_000)
			below := r.limited(r.withInit("sleep 1000"), 30_000)
			for _, s := range []*proc.Spec{s, below} {
				r.start(c, s)
				if q := r.quota(s); !q.Enforced {
					t.Fatalf("quota after the start = %+v", q)
				}
				r.unlimit(s)
				if q := r.quota(s); q.Enforced {
					t.Fatalf("quota = %+v, want it gone", q)
				}
			}
			next(r, c)
			for _, s := range []*proc.Spec{s, below} {
				if task, err := c.Task(t.Context(), s.ID); err != nil || task.Exit != nil {
					t.Fatalf("Task() = %+v, %v, want it running", task, err)
				}
				if q := r.quota(s); !q.Enforced {
					t.Errorf("quota of the adopted task = %+v, want it set again", q)
				}
			}
		})
	}
}

func (r *rig) upgrade(c *supervise.Client) {
	r.t.Helper()
	if err := c.Upgrade(r.t.Context()); err != nil {
		r.t.Fatalf("Upgrade() = %v", err)
	}
}

// unlimit removes the quota.
func (r *rig) unlimit(s *proc.Spec) {
	r.t.Helper()
	h, err := cgroup.Detect()
	if err != nil {
		r.t.Fatal(err)
	}
	file, value := filepath.Join(h.V2, s.Group.Parent, s.Group.Name, "cpu.max"), "max"
	if m, ok := h.V1["cpu"]; ok {
		file, value = filepath.Join(m, s.Group.Parent, s.Group.Name, "cpu.cfs_quota_us"), "-1"
	}
	if err := os.WriteFile(file, []byte(value), 0); err != nil {
		r.t.Fatal(err)
	}
}

// TestQuotaRefused checks a quota that the kernel refuses. It is set when the program already runs,
// so the start kills the program and its children and returns the reason.
func TestQuotaRefused(t *testing.T) {
	for _, init := range []string{"init", "no init"} {
		t.Run(init, func(t *testing.T) {
			r := newRig(t)
			c := r.client()
			s := r.spec("setsid sleep 1000 & sleep 1000")
			if init == "init" {
				s = r.withInit("setsid sleep 1000 & sleep 1000")
			}
			r.limited(s, math.MaxInt64/2)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			_, err := c.Start(ctx, s)
			if err == nil || !strings.Contains(err.Error(), "CPU time") || !strings.Contains(err.Error(), "cpu.") {
				t.Errorf("Start() = %v, want it to name the quota", err)
			}
			if _, err := c.Task(ctx, s.ID); !errors.Is(err, proc.ErrUnknownTask) {
				t.Errorf("Task() = %v, want it to be unknown", err)
			}
			if files := r.group(s).JoinFiles(); len(files) > 0 {
				t.Errorf("the group is still there: %q", files)
			}
			if _, err := os.Stat(r.group(s).Dir()); r.group(s).Dir() != "" && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("Stat(%s) = %v, want the group to be gone, with its processes", r.group(s).Dir(), err)
			}
		})
	}
}
