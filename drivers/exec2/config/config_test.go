package config_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2/hcldec"

	"github.com/open-nomad/open-nomad/drivers/exec2/config"
	"github.com/open-nomad/open-nomad/internal/landlock"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

type block = map[string]any

func decodePlugin(t *testing.T, b block) (config.Plugin, error) {
	t.Helper()
	v, err := drivers.Decode(b, config.PluginSpec)
	if err != nil {
		return config.Plugin{}, err
	}
	return config.DecodePlugin(v)
}

func decodeTask(t *testing.T, b block) (config.Task, error) {
	t.Helper()
	v, err := drivers.Decode(b, config.TaskSpec)
	if err != nil {
		return config.Task{}, err
	}
	return config.DecodeTask(v)
}

func TestPluginDefaults(t *testing.T) {
	got, err := decodePlugin(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := config.Plugin{UnveilDefaults: true, RequireABI: 1, PIDsLimit: 1024, PIDsLimitMax: 1024, SeccompProfile: "default",
		OnMismatch: "event", ExplainDenials: "off"}
	if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(config.DefaultPlugin(), want) {
		t.Errorf("defaults = %+v and %+v, want %+v", got, config.DefaultPlugin(), want)
	}
}

func TestPlugin(t *testing.T) {
	got, err := decodePlugin(t, block{
		"unveil_defaults": false, "unveil_by_task": true, "unveil_paths": []any{"r:/etc//mime.types", "rwc:/srv/a:b"},
		"allow_unprivileged": true, "allow_root": true, "require_abi": 6, "pids_limit": 64, "pids_limit_max": 128,
		"seccomp_profile": "web", "seccomp_profiles": block{"web": "/etc/web.json"}, "allow_task_seccomp": []any{"default", "web"},
		"on_mismatch": "kill", "explain_denials": "audit",
	})
	want := config.Plugin{
		UnveilByTask: true, UnveilPaths: []config.Unveil{{Modes: "r", Path: "/etc/mime.types"}, {Modes: "rwc", Path: "/srv/a:b"}},
		AllowUnprivileged: true, AllowRoot: true, RequireABI: 6, PIDsLimit: 64, PIDsLimitMax: 128,
		SeccompProfile: "web", SeccompProfiles: map[string]string{"web": "/etc/web.json"}, AllowTaskSeccomp: []string{"default", "web"},
		OnMismatch: "kill", ExplainDenials: "audit",
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("plugin = %+v, %v, want %+v", got, err, want)
	}
}

func TestPluginFaults(t *testing.T) {
	for _, tc := range []struct {
		name string
		give block
		want string
	}{
		{"old name of the floor", block{"landlock_min_abi": 5}, `unknown argument "landlock_min_abi"`},
		{"old name of the bound", block{"max_processes": 5}, `unknown argument "max_processes"`},
		{"ABI", block{"require_abi": 0}, "require_abi: 0"},
		{"fraction", block{"require_abi": 1.5}, "require_abi: is not an integer"},
		{"pids", block{"pids_limit": 0}, "pids_limit: 0"},
		{"pids of more than any kernel", block{"pids_limit": 1 << 23}, "pids_limit: 8388608"},
		{"pids below", block{"pids_limit": 10, "pids_limit_max": 9}, "pids_limit_max: 9 is below the pids_limit of 10"},
		{"relative", block{"unveil_paths": []any{"r:etc"}}, `unveil_paths: "r:etc": the path is relative`},
		{"mismatch", block{"on_mismatch": "panic"}, `on_mismatch: "panic"`},
		{"explain", block{"explain_denials": "yes"}, `explain_denials: "yes"`},
		{"profile file", block{"seccomp_profiles": block{"web": "web.json"}}, `seccomp_profiles: profile "web"`},
		{"empty profile", block{"seccomp_profile": ""}, "seccomp_profile: it is empty"},
		{"type", block{"unveil_by_task": "perhaps"}, "unveil_by_task"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := decodePlugin(t, tc.give)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error = %v, want %s", err, tc.want)
			}
		})
	}
}

