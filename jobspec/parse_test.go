package jobspec_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/jobspec"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func mustParse(t *testing.T, src string) *api.Job {
	t.Helper()
	job, err := jobspec.Parse(jobspec.Config{Filename: "test.hcl", Source: []byte(src), Strict: true})
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	return job
}

func parse(t *testing.T, src string) *api.Job {
	t.Helper()
	job, err := jobspec.Parse(jobspec.Config{Filename: "test.hcl", Source: lines(src), Strict: true})
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	return job
}

// lines puts each brace on its own line, as HCL requires, so that tests can write
// several blocks on one line.
func lines(src string) []byte {
	return []byte(strings.NewReplacer("{ ", "{\n", " }", "\n}").Replace(src))
}

// TestGolden compares the jobs of testdata/*.hcl with the .json files of the same name.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.hcl")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			src, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			job, err := jobspec.Parse(jobspec.Config{Filename: name, Source: src, Strict: true, AllowFS: true})
			if err != nil {
				t.Fatalf("Parse: %v", err)
			}
			got, err := json.MarshalIndent(strip(t, job), "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden := strings.TrimSuffix(name, ".hcl") + ".json"
			if *update {
				if err := os.WriteFile(golden, append(got, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != strings.TrimRight(string(want), "\n") {
				t.Errorf("%s differs; run with -update and review. Got:\n%s", golden, got)
			}
		})
	}
}

// strip returns the job as JSON without null, empty, false and zero values.
func strip(t *testing.T, job *api.Job) any {
	t.Helper()
	raw, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return prune(v)
}

func prune(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if e = prune(e); e == nil {
				delete(v, k)
			} else {
				v[k] = e
			}
		}
		if len(v) == 0 {
			return nil
		}
	case []any:
		for i := range v {
			v[i] = prune(v[i])
		}
		if len(v) == 0 {
			return nil
		}
	case string:
		if v == "" {
			return nil
		}
	case float64:
		if v == 0 {
			return nil
		}
	case bool:
		if !v {
			return nil
		}
	}
	return v
}

