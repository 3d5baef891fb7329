package identity_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// carelessTasks are tasks whose authors put tokens and values of secrets into fields that errors repeat. %s is such a reference.
var carelessTasks = map[string]string{
	"command":  "driver = \"raw_exec\"\n config {\n command = \"/none/%s\"\n}\n",
	"args":     "driver = \"exec2\"\n config {\n command = \"/none/x\"\n args = [\"%s\"]\n}\n",
	"work-dir": "driver = \"raw_exec\"\n config {\n command = \"/bin/true\"\n work_dir = \"/none/%s\"\n}\n",
	"artifact": "driver = \"raw_exec\"\n config {\n command = \"/bin/true\"\n}\n artifact {\n source = \"http://127.0.0.1:1/%s?k=%[1]s\"\n}\n",
	"options": "driver = \"raw_exec\"\n config {\n command = \"/bin/true\"\n}\n artifact {\n source = \"git::http://127.0.0.1:1/x\"\n" +
		" options {\n ref = \"%s\"\n}\n}\n",
	"dest": "driver = \"raw_exec\"\n config {\n command = \"/bin/true\"\n}\n artifact {\n source = \"http://127.0.0.1:1/x\"\n" +
		" destination = \"local/%s\"\n}\n",
	"source": "driver = \"raw_exec\"\n config {\n command = \"/bin/true\"\n}\n template {\n source = \"local/%s\"\n destination = \"local/x\"\n}\n",
	"template": "driver = \"raw_exec\"\n config {\n command = \"/bin/true\"\n}\n env {\n X = \"%s\"\n}\n" +
		"template {\n data = \"{{ env \\\"X\\\" | parseInt }}\"\n destination = \"local/x\"\n}\n",
	"missing": "driver = \"raw_exec\"\n config {\n command = \"/bin/true\"\n}\n env {\n X = \"%s\"\n}\n" +
		"template {\n data = \"{{ secret (printf \\\"secret/none/%%s\\\" (env \\\"X\\\")) }}\"\n destination = \"local/x\"\n}\n",
	"path": "driver = \"raw_exec\"\n config {\n command = \"/bin/true\"\n}\n secret \"later\" {\n provider = \"vault\"\n path = \"secret/none/%s\"\n}\n",
}

// TestVault_PublicPlaces checks that no token and no value of a secret reaches events, the API, metrics or the log, when the
// author of a job puts references to them into fields that errors repeat.
func TestVault_PublicPlaces(t *testing.T) {
	t.Parallel() // it mostly waits
	w := startVault(t, "")
	defer w.purge()
	w.trust()
	w.v.Allow("permission denied") // of a template that reads when its task has ended
	const value = "canary \"value/1"
	_, _, err := w.a.Client.Variables().Update(&api.Variable{Path: "nomad/jobs/careless", Items: map[string]string{"pass": value}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var tasks []string
	names := slices.Sorted(maps.Keys(carelessTasks))
	references := map[string]string{"token": "${VAULT_TOKEN}", "copy": "${COPY}", "value": "${secret.own.pass}", "identity": "${NOMAD_TOKEN}"}
	groups := 0
	for _, kind := range slices.Sorted(maps.Keys(references)) {
		for _, name := range names {
			if name == "path" && kind == "value" {
				continue // refused at registration
			}
			fields := fmt.Sprintf(carelessTasks[name], references[kind])
			copied := "env {\n COPY = \"${VAULT_TOKEN}\"\n}\n"
			if strings.Contains(fields, "env {\n") {
				copied, fields = "", strings.Replace(fields, "env {\n", "env {\n COPY = \"${VAULT_TOKEN}\"\n", 1)
			}
			if kind == "copy" && copied == "" {
				continue // variables of one block do not refer to each other
			}
			groups++
			tasks = append(tasks, fmt.Sprintf("group %q {\n restart {\n attempts = 0\n mode = \"fail\"\n}\n reschedule {\n attempts = 0\n unlimited = false\n}\n"+
				" task \"t\" {\n vault {}\n identity {\n env = true\n}\n secret \"own\" {\n provider = \"nomad\"\n path = \"nomad/jobs/careless\"\n}\n"+
				" resources {\n cpu = 10\n memory = 20\n}\n%s%s}\n}\n", kind+"-"+name, fields, copied))
		}
	}
	harness.Run(t, w.a, "job \"careless\" {\n type = \"batch\"\n"+strings.Join(tasks, "")+"}\n")
	var all []*api.AllocationListStub
	harness.Within(t, harness.Patience, "each task has an event about its fault", func() bool {
		all = harness.AllAllocs(t, w.a, "careless")
		for _, al := range all {
			if al.ClientStatus != "failed" && !strings.Contains(strings.Join(messages(al, "t"), "\n"), "Missing") {
				return false
			}
		}
		return len(all) == groups
	})
	secrets := append(slices.Collect(maps.Keys(w.v.Records())), "canary", "eyJ")
	if len(secrets) < groups {
		t.Errorf("%d tokens, want one of each of %d tasks", len(secrets)-2, groups)
	}
	for _, al := range all {
		search(t, al.TaskGroup, strings.Join(messages(al, "t"), "\n"), secrets)
		for key, text := range al.TaskStates["t"].Events[len(al.TaskStates["t"].Events)-1].Details {
			search(t, al.TaskGroup+" "+key, text, secrets)
		}
	}
	search(t, "the log", harness.Content(t, filepath.Join(w.dir, "agent.log")), secrets)
}