func TestTask(t *testing.T) {
	got, err := decodeTask(t, block{
		"command": "web", "args": []any{"-x"}, "unveil": []any{"rx:/opt/"}, "oom_score_adj": 500, "work_dir": "/srv/web/",
		"require_abi": "7", "pids_limit": 20, "seccomp_profile": "web",
		"ulimit":  block{"nofile": "1024:4096", "core": 0, "memlock": "unlimited"},
		"network": []any{block{"bind": []any{"8080", 0}, "connect": []any{443}}},
	})
	want := config.Task{
		Command: "web", Args: []string{"-x"}, Unveil: []config.Unveil{{Modes: "rx", Path: "/opt"}}, OOMScoreAdj: 500, WorkDir: "/srv/web",
		RequireABI: 7, PIDsLimit: 20, SeccompProfile: "web",
		Ulimits: []config.Ulimit{{Name: "core", Resource: 4}, {Name: "memlock", Resource: 8, Soft: config.Unlimited, Hard: config.Unlimited},
			{Name: "nofile", Resource: 7, Soft: 1024, Hard: 4096}},
		Network: &landlock.Ports{Bind: []uint16{8080, 0}, Connect: []uint16{443}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("task = %+v, %v, want %+v", got, err, want)
	}
	if got, err := decodeTask(t, block{"command": "web", "network": block{}, "oom_score_adj": -5}); err != nil || got.Network == nil ||
		got.OOMScoreAdj != 0 {
		t.Errorf("task = %+v, %v, want an empty network and no score", got, err)
	}
}

// taskFaults are refused by servers and by nodes.
var taskFaults = []struct {
	name string
	give block
	want string
}{
	{"no command", block{}, "command"},
	{"empty command", block{"command": ""}, "command: it is empty"},
	{"no value", block{"command": nil}, "command: it is empty"},
	{"unknown", block{"comand": "x"}, `unknown argument "comand"`},
	{"mode", block{"unveil": []any{"rq:/etc"}}, `unveil: "rq:/etc": modes "rq"`},
	{"no mode", block{"unveil": []any{":/etc"}}, `modes ""`},
	{"upper case", block{"unveil": []any{"R:/etc"}}, `modes "R"`},
	{"no colon", block{"unveil": []any{"/etc"}}, "is not of the form <modes>:<path>"},
	{"no path", block{"unveil": []any{"r:"}}, "the path is missing"},
	{"relative", block{"unveil": []any{"r:etc"}}, "the path is relative"},
	{"x alone", block{"unveil": []any{"wx:/opt/tool"}}, `write "rwx:/opt/tool"`},
	{"NUL", block{"unveil": []any{"r:/a\x00b"}}, "NUL"},
	{"not a list", block{"unveil": "r:/etc"}, "unveil"},
	{"two", block{"unveil": []any{"q:/a", "r:b"}}, `"r:b"`},
	{"score", block{"oom_score_adj": 1001}, "oom_score_adj: 1001"},
	{"work_dir", block{"work_dir": "local"}, `work_dir: "local" is not absolute`},
	{"ABI", block{"require_abi": 0}, "require_abi: 0 is below 1"},
	{"pids", block{"pids_limit": -1}, "pids_limit: -1 is below 1"},
	{"profile", block{"seccomp_profile": ""}, "seccomp_profile: it is empty"},
	{"limit name", block{"ulimit": block{"files": "3"}}, `"files" is not a limit`},
	{"limit value", block{"ulimit": block{"nofile": "many"}}, `ulimit: nofile: "many"`},
	{"limit negative", block{"ulimit": block{"nofile": "-1"}}, `ulimit: nofile: "-1"`},
	{"limit order", block{"ulimit": block{"nofile": "9:8"}}, "the soft limit is above the hard one"},
	{"limit parts", block{"ulimit": block{"nofile": "1:2:3"}}, `"1:2:3"`},
	{"two ulimit blocks", block{"ulimit": []any{block{"core": 0}, block{"cpu": 1}}}, "ulimit"},
	{"port", block{"network": block{"bind": []any{65536}}}, "network: bind: 65536 is not a port"},
	{"port 0", block{"network": block{"connect": []any{0}}}, "network: connect: 0 is not a port"},
	{"port word", block{"network": block{"connect": []any{"http"}}}, "connect"},
	{"network key", block{"network": block{"udp": []any{53}}}, "udp"},
}

func TestTaskFaults(t *testing.T) {
	for _, tc := range taskFaults {
		t.Run(tc.name, func(t *testing.T) {
			b := block{}
			if tc.name != "no command" {
				b["command"] = "web"
			}
			for k, v := range tc.give {
				b[k] = v
			}
			_, err := decodeTask(t, b)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("decoded: error = %v, want %s", err, tc.want)
			}
			if err := config.CheckTask(b); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("CheckTask() = %v, want %s", err, tc.want)
			}
		})
	}
}

