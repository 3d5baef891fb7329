package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	sdk "github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// metricsConfig publishes all metrics, and keeps them for the duration of the test.
const metricsConfig = `telemetry {
  in_memory_collection_interval     = "1h"
  in_memory_retention_period        = "1h"
  publish_allocation_metrics        = true
  publish_node_metrics              = true
  include_alloc_metadata_in_metrics = true
}
`

// metricRow is a row of testdata/metrics.tsv.
type metricRow struct{ name, kind, labels, from string }

func metricRows(t *testing.T) []metricRow {
	t.Helper()
	text, err := os.ReadFile("testdata/metrics.tsv")
	if err != nil {
		t.Fatal(err)
	}
	var rows []metricRow
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(strings.TrimSpace(line), "\t")
		if len(f) != 4 {
			t.Fatalf("metrics.tsv: %q has %d columns, want 4", line, len(f))
		}
		rows = append(rows, metricRow{f[0], f[1], f[2], f[3]})
	}
	return rows
}

// TestMetrics checks the list of metrics: a real agent that runs jobs has every one of them with
// its labels, as JSON and for Prometheus, through the official SDK.
func TestMetrics(t *testing.T) {
	client := metricsAgent(t)
	var want []metricRow
	for _, row := range metricRows(t) {
		if row.from == "agent" {
			row.name = strings.ReplaceAll(row.name, "<service>", "job")
			want = append(want, row)
		}
	}
	// A metric counts once it was seen: Prometheus output drops it after a minute without updates.
	inJSON, inText := map[string][]map[string]bool{}, map[string][]map[string]bool{}
	harness.Succeeds(t, "show every metric", func() error {
		summary, _, err := client.Operator().MetricsSummary(nil)
		if err != nil {
			return err
		}
		text, err := client.Operator().Metrics(&sdk.QueryOptions{Params: map[string]string{"format": "prometheus"}})
		if err != nil {
			return err
		}
		maps.Copy(inJSON, jsonMetrics(summary))
		maps.Copy(inText, promMetrics(string(text)))
		var missing []string
		for _, row := range want {
			if !labelled(inJSON[row.kind+" "+row.name], row.labels) {
				missing = append(missing, "JSON: "+row.kind+" "+row.name+" "+row.labels)
			}
			if !labelled(inText[row.kind+" "+promName(row.name)], row.labels) {
				missing = append(missing, "Prometheus: "+row.kind+" "+row.name+" "+row.labels)
			}
		}
		if len(missing) > 0 {
			return fmt.Errorf("missing:\n%s", strings.Join(missing, "\n"))
		}
		return nil
	})
}