func TestJobForms(t *testing.T) {
	for _, c := range []struct {
		name, src string
		check     func(j *api.Job) any
		want      any
	}{
		{"ID from the label", `job "a" {}`, func(j *api.Job) any { return *j.ID + *j.Name }, "aa"},
		{"own ID", `job "a" { id = "b" }`, func(j *api.Job) any { return *j.ID + *j.Name }, "bb"},
		{"task alone", `job "a" {
			vault { role = "r" }
			task "t" { driver = "d" }
		}`, func(j *api.Job) any { return *j.TaskGroups[0].Name + j.TaskGroups[0].Tasks[0].Vault.Role }, "tr"},
		{"vault of a group", `job "a" {
			vault { role = "job" }
			group "g" {
				vault { role = "group" }
				task "t" {}
				task "u" { vault { role = "task" } }
			}
		}`, func(j *api.Job) any {
			return j.TaskGroups[0].Tasks[0].Vault.Role + " " + j.TaskGroups[0].Tasks[1].Vault.Role
		}, "group task"},
		{"secrets", `job "a" {
			secret "j" {}
			group "g" {
				secret "g" {}
				task "t" {}
				task "u" { secret "u" {} }
			}
		}`, func(j *api.Job) any {
			var names []string
			for _, t := range j.TaskGroups[0].Tasks {
				for _, s := range t.Secrets {
					names = append(names, t.Name+s.Name)
				}
			}
			return names
		}, []string{"tg", "tj", "uu", "ug", "uj"}},
		{"ports", `job "a" { group "g" { network {
			port "http" { static = 80 }
			port "rpc" { to = -1 }
		} } }`, func(j *api.Job) any {
			n := j.TaskGroups[0].Networks[0]
			return []string{n.ReservedPorts[0].Label, n.DynamicPorts[0].Label}
		}, []string{"http", "rpc"}},
		{"identities", `job "a" { group "g" { task "t" {
			identity { env = true }
			identity {
				name = "aws"
				aud  = ["sts"]
				ttl  = "1h"
			}
		} } }`, func(j *api.Job) any {
			t := j.TaskGroups[0].Tasks[0]
			return []any{t.Identity.Env, len(t.Identities), t.Identities[0].TTL}
		}, []any{true, 1, time.Hour}},
		{"meta as attribute", `job "a" { meta = { x = 1 } }`, func(j *api.Job) any { return j.Meta }, map[string]string{"x": "1"}},
		{"meta as block", `job "a" { meta { x = true } }`, func(j *api.Job) any { return j.Meta }, map[string]string{"x": "true"}},
		{"duration as number", `job "a" { group "g" { shutdown_delay = 1000000000 } }`,
			func(j *api.Job) any { return *j.TaskGroups[0].ShutdownDelay }, time.Second},
		{"null", `job "a" { region = null }`, func(j *api.Job) any { return j.Region == nil }, true},
		{"runtime references", "job \"a\" { group \"g\" { task \"t\" { config {\n" +
			"a = \"${NOMAD_PORT_http}\"\nb = node.class\nc = \"x ${env[\"HOME\"]} y\"\nd = upper(\"a\")\ne = \"$${HOME}\"\n} } } }",
			func(j *api.Job) any { return j.TaskGroups[0].Tasks[0].Config },
			map[string]any{"a": "${NOMAD_PORT_http}", "b": "${node.class}", "c": `x ${env["HOME"]} y`, "d": "A", "e": "${HOME}"}},
		{"calls for the node", `job "a" { group "g" { task "t" { config {
			upper  = upper(node.unique.name)
			text   = "x-${upper("${node.class}-y")}"
			list   = concat(["-n"], [lower(meta.rack)], ["${NOMAD_PORT_http}"])
			first  = element(split(",", meta.hosts), 0)
			number = parseint(meta.n, 10)
			kept   = format("%s:1", "${NOMAD_IP_http}")
			here   = upper("a")
			block { arg = trimspace(meta.x) }
		} } } }`, func(j *api.Job) any { return j.TaskGroups[0].Tasks[0].Config }, map[string]any{"upper": "${upper(node.unique.name)}", "text": `x-${upper("${node.class}-y")}`,
			"list": []any{"-n", "${lower(meta.rack)}", "${NOMAD_PORT_http}"}, "first": `${element(split(",", meta.hosts), 0)}`,
			"number": "${parseint(meta.n, 10)}", "kept": "${NOMAD_IP_http}:1", "here": "A",
			"block": []map[string]any{{"arg": "${trimspace(meta.x)}"}}}},
		{"config blocks", `job "a" { group "g" { task "t" { config {
			n = 3
			f = 1.5
			l = [1, "x"]
			mount { type = "bind" }
			mount { type = "tmpfs" }
			auth "hub" { user = "u" }
		} } } }`, func(j *api.Job) any { return j.TaskGroups[0].Tasks[0].Config },
			map[string]any{"n": 3, "f": 1.5, "l": []any{1, "x"},
				"mount": []map[string]any{{"type": "bind"}, {"type": "tmpfs"}},
				"auth":  []map[string]any{{"hub": []map[string]any{{"user": "u"}}}}}},
		{"dynamic", `
			locals { ports = { http = 80, rpc = 0 } }
			job "a" { group "g" { network {
				dynamic "port" {
					for_each = local.ports
					labels   = [port.key]
					content { static = port.value }
				}
			} } }`, func(j *api.Job) any {
			n := j.TaskGroups[0].Networks[0]
			return []string{n.ReservedPorts[0].Label, n.DynamicPorts[0].Label}
		}, []string{"http", "rpc"}},
		{"nested dynamic", `
			job "a" {
				dynamic "group" {
					for_each = ["x", "y"]
					iterator = g
					labels   = [g.value]
					content {
						dynamic "task" {
							for_each = range(2)
							labels   = ["${g.value}${task.key}"]
							content { driver = "d" }
						}
					}
				}
			}`, func(j *api.Job) any {
			var names []string
			for _, g := range j.TaskGroups {
				for _, t := range g.Tasks {
					names = append(names, *g.Name+"."+t.Name)
				}
			}
			return names
		}, []string{"x.x0", "x.x1", "y.y0", "y.y1"}},
		{"for and runtime", `job "a" { group "g" { task "t" { config { args = [for p in ["a", "b"] : "${p}=${NOMAD_ADDR_x}"] } } } }`,
			func(j *api.Job) any { return j.TaskGroups[0].Tasks[0].Config["args"] }, []any{"a=${NOMAD_ADDR_x}", "b=${NOMAD_ADDR_x}"}},
		{"task scaling", `job "a" { group "g" { task "t" { scaling "CPU" { max = 5 } } } }`,
			func(j *api.Job) any { return j.TaskGroups[0].Tasks[0].ScalingPolicies[0].Type }, "vertical_cpu"},
		{"cron", `job "a" { periodic { crons = ["@daily"] } }`, func(j *api.Job) any { return *j.Periodic.SpecType }, "cron"},
		{"header", `job "a" { group "g" { service { check { header { Accept = ["x", "y"] } } } } }`,
			func(j *api.Job) any { return j.TaskGroups[0].Services[0].Checks[0].Header }, map[string][]string{"Accept": {"x", "y"}}},
		{"volume", `job "a" { group "g" { volume "v" { type = "host" } } }`,
			func(j *api.Job) any { return *j.TaskGroups[0].Volumes["v"] }, api.VolumeRequest{Name: "v", Type: "host"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.check(parse(t, c.src)); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %#v, want %#v", got, c.want)
			}
		})
	}
}

