package identity_test

import (
	"fmt"
	"os"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// fastTemplates makes templates read secrets without a lease again after a second.
const fastTemplates = "client {\n template {\n vault_default_lease_duration = \"1s\"\n}\n}\n"

// secretBlocks are the blocks of a task with the secrets of store, of a job.
const secretBlocks = `
secret "db" {
  provider = "vault"
  path     = "secret/data/default/%[1]s/fixed"
  config {
    engine = "kv_v2"
  }
}
secret "own" {
  provider = "nomad"
  path     = "nomad/jobs/%[1]s"
}
env {
  FIXED = "${secret.db.pass} ${secret.own.user}"
}
template {
  destination = "local/live"
  change_mode = "noop"
  wait {
    min = "1ms"
    max = "1ms"
  }
  data = "{{ with secret \"secret/data/default/%[1]s/live\" }}{{ .Data.data.pass }}{{ end }}"
}
`

// secretTask is vaultTask with secret blocks and a template. It also prints a line at each start if the secrets of store are in
// its environment.
func secretTask(job, name, block, more string) string {
	task := vaultTask(name, block, fmt.Sprintf(secretBlocks, job)+more)
	return strings.Replace(task, "trap ", `[ \"$FIXED\" = \"fixed user\" ] && echo secrets; trap `, 1)
}

// store writes the secrets of a job of secretTask to Vault and to the variables.
func (w *onVault) store(job string) {
	w.t.Helper()
	w.put(job, "fixed", "fixed")
	w.put(job, "live", "one")
	harness.Succeeds(w.t, "write the variable of "+job, func() error {
		_, _, err := w.a.Client.Variables().Update(&api.Variable{Path: "nomad/jobs/" + job, Items: map[string]string{"user": "user"}}, nil)
		return err
	})
}

// put writes a secret of a job to Vault.
func (w *onVault) put(job, name, pass string) {
	w.t.Helper()
	data := map[string]any{"data": map[string]any{"pass": pass}}
	if _, err := w.client(w.v.Root()).Logical().Write("secret/data/default/"+job+"/"+name, data); err != nil {
		w.t.Fatal(err)
	}
}

// follows checks that each start of task t had the values of its secret blocks, and that its template follows Vault.
func (w *onVault) follows(job string, al *api.AllocationListStub, starts int) {
	w.t.Helper()
	if got := w.printed(al, "t", "secrets"); got != starts {
		w.t.Errorf("%d starts with the values of secret blocks, want %d", got, starts)
	}
	w.put(job, "live", "two")
	harness.Within(w.t, harness.Patience, "the template has the new value", func() bool {
		text, err := os.ReadFile(w.path(al, "t", "local", "live"))
		return err == nil && string(text) == "two"
	})
}
