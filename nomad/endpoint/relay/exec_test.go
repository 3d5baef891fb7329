package relay_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/drivers"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
)

// TestExec_KindOfInstance checks that exec in a task requires alloc-node-exec if it is privileged, or
// if the kind of its driver's instance does not isolate it. Servers learn the kind from the node.
func TestExec_KindOfInstance(t *testing.T) {
	attributes := map[string]string{nomad.NodeTicketAttribute: nomad.NodeTicketVersion}
	for name, kind := range map[string]string{"raw-open": "raw_exec", "exec2-open": "exec2", "exec2": "raw_exec", "docker": "docker",
		"docker-p": "docker", "unknown": ""} {
		attributes["driver."+name] = "1"
		if kind != "" {
			attributes["driver."+name+".backend"] = kind
		}
	}
	attributes["driver.docker-p.privileged.enabled"], attributes["driver.raw-open.privileged.legacy"] = "true", "true"
	g := servertest.StartACL(t, func(c *server.Config) { c.Kinds = drivers.Table() })
	r := joinRogue(t, g.Server, attributes)
	secret := g.TokenWith(`namespace "default" { policy = "write" }`)
	for _, name := range []string{"mock_driver", "raw-open", "exec2-open", "exec2", "docker", "docker-p", "unknown"} {
		job := servertest.BatchJob(name, 1)
		task := job.TaskGroups[0].Tasks[0]
		task.Driver, task.Privileged = name, name == "docker-p"
		switch {
		case strings.HasPrefix(name, "docker"):
			task.Config = map[string]any{"image": "x"}
		case name != "mock_driver":
			task.Config = map[string]any{"command": "x"}
		}
		g.Must("Job.Register", &message.JobRegisterRequest{Job: job}, nil)
	}
	for _, a := range r.Allocs(7) {
		open := slices.Contains([]string{"mock_driver", "raw-open", "docker-p"}, a.JobID)
		_, err := relay(g, secret, "Allocations.Exec", &message.AllocExecRequest{AllocID: a.ID, Task: "t", Cmd: []string{"x"}})
		if refused := err != nil && strings.Contains(err.Error(), "needs alloc-node-exec"); refused != open || !open && err != nil {
			t.Errorf("exec in a task of %s = %v, refused: want %t", a.JobID, err, open)
		}
	}
}