// TestReferences checks that values with references are left to the node, and others are not.
func TestReferences(t *testing.T) {
	good := block{
		"command": "${NOMAD_TASK_DIR}/web", "args": []any{"${NOMAD_PORT_http}", "-x"}, "work_dir": "${NOMAD_TASK_DIR}",
		"unveil":        []any{"r:${NOMAD_TASK_DIR}/x", "${meta.modes}:${meta.path}", "${meta.path}", "r:/srv/${meta.dir}"},
		"oom_score_adj": "${meta.score}",
		"require_abi":   "${meta.abi}", "pids_limit": "${meta.pids}", "ulimit": block{"nofile": "1:${meta.files}", "core": "0"},
		"network": block{"bind": []any{"${NOMAD_PORT_http}", 80}},
	}
	if err := config.CheckTask(good); err != nil {
		t.Errorf("CheckTask() = %v", err)
	}
	for name, bad := range map[string]struct {
		key   string
		value any
		want  string
	}{
		"mode":                 {"unveil", []any{"q:${NOMAD_TASK_DIR}/x"}, `modes "q"`},
		"mode of a typed list": {"unveil", []string{"q:${NOMAD_TASK_DIR}/x"}, `modes "q"`},
		"x alone":              {"unveil", []any{"x:${NOMAD_TASK_DIR}/x"}, "x without r"},
		"relative":             {"unveil", []any{"r:a/${meta.x}"}, "the path is relative"},
		"port":                 {"network", block{"bind": []any{"${NOMAD_PORT_http}", -1}}, "-1 is not a port"},
		"limit":                {"ulimit", map[string]string{"nofile": "1:${meta.files}", "core": "none"}, `"none"`},
	} {
		b := block{"command": "web", bad.key: bad.value}
		if err := config.CheckTask(b); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%s: CheckTask() = %v, want %s", name, err, bad.want)
		}
	}
}

func TestTaskABI(t *testing.T) {
	for name, tc := range map[string]struct {
		give block
		want int
	}{
		"none":       {block{"command": "x"}, 0},
		"asked":      {block{"command": "x", "require_abi": 7}, 7},
		"a word":     {block{"command": "x", "require_abi": "7"}, 7},
		"network":    {block{"command": "x", "network": block{}}, 4},
		"both":       {block{"command": "x", "network": block{}, "require_abi": 6}, 6},
		"reference":  {block{"command": "x", "require_abi": "${meta.abi}"}, 0},
		"other refs": {block{"command": "${meta.x}", "require_abi": 3}, 3},
		"refused":    {block{"require_abi": 7}, 0},
	} {
		if got := config.TaskABI(tc.give); got != tc.want {
			t.Errorf("%s: TaskABI() = %d, want %d", name, got, tc.want)
		}
	}
}

// TestPage checks that the page for users has every option and every limit.
func TestPage(t *testing.T) {
	raw, err := os.ReadFile("../../../website/content/docs/drivers/exec2.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(raw)
	for _, spec := range []hcldec.Spec{config.PluginSpec, config.TaskSpec, config.TaskSpec["network"].(*hcldec.BlockSpec).Nested} {
		schema := hcldec.ImpliedSchema(spec)
		var names []string
		for _, a := range schema.Attributes {
			names = append(names, a.Name)
		}
		for _, b := range schema.Blocks {
			names = append(names, b.Type)
		}
		for _, name := range names {
			if !strings.Contains(page, "\n| `"+name+"` |") {
				t.Errorf("no row of a table on the page is for %s", name)
			}
		}
	}
	for _, name := range config.UlimitNames() {
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("the page does not name the limit %s", name)
		}
	}
}