// metricsAgent starts an agent and exercises the metrics of the list.
func metricsAgent(t *testing.T) *sdk.Client {
	t.Helper()
	dir := harness.TempDir(t)
	cfg := filepath.Join(dir, "metrics.hcl")
	if err := os.WriteFile(cfg, []byte(metricsConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	a := harness.Start(t, cluster.Options{Dir: dir, Args: []string{"-dev", "-config=" + cfg}})
	client, err := sdk.NewClient(&sdk.Config{Address: a.Address()})
	if err != nil {
		t.Fatal(err)
	}
	fast := "update {\n min_healthy_time = \"10ms\"\n health_check = \"task_states\"\n}"
	runs := metricsJob(t, client, harness.Job("web", "meta {\n owner = \"me\"\n job = \"forged\"\n}\n"+fast,
		harness.Shell("trap : HUP; while true; do sleep 0.05; done", `kill_timeout = "100ms"`)))
	metricsJob(t, client, harness.Job("fails", "type = \"batch\"\nreschedule {\n attempts = 0\n unlimited = false\n}",
		"restart {\n attempts = 1\n delay = \"1ms\"\n mode = \"fail\"\n}"+harness.Shell("exit 1")))
	ended := metricsJob(t, client, harness.Job("ends", `type = "batch"`, harness.Shell("exit 0")))
	metricsJob(t, client, harness.Job("all", `type = "system"`, harness.Shell("sleep 1000")))
	metricsJob(t, client, harness.Job("once", `type = "sysbatch"`, harness.Shell("exit 0")))
	metricsJob(t, client, harness.Job("huge", "", strings.Replace(harness.Shell("exit 0"), "memory = 10", "memory = 99999999", 1)))
	useAlloc(t, client, runs, ended)
	useVariables(t, client)
	if _, _, err := client.Jobs().Info("web", nil); err != nil {
		t.Fatal(err)
	}
	if err := client.System().GarbageCollect(); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Nodes().ToggleEligibility("11111111-2222-3333-4444-555555555555", true, nil); err == nil {
		t.Fatal("the eligibility of an unknown node was set")
	}
	return client
}

// metricsJob registers a job and returns its ID.
func metricsJob(t *testing.T, client *sdk.Client, text string) string {
	t.Helper()
	parsed, err := client.Jobs().ParseHCL(text, true)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if _, _, err := client.Jobs().Register(parsed, nil); err != nil {
		t.Fatal(err)
	}
	return *parsed.ID
}

// allocIn returns the allocation of a job once it has the status.
func allocIn(t *testing.T, client *sdk.Client, job, status string) (alloc *sdk.Allocation) {
	t.Helper()
	harness.Succeeds(t, job+" is "+status, func() error {
		stubs, _, err := client.Jobs().Allocations(job, false, nil)
		if err != nil {
			return err
		}
		if len(stubs) != 1 || stubs[0].ClientStatus != status {
			return os.ErrNotExist
		}
		alloc, _, err = client.Allocations().Info(stubs[0].ID, nil)
		return err
	})
	return alloc
}

// useAlloc makes requests that the client answers.
func useAlloc(t *testing.T, client *sdk.Client, runs, ended string) {
	t.Helper()
	web, over := allocIn(t, client, runs, sdk.AllocClientStatusRunning), allocIn(t, client, ended, sdk.AllocClientStatusComplete)
	stop := make(chan struct{})
	defer close(stop)
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	_, err := client.Allocations().Stats(web, nil)
	must("stats", err)
	_, err = client.Allocations().Checks(web.ID, nil)
	must("checks", err)
	_, err = client.Allocations().Exec(t.Context(), web, "t", false, []string{"/bin/true"}, strings.NewReader(""), os.Stderr, os.Stderr,
		nil, nil)
	must("exec", err)
	must("signal", client.Allocations().Signal(web, nil, "t", "SIGHUP"))
	must("restart", client.Allocations().Restart(web, "t", nil))
	must("collect", client.Allocations().GC(over, nil))
	_, err = client.Nodes().Stats(web.NodeID, nil)
	must("node stats", err)
	_, err = client.Nodes().Meta().Apply(&sdk.NodeMetaApplyRequest{NodeID: web.NodeID, Meta: map[string]*string{"rack": &web.ID}}, nil)
	must("apply metadata", err)
	_, err = client.Nodes().Meta().Read(web.NodeID, nil)
	must("read metadata", err)
	_, _, err = client.AllocFS().List(web, "/", nil)
	must("list", err)
	_, _, err = client.AllocFS().Stat(web, "/alloc/logs/t.stdout.0", nil)
	must("stat", err)
	client.AllocFS().Stream(web, "/alloc/logs/t.stdout.0", sdk.OriginStart, 0, stop, nil)
	logs, errs := client.AllocFS().Logs(web, false, "t", sdk.FSLogNameStdout, sdk.OriginStart, 0, stop, nil)
	select {
	case <-logs:
	case err := <-errs:
		must("logs", err)
	case <-t.Context().Done():
	}
	must("collect all", client.Nodes().GC(web.NodeID, nil))
}

// useVariables executes every operation on variables.
func useVariables(t *testing.T, client *sdk.Client) {
	t.Helper()
	v := sdk.NewVariable("a/b")
	v.Items = sdk.VariableItems{"k": "v"}
	vars := client.Variables()
	if _, _, err := vars.CheckedUpdate(v, nil); err != nil { // index 0: it does not exist
		t.Fatal(err)
	}
	if _, _, err := vars.Update(v, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := vars.Delete("a/b", nil); err != nil {
		t.Fatal(err)
	}
	again, _, err := vars.Create(v, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := vars.CheckedDelete("a/b", again.ModifyIndex, nil); err != nil {
		t.Fatal(err)
	}
	v.Lock = &sdk.VariableLock{TTL: "20s", LockDelay: "10s"}
	locked, _, err := vars.AcquireLock(v, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := vars.ReleaseLock(locked, nil); err != nil {
		t.Fatal(err)
	}
}

// jsonMetrics returns the label sets by kind and name.
func jsonMetrics(s *sdk.MetricsSummary) map[string][]map[string]bool {
	out := map[string][]map[string]bool{}
	add := func(name string, labels map[string]string) {
		set := map[string]bool{}
		for l := range labels {
			set[l] = true
		}
		out[name] = append(out[name], set)
	}
	for _, g := range s.Gauges {
		add("gauge "+g.Name, g.DisplayLabels)
	}
	for _, c := range s.Counters {
		add("counter "+c.Name, c.DisplayLabels)
	}
	for _, c := range s.Samples {
		add("sample "+c.Name, c.DisplayLabels)
	}
	return out
}

var (
	promLine  = regexp.MustCompile(`^(\w+)(?:\{(.*)\})? `)
	promLabel = regexp.MustCompile(`(\w+)="`)
	promType  = regexp.MustCompile(`^# TYPE (\w+) (\w+)`)
)

// promMetrics is jsonMetrics for the Prometheus text format.
func promMetrics(text string) map[string][]map[string]bool {
	kinds := map[string]string{"gauge": "gauge", "counter": "counter", "summary": "sample"}
	out := map[string][]map[string]bool{}
	kind, name := "", ""
	for line := range strings.Lines(text) {
		if m := promType.FindStringSubmatch(line); m != nil {
			kind, name = kinds[m[2]], m[1]
		}
		m := promLine.FindStringSubmatch(line)
		if m == nil || m[1] != name && m[1] != name+"_sum" {
			continue
		}
		set := map[string]bool{}
		for _, l := range promLabel.FindAllStringSubmatch(m[2], -1) {
			set[l[1]] = true
		}
		out[kind+" "+name] = append(out[kind+" "+name], set)
	}
	return out
}

// labelled reports whether one of the sets equals the labels of a row and host, ignoring labels
// from job metadata.
func labelled(sets []map[string]bool, labels string) bool {
	want := []string{"host"}
	if labels != "-" {
		want = append(want, strings.Split(labels, ",")...)
	}
	slices.Sort(want)
	return slices.ContainsFunc(sets, func(set map[string]bool) bool {
		set = maps.Clone(set)
		delete(set, "owner")
		return slices.Equal(slices.Sorted(maps.Keys(set)), want)
	})
}

func promName(name string) string { return strings.NewReplacer(".", "_", "-", "_").Replace(name) }

// TestMetricsFollowTheirSettings: without publish_allocation_metrics no metric names an allocation,
// without publish_node_metrics none describes the machine, and no label can be forged.
func TestMetricsFollowTheirSettings(t *testing.T) {
	config := filepath.Join(t.TempDir(), "quiet.hcl") // -dev publishes them
	harness.WriteFile(t, config, "telemetry {\n publish_node_metrics = false\n publish_allocation_metrics = false\n}\n")
	a := harness.DevAgent(t, "-config="+config)
	client, err := sdk.NewClient(&sdk.Config{Address: a.Address()})
	if err != nil {
		t.Fatal(err)
	}
	alloc := allocIn(t, client, metricsJob(t, client, harness.Job("web", "", harness.Shell("while true; do sleep 0.05; done"))),
		sdk.AllocClientStatusRunning)
	harness.Succeeds(t, "count the start", func() error {
		text, err := client.Operator().Metrics(&sdk.QueryOptions{Params: map[string]string{"format": "prometheus"}})
		if err != nil {
			return err
		}
		if !strings.Contains(string(text), "nomad_client_allocs_running{") ||
			!strings.Contains(string(text), "nomad_nomad_job_summary_running{") {
			return os.ErrNotExist
		}
		for _, never := range []string{alloc.ID, "alloc_id=", "nomad_client_host_", "nomad_client_allocs_memory_", alloc.EvalID} {
			if strings.Contains(string(text), never) {
				t.Errorf("the metrics contain %q", never)
			}
		}
		return nil
	})
}

var (
	docName  = regexp.MustCompile("`(nomad\\.[^`*]+)`")
	docBrace = regexp.MustCompile(`\{([^{}]*)\}`)
)

// expand returns the names that a name with braces represents.
func expand(name string) []string {
	at := docBrace.FindStringSubmatchIndex(name)
	if at == nil {
		return []string{name}
	}
	var out []string
	for one := range strings.SplitSeq(name[at[2]:at[3]], ",") {
		out = append(out, expand(name[:at[0]]+one+name[at[1]:])...)
	}
	return out
}

// TestMetricsAreDocumented: the tables of the page and the list have the same metrics.
func TestMetricsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../website/content/docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	has, lacks, ok := strings.Cut(string(text), "## Not in this version")
	if !ok {
		t.Fatal("metrics.md has no section on what is not in this version")
	}
	for _, part := range []struct {
		what, text string
		absent     bool
	}{{"present", has, false}, {"absent", lacks, true}} {
		var docs, list []string
		for line := range strings.Lines(part.text) {
			first, _, _ := strings.Cut(strings.TrimPrefix(line, "|"), "|")
			if !strings.HasPrefix(line, "| `nomad.") {
				continue
			}
			for _, m := range docName.FindAllStringSubmatch(first, -1) {
				docs = append(docs, expand(m[1])...)
			}
		}
		for _, row := range metricRows(t) {
			if strings.HasPrefix(row.from, "absent: ") == part.absent {
				list = append(list, row.name)
			}
		}
		slices.Sort(docs)
		slices.Sort(list)
		for _, name := range list {
			if !slices.Contains(docs, name) {
				t.Errorf("metrics.md does not have %s among the %s ones", name, part.what)
			}
		}
		for i, name := range docs {
			if !slices.Contains(list, name) || i > 0 && docs[i-1] == name {
				t.Errorf("metrics.md has %s among the %s ones, the list does not, or once", name, part.what)
			}
		}
	}
}