func TestConstraintShorthands(t *testing.T) {
	for text, want := range map[string]api.Constraint{
		`attribute = "${attr.kernel.name}"` + "\n" + `value = "linux"`: {LTarget: "${attr.kernel.name}", RTarget: "linux", Operand: "="},
		`distinct_hosts = true`:                       {RTarget: "true", Operand: "distinct_hosts"},
		`distinct_property = "${node.class}"`:         {LTarget: "${node.class}", Operand: "distinct_property"},
		"attribute = attr.cpu\nregexp = \"x.*\"":      {LTarget: "${attr.cpu}", RTarget: "x.*", Operand: "regexp"},
		"attribute = \"a\"\nversion = \">= 1\"":       {LTarget: "a", RTarget: ">= 1", Operand: "version"},
		"attribute = \"a\"\nsemver = \">= 1\"":        {LTarget: "a", RTarget: ">= 1", Operand: "semver"},
		"attribute = \"a\"\nset_contains = \"b\"":     {LTarget: "a", RTarget: "b", Operand: "set_contains"},
		"attribute = \"a\"\noperator = \"is_set\"":    {LTarget: "a", Operand: "is_set"},
		"attribute = \"a\"\nset_contains_any = \"b\"": {LTarget: "a", Operand: "="},
	} {
		job := parse(t, "job \"a\" {\nconstraint {\n"+text+"\n}\n}")
		if got := *job.Constraints[0]; got != want {
			t.Errorf("%s: got %+v, want %+v", text, got, want)
		}
	}
}

func TestJSONJobs(t *testing.T) {
	for _, src := range []string{`{"Job": {"ID": "a", "Type": "batch"}}`, ` {"ID": "a", "type": "batch"}`} {
		job, err := jobspec.Parse(jobspec.Config{Source: []byte(src)})
		if err != nil || *job.ID != "a" || *job.Type != "batch" {
			t.Errorf("%s: got %+v, %v", src, job, err)
		}
	}
	for src, want := range map[string]string{
		"{\n  \"ID\": \"a\",\n  \"Priority\": \"x\"\n}": "test.json:3:",
		"{\n  \"ID\": }": "test.json:2:9",
		`{"Name": "a"}`:  "no job in the JSON",
	} {
		_, err := jobspec.Parse(jobspec.Config{Filename: "test.json", Source: []byte(src)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", src, err, want)
		}
	}
}

func parseText(src string) (*api.Job, error) {
	return jobspec.Parse(jobspec.Config{Filename: "a.hcl", Source: []byte(src), Strict: true})
}
