package template_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/catalog"
)

// on returns an instance of the service web on a node.
func on(node, id string) *catalog.Instance {
	return &catalog.Instance{NodeName: node, Registration: catalog.Registration{ServiceName: "web", ID: id, NodeID: node, Datacenter: "dc7"}}
}

// The functions of Consul have the node of the task, and follow services and keys. The next agent applies a missed
// change, and an outage changes nothing.
func TestFunctionsOfConsul(t *testing.T) {
	t.Parallel() // it mostly waits
	w := newWorld(t)
	w.vars.Serve("/v1/service/web/instances", []*catalog.Instance{on("node-1", "a"), on("node-2", "b")})
	w.vars.Set("consul/app/limit", map[string]string{"value": "s3cret-one"})
	list := with(text("local/x", `{{ range datacenters }}{{ . }}{{ end }} {{ range service "web~_agent" }}{{ .ID }}{{ end }} {{ key "app/limit@dc7" }}`),
		func(t *nomad.Template) { t.ChangeMode, t.ChangeSignal = "signal", "SIGHUP" })
	b := w.runs(list)
	if got := w.file("local/x"); got != "dc7 ba s3cret-one" {
		t.Errorf("the file = %q", got)
	}
	w.vars.Set("consul/app/limit", map[string]string{"value": "s3cret-two"})
	w.until("the key is followed, with a signal", func() bool { return w.file("local/x") == "dc7 ba s3cret-two" && len(w.task.sent()) == 1 })
	w.vars.Serve("/v1/service/web/instances", []*catalog.Instance{on("node-1", "a")})
	w.until("the service is followed, with a signal", func() bool { return w.file("local/x") == "dc7 a s3cret-two" && len(w.task.sent()) == 2 })

	b.stop()
	w.restartAgent()
	w.vars.Serve("/v1/service/web/instances", []*catalog.Instance{on("node-2", "b")})
	again := w.start(list)
	again.Running = true
	w.mustBegin(again)
	w.all.Started(nil)
	w.until("the missed change is applied", func() bool { return w.file("local/x") == "dc7 b s3cret-two" && len(w.task.sent()) == 3 })

	w.vars.Refuse("/v1/service/web/instances")
	w.until("the outage is reported", func() bool {
		return count(w.task.messages(nomad.TaskTemplate), "Cannot read health.service(web~_agent|passing): ") > 0
	})
	if got := w.file("local/x"); got != "dc7 b s3cret-two" {
		t.Errorf("the file = %q after the outage", got)
	}
	for _, message := range w.task.messages(nomad.TaskTemplate) {
		if strings.Contains(message, "s3cret") {
			t.Errorf("an event contains the value: %s", message)
		}
	}
	if killed := w.task.killed(); len(killed) > 0 {
		t.Errorf("the task was killed: %v", killed)
	}
}
