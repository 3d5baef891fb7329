package csi_test

import (
	"fmt"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// user is a job that uses a volume, mounted at /data.
type user struct {
	id     string
	source string
	script string
	node   string // "" for any
	kind   string // default: batch
	count  int    // default: 1
	access string // default: single-node-writer
	volume string // further lines of the volume block
	group  string // further lines of the group
	task   string // further lines of the task
	env    string
}

// forever is a script that runs until it is stopped.
const forever = "trap 'exit 0' INT TERM; echo begun; while :; do sleep 0.1; done"

func (u user) text() string {
	if u.kind == "" {
		u.kind = "batch"
	}
	if u.count == 0 {
		u.count = 1
	}
	if u.access == "" {
		u.access = "single-node-writer"
	}
	pin := ""
	if u.node != "" {
		pin = fmt.Sprintf("constraint {\n attribute = \"$${node.unique.name}\"\n value = %q\n}\n", u.node)
	}
	pace := ""
	if u.kind == "service" {
		pace = "migrate {\n min_healthy_time = \"100ms\"\n}\nupdate {\n min_healthy_time = \"100ms\"\n}\n"
	}
	group := fmt.Sprintf(`count = %d
    %s
    restart {
      attempts = 0
      mode     = "fail"
    }
    reschedule {
      delay          = "5s"
      delay_function = "constant"
      unlimited      = true
    }
    %s
    volume "v" {
      type            = "csi"
      source          = %q
      access_mode     = %q
      attachment_mode = "file-system"
      read_only       = %t
      %s
    }
    %s
    task "t" {
      driver = "exec"
      user   = "root"
      config {
        command = "/bin/sh"
        args    = ["-c", %q]
      }
      volume_mount {
        volume      = "v"
        destination = "/data"
      }
      kill_timeout = "20s"
      env {
        %s
      }
      %s
      resources {
        cpu    = 10
        memory = 32
      }
    }`, u.count, pin, pace, u.source, u.access, strings.HasSuffix(u.access, "reader-only"), u.volume, u.group, u.script, u.env, u.task)
	return strings.ReplaceAll(harness.Job(u.id, fmt.Sprintf("type = %q", u.kind), group), "$${", "${")
}

// run registers the job of a user.
func (r *rig) run(u user) {
	r.t.Helper()
	harness.Run(r.t, r.Server, u.text())
}

// completes runs a batch job to its end, and returns its allocation and its output.
func (r *rig) completes(u user) (*api.AllocationListStub, string) {
	r.t.Helper()
	r.run(u)
	al := harness.Await(r.t, r.Server, u.id, "complete", 1)[0]
	return al, harness.Log(r.Server, al)
}

// runs runs a job, and waits until its scripts have begun.
func (r *rig) runs(u user) []*api.AllocationListStub {
	r.t.Helper()
	r.run(u)
	return r.begun(u.id, max(u.count, 1))
}

// begun waits until the scripts of n allocations have printed "begun".
func (r *rig) begun(job string, n int) []*api.AllocationListStub {
	r.t.Helper()
	all := harness.Await(r.t, r.Server, job, "running", n)
	for _, al := range all {
		harness.Within(r.t, harness.Patience, "the script of "+al.Name+" has begun", func() bool {
			return strings.HasSuffix(harness.Log(r.Server, al), "begun\n")
		})
	}
	return all
}
