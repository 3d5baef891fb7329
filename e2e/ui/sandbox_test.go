package ui

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/internal/denials"
	"github.com/open-nomad/open-nomad/internal/testaudit"
)

// explaining starts an agent that reports the denials of its sandboxes.
func explaining(t *testing.T) *house {
	t.Helper()
	testaudit.Need(t, denials.Audit)
	h := open(t)
	dir := t.TempDir()
	config := filepath.Join(dir, "explain.hcl")
	text := fmt.Sprintf("acl {\n  enabled = true\n}\nplugin \"exec2\" {\n  config {\n    explain_denials = \"audit\"\n"+
		"    unveil_by_task  = true\n    allow_unprivileged = %t\n  }\n}\n", os.Geteuid() != 0)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	a, err := cluster.Start(t.Context(), cluster.Options{
		Bin:    os.Args[0],
		Dir:    filepath.Join(dir, "agent"),
		Args:   []string{"-dev", "-config=" + config},
		Log:    &log,
		Secret: management,
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	t.Cleanup(func() {
		if err := a.Stop(); err != nil {
			t.Error(err)
		}
	})
	return &house{dir: dir, agent: a, browser: h.browser}
}

// The denial of a real sandbox is an event, with the line that allows it; each layer is shown as declared
// and live.
func TestSandbox(t *testing.T) {
	h := explaining(t)
	id := h.runJob(t, "denied", m{
		"Name":      "t",
		"Driver":    "exec2",
		"Config":    m{"command": "/bin/sh", "args": []string{"-c", "cat /etc/passwd; unshare -U true; exec sleep 3600"}},
		"Resources": m{"CPU": 50, "MemoryMB": 32},
	})
	h.visit(t, visited{name: "allocation-denials", path: "/ui/allocations/" + id, text: `unveil = ["r:/etc/passwd"]`})
	h.visit(t, visited{name: "allocation-sandbox", path: "/ui/allocations/" + id + "/sandbox", text: "no_new_privs"})

	p := h.signedIn(t)
	p.show(views[0])
	p.goTo("/ui/allocations/"+id, "The sandbox denied accesses of this task.")
	p.waitText("fs.read_file on /etc/passwd")
	p.waitText("Sandbox Denial")
	p.waitText("of 32.0 MiB reserved (")
	p.click("Sandbox")
	for _, layer := range []string{"CapEff", "seccomp", "pids.max", "pid namespace"} {
		p.waitText(layer)
	}
	evaluate[bool](p, "document.querySelector('main summary').click() || true")
	p.waitText("landlock")
	p.waitText("rx:/usr/bin")
	p.waitText("As declared")
	if n := p.count("main tbody", "Weaker"); n != 0 {
		t.Error("a layer is weaker than declared")
	}
	p.click("Stop")
	p.inDialog("Stop")
	p.waitText("Only running tasks have a live sandbox.")
}
