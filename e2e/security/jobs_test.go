package security_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// wellFormed is a job with a value in most fields, in the form of the API.
const wellFormed = `{"ID":"fuzz","Name":"fuzz","Type":"service","Region":"global","Namespace":"default","Priority":50,"Datacenters":["*"],"NodePool":"default",
"Meta":{"a":"b"},"Constraints":[{"LTarget":"${attr.kernel.name}","RTarget":"linux","Operand":"="}],
"Affinities":[{"LTarget":"${node.datacenter}","RTarget":"dc1","Operand":"=","Weight":50}],
"Spreads":[{"Attribute":"${node.datacenter}","Weight":50,"SpreadTarget":[{"Value":"dc1","Percent":50}]}],
"Update":{"MaxParallel":1,"HealthCheck":"task_states","MinHealthyTime":1000000,"HealthyDeadline":2000000000,"ProgressDeadline":3000000000},
"TaskGroups":[{"Name":"g","Count":2,"EphemeralDisk":{"SizeMB":300},"ShutdownDelay":0,"Meta":{"x":"y"},
"RestartPolicy":{"Attempts":1,"Interval":5000000000,"Delay":1000000,"Mode":"fail"},
"ReschedulePolicy":{"Attempts":1,"Interval":60000000000,"Delay":5000000000,"DelayFunction":"constant","Unlimited":false},
"Networks":[{"Mode":"host","DynamicPorts":[{"Label":"http"}],"ReservedPorts":[{"Label":"s","Value":23456}]}],
"Tasks":[{"Name":"t","Driver":"mock_driver","Config":{"run_for":"20ms"},"Env":{"A":"${NOMAD_TASK_DIR}"},"Leader":true,"KillTimeout":1000000,"KillSignal":"SIGINT",
"Resources":{"CPU":500,"MemoryMB":64},"LogConfig":{"MaxFiles":1,"MaxFileSizeMB":1},"Identities":[{"Name":"aws","Audience":["aws"],"File":true,"TTL":3600000000000}],
"Lifecycle":null,"DispatchPayload":null,"Services":[]},
{"Name":"pre","Driver":"mock_driver","Config":{"run_for":"1ms"},"Lifecycle":{"Hook":"prestart","Sidecar":false},"Resources":{"CPU":1,"MemoryMB":10}}]}]}`

// mutant returns an unexpected value.
func mutant(rng *rand.Rand) any {
	all := []any{nil, "", "x", "\x00", "../../../etc", "${env[\"HOME\"]}", "${", strings.Repeat("y", 5000), 0, -1, 1 << 30,
		json.Number("9223372036854775807"),
		json.Number("-9223372036854775808"), 0.5, true, []any{}, []any{nil}, []any{nil, map[string]any{}}, map[string]any{},
		map[string]any{"x": nil},
		[]any{map[string]any{"Name": nil}}, "batch", "system", "sysbatch", "regexp", "version", "(", "host", "poststop", "delay",
		time.Hour.Nanoseconds()}
	return all[rng.IntN(len(all))]
}

// mutate changes about one part in twenty of a JSON value.
func mutate(rng *rand.Rand, v any) any {
	if rng.IntN(60) == 0 {
		return mutant(rng)
	}
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			if rng.IntN(80) == 0 {
				delete(v, k)
			} else {
				v[k] = mutate(rng, v[k])
			}
		}
	case []any:
		for i := range v {
			v[i] = mutate(rng, v[i])
		}
		if len(v) > 0 && rng.IntN(30) == 0 {
			return append(v, v[0])
		}
	}
	return v
}

// put sends a body and returns the status and the answer. A connection that ends without an answer
// means that a handler panicked.
func put(t *testing.T, a *cluster.Agent, path string, body any) (int, string) {
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post(a.Address()+path, "application/json", bytes.NewReader(raw))
	if err != nil {
		t.Fatalf("no answer to %s: %v\n%.3000s", path, err, raw)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("broken answer to %s: %v\n%.3000s", path, err, raw)
	}
	if resp.StatusCode >= 500 && !nowhere(resp.StatusCode, string(text)) {
		t.Errorf("%s answers %d %s to\n%.3000s", path, resp.StatusCode, text, raw)
	}
	return resp.StatusCode, string(text)
}

// nowhere reports whether an answer is that of a field to a job of an unknown region.
func nowhere(code int, text string) bool {
	return code == http.StatusInternalServerError && text == "No path to region"
}

// noPanic searches the agent's log for panics: most are recovered, but they are bugs.
func noPanic(t *testing.T, a *cluster.Agent) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(a.Dir, "agent.log"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "panic") {
			t.Errorf("the agent's log: %.1500s", line)
		}
	}
}

// Jobs with randomly broken fields are rejected with a reason, or run. Neither servers nor the
// client panic, and no answer is 500.
func TestHostileJobs(t *testing.T) {
	a := harness.DevAgent(t)
	rounds := 150
	if s := os.Getenv("NOMAD_TEST_ROUNDS"); s != "" {
		rounds, _ = strconv.Atoi(s)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	taken := 0
	for i := range rounds {
		var job map[string]any
		if err := json.Unmarshal([]byte(wellFormed), &job); err != nil {
			t.Fatal(err)
		}
		job, _ = mutate(rng, job).(map[string]any)
		id := fmt.Sprintf("fuzz-%d", i)
		if job != nil && job["ID"] == "fuzz" {
			job["ID"] = id
		}
		body := map[string]any{"Job": job, "Diff": true}
		put(t, a, "/v1/validate/job", body)
		put(t, a, "/v1/job/"+id+"/plan", body)
		if code, text := put(t, a, "/v1/jobs", body); code == http.StatusOK {
			taken++
			put(t, a, "/v1/job/"+id+"/plan", map[string]any{"Job": map[string]any{"ID": id, "TaskGroups": []any{}}, "Diff": true})
			put(t, a, "/v1/job/"+id+"/evaluate", map[string]any{"JobID": id})
		} else if !nowhere(code, text) && (code != http.StatusBadRequest || text == "") {
			t.Errorf("rejected with %d %q", code, text)
		}
		if i%25 == 24 {
			drop(t, a)
		}
	}
	drop(t, a)
	if taken == 0 || taken == rounds {
		t.Errorf("%d of %d mutations were taken: the test does not test", taken, rounds)
	}
	if _, err := a.Client.Agent().Health(); err != nil {
		t.Errorf("the agent is not healthy: %v", err)
	}
	noPanic(t, a)
}

func drop(t *testing.T, a *cluster.Agent) {
	t.Helper()
	jobs, _, err := a.Client.Jobs().List(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range jobs {
		if _, _, err := a.Client.Jobs().Deregister(j.ID, true, nil); err != nil {
			t.Errorf("Deregister(%q) = %v", j.ID, err)
		}
	}
}
