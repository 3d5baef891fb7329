package taskenv_test

import (
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/taskenv"
)

// subject is a task that uses every feature.
func subject() taskenv.Subject {
	task := &nomad.Task{
		Name: "web", Env: map[string]string{
			"GREETING": "hello from ${NOMAD_TASK_NAME} on ${node.unique.name}",
			"DIR":      "${NOMAD_TASK_DIR}/x",
			"HOSTHOME": "${HOME}",
			"SHELL_IT": "$${NOT_MINE} ${ALSO_NOT} ${a:-b}",
		},
		Meta: map[string]string{"who": "task", "on-node": "${attr.cpu.arch}"},
	}
	return taskenv.Subject{
		Region: "eu",
		Node: &nomad.Node{
			ID: "node-id", Name: "n1", Datacenter: "dc1", NodeClass: "big", NodePool: "gpu",
			Attributes: map[string]string{"cpu.arch": "amd64", "unique.hostname": "h1"},
			Meta:       map[string]string{"rack": "r9"},
		},
		Task: task,
		Alloc: &nomad.Allocation{
			ID: "0123456789abcdef", Name: "shop.front[3]", Namespace: "prod", JobID: "shop/dispatch-1", TaskGroup: "front",
			Job: &nomad.Job{
				Name: "shop", ParentID: "shop", Dispatched: true,
				Meta:             map[string]string{"who": "job", "job-only": "1"},
				ParameterizedJob: &nomad.ParameterizedJobConfig{MetaOptional: []string{"maybe"}},
				TaskGroups:       []*nomad.TaskGroup{{Name: "front", Meta: map[string]string{"who": "group"}, Tasks: []*nomad.Task{task}}},
			},
			AllocatedResources: &nomad.AllocatedResources{
				Tasks: map[string]*nomad.AllocatedTaskResources{
					"web": {
						Cpu:    nomad.AllocatedCpuResources{CpuShares: 500, ReservedCores: []uint16{1, 4}},
						Memory: nomad.AllocatedMemoryResources{MemoryMB: 64, MemoryMaxMB: 128},
					},
					"my-db": {Networks: nomad.Networks{{IP: "10.0.0.2", DynamicPorts: []nomad.Port{{Label: "sql", Value: 5432}}}}},
				},
				Shared: nomad.AllocatedSharedResources{Ports: nomad.AllocatedPorts{
					{Label: "http-in", Value: 20001, To: 8080, HostIP: "10.0.0.1"},
				}},
			},
		},
	}
}

func build(s taskenv.Subject) *taskenv.Env {
	b := taskenv.New(s)
	b.SetPaths(taskenv.Paths{Alloc: "/a/alloc", Task: "/a/web/local", Secrets: "/a/web/secrets"})
	b.SetHost("host", map[string]string{"HOME": "/root", "GREETING": "host", "NOMAD_ADDR": "http://host", "NOMAD_DC": "host"})
	b.SetHook("identity", map[string]string{"NOMAD_TOKEN": "first"})
	b.SetHook("identity", map[string]string{"NOMAD_TOKEN": "second"})
	return b.Build()
}

func TestVariables(t *testing.T) {
	got := build(subject()).Map()
	want := map[string]string{
		"NOMAD_ALLOC_DIR": "/a/alloc", "NOMAD_TASK_DIR": "/a/web/local", "NOMAD_SECRETS_DIR": "/a/web/secrets",
		"NOMAD_ALLOC_ID": "0123456789abcdef", "NOMAD_SHORT_ALLOC_ID": "01234567", "NOMAD_ALLOC_NAME": "shop.front[3]",
		"NOMAD_ALLOC_INDEX": "3", "NOMAD_TASK_NAME": "web", "NOMAD_GROUP_NAME": "front", "NOMAD_JOB_ID": "shop/dispatch-1",
		"NOMAD_JOB_NAME": "shop", "NOMAD_JOB_PARENT_ID": "shop", "NOMAD_NAMESPACE": "prod", "NOMAD_REGION": "eu",
		"NOMAD_DC": "dc1", "NOMAD_PARENT_CGROUP": "nomad.slice", "NOMAD_MEMORY_LIMIT": "64", "NOMAD_MEMORY_MAX_LIMIT": "128",
		"NOMAD_CPU_LIMIT": "500", "NOMAD_CPU_CORES": "1,4",
		"NOMAD_META_WHO": "task", "NOMAD_META_who": "task", "NOMAD_META_JOB_ONLY": "1", "NOMAD_META_job_only": "1",
		"NOMAD_META_ON_NODE": "amd64", "NOMAD_META_on_node": "amd64", "NOMAD_META_MAYBE": "", "NOMAD_META_maybe": "",
		"NOMAD_PORT_http_in": "8080", "NOMAD_IP_http_in": "10.0.0.1", "NOMAD_ADDR_http_in": "10.0.0.1:20001",
		"NOMAD_HOST_PORT_http_in": "20001", "NOMAD_HOST_IP_http-in": "10.0.0.1", "NOMAD_HOST_ADDR_http-in": "10.0.0.1:20001",
		"NOMAD_ALLOC_PORT_http-in": "8080",
		"NOMAD_ADDR_my_db_sql":     "10.0.0.2:5432", "NOMAD_IP_my_db_sql": "10.0.0.2", "NOMAD_PORT_my_db_sql": "5432",
		"HOME": "/root", "GREETING": "hello from web on n1", "DIR": "/a/web/local/x", "HOSTHOME": "/root",
		"SHELL_IT": "${NOT_MINE} ${ALSO_NOT} ${a:-b}", "NOMAD_TOKEN": "second",
	}
	for name, value := range want {
		if have, set := got[name]; !set || have != value {
			t.Errorf("%s = %q (set: %t), want %q", name, have, set, value)
		}
	}
	for name := range got {
		if _, known := want[name]; !known {
			t.Errorf("%s is set and should not be", name)
		}
	}
}

func TestNoCoresIsASpace(t *testing.T) {
	s := subject()
	s.Alloc.AllocatedResources.Tasks["web"].Cpu.ReservedCores = nil
	if got := build(s).Var("NOMAD_CPU_CORES"); got != " " {
		t.Errorf("NOMAD_CPU_CORES = %q, want one space", got)
	}
}

func TestExpand(t *testing.T) {
	env := build(subject())
	for _, tc := range []struct{ in, want string }{
		{"plain", "plain"},
		{"${NOMAD_PORT_http_in}", "8080"},
		{"x${env.NOMAD_DC}y${env[\"NOMAD_REGION\"]}z", "xdc1yeuz"},
		{"${ node.datacenter }", "dc1"},
		{"${node.pool}/${node.class}/${node.unique.id}/${node.region}", "gpu/big/node-id/eu"},
		{"${attr.unique.hostname}-${meta.rack}", "h1-r9"},
		{"$${NOMAD_DC}", "${NOMAD_DC}"},
		{"${unknown} ${NOMAD_DC} ${", "${unknown} dc1 ${"},
		{"${${NOMAD_DC}}", "${dc1}"},
		{"${a\n} $(x) ${1}", "${a\n} $(x) ${1}"},
		{"100%${", "100%${"},
	} {
		if got := env.Expand(tc.in); got != tc.want {
			t.Errorf("Expand(%q) = %q, want %q", tc.in, got, tc.want)
		}
	}
}

var spec = hcldec.ObjectSpec{
	"command": &hcldec.AttrSpec{Name: "command", Type: cty.String, Required: true},
	"args":    &hcldec.AttrSpec{Name: "args", Type: cty.List(cty.String)},
	"count":   &hcldec.AttrSpec{Name: "count", Type: cty.Number},
	"labels":  &hcldec.BlockAttrsSpec{TypeName: "labels", ElementType: cty.String},
}

func TestConfig(t *testing.T) {
	got, err := build(subject()).Config(map[string]any{
		"command": "/bin/${NOMAD_TASK_NAME}", "args": []any{"-p", "${NOMAD_PORT_http_in}", "%{ if }", "a\"b\\c\n"},
		"count": int64(7), "labels": []map[string]any{{"dc": "${node.datacenter}"}},
	}, spec)
	if err != nil {
		t.Fatal(err)
	}
	var args []string
	for _, v := range got.GetAttr("args").AsValueSlice() {
		args = append(args, v.AsString())
	}
	if have := strings.Join(args, "|"); have != "-p|8080|%{ if }|a\"b\\c\n" {
		t.Errorf("args = %q", have)
	}
	if have := got.GetAttr("command").AsString(); have != "/bin/web" {
		t.Errorf("command = %q", have)
	}
	if have := got.GetAttr("labels").AsValueMap()["dc"].AsString(); have != "dc1" {
		t.Errorf("labels.dc = %q", have)
	}
	if n, _ := got.GetAttr("count").AsBigFloat().Int64(); n != 7 {
		t.Errorf("count = %d", n)
	}
}

func TestConfigFaults(t *testing.T) {
	base := map[string]any{"command": "x"}
	for _, tc := range []struct {
		name, want string
		add        map[string]any
	}{
		{"unknown argument", `unknown argument "comand" in config; expected one of: `, map[string]any{"comand": "x"}},
		{"wrong type", "count", map[string]any{"count": []any{"x"}}},
		{"typo in a reference", "${NOMAD_PORT_htp}", map[string]any{"args": []any{"${NOMAD_PORT_htp}"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			config := maps.Clone(base)
			maps.Copy(config, tc.add)
			_, err := build(subject()).Config(config, spec)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Config() = %v, want an error that names %s", err, tc.want)
			}
		})
	}
}

// Parsing a template as HCL can take quadratic time, which for 1 MiB would exceed the test's
// timeout.
func TestLongString(t *testing.T) {
	for _, piece := range []string{"x", "${", "{$", "é${NOMAD_DC}"} {
		long := strings.Repeat(piece, 1<<20/len(piece))
		got, err := build(subject()).Config(map[string]any{"command": long}, spec)
		if err != nil {
			t.Fatal(err)
		}
		want := strings.ReplaceAll(long, "${NOMAD_DC}", "dc1")
		if got.GetAttr("command").AsString() != want {
			t.Errorf("1 MiB of %q came out different", piece)
		}
	}
}

// TestIsolated checks that references to the task's own directories remain, unless the job has given
// their variables other values.
func TestIsolated(t *testing.T) {
	task := &nomad.Task{Name: "web", Env: map[string]string{"NOMAD_SECRETS_DIR": "/etc", "DIR": "${NOMAD_TASK_DIR}/x"}}
	b := taskenv.New(taskenv.Subject{Node: &nomad.Node{}, Alloc: &nomad.Allocation{ID: "a", Name: "j.g[0]"}, Task: task})
	b.SetPaths(taskenv.Paths{Alloc: "/a/alloc", Task: "/a/web/local", Secrets: "/a/web/secrets"})
	got := b.Build().Isolated(map[string]any{"list": []any{"r:${NOMAD_TASK_DIR}/a", "r:${NOMAD_ALLOC_DIR}", "r:${NOMAD_SECRETS_DIR}/b",
		"r:${DIR}", "$${NOMAD_TASK_DIR}"}})
	want := map[string]any{"list": []any{"r:${NOMAD_TASK_DIR}/a", "r:${NOMAD_ALLOC_DIR}", "r:/etc/b", "r:/a/web/local/x", "${NOMAD_TASK_DIR}"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Isolated() = %v, want %v", got, want)
	}
}

// The environment is built again after a change of any layer, and only then.
func TestBuildAfterChanges(t *testing.T) {
	s := subject()
	b := taskenv.New(s)
	first := b.Build()
	if b.Build() != first {
		t.Error("the environment was built again without a change")
	}
	newer := *s.Alloc
	newer.Name = "shop.front[4]"
	for name, change := range map[string]func(){
		"NOMAD_ALLOC_NAME": func() { b.SetAlloc(&newer, s.Task) },
		"NOMAD_TASK_DIR":   func() { b.SetPaths(taskenv.Paths{Task: "/changed"}) },
		"FROM_HOOK":        func() { b.SetHook("hook", map[string]string{"FROM_HOOK": "1"}) },
		"FROM_HOST":        func() { b.SetHost("hook", map[string]string{"FROM_HOST": "1"}) },
	} {
		before := b.Build()
		change()
		if after := b.Build().Var(name); after == "" || after == before.Var(name) {
			t.Errorf("%s is %q after the change, was %q", name, after, before.Var(name))
		}
	}
	if got := first.Var("NOMAD_ALLOC_NAME"); got != "shop.front[3]" {
		t.Errorf("the earlier environment has changed: NOMAD_ALLOC_NAME is %q", got)
	}
}

// TestBuild_Below checks that the env block can refer to the variables of a hook below it, and replaces them.
func TestBuild_Below(t *testing.T) {
	task := &nomad.Task{Name: "t", Env: map[string]string{"MINE": "1 ${GIVEN}", "REPLACED": "job", "ABOVE": "job"}}
	b := taskenv.New(taskenv.Subject{Node: &nomad.Node{}, Alloc: &nomad.Allocation{}, Task: task})
	b.SetHost("host", map[string]string{"GIVEN": "host"})
	b.SetHook("above", map[string]string{"ABOVE": "hook"})
	b.SetBelow("below")
	for _, given := range []string{"first", "second"} {
		b.SetHook("below", map[string]string{"GIVEN": given, "REPLACED": "hook"})
		env := b.Build()
		for name, want := range map[string]string{"GIVEN": given, "MINE": "1 " + given, "REPLACED": "job", "ABOVE": "hook"} {
			if got := env.Var(name); got != want {
				t.Errorf("%s = %q, want %q", name, got, want)
			}
		}
	}
}

// Calls of functions in the references of a driver's config are evaluated on the node, within limits. Elsewhere they are text.
func TestConfig_Calls(t *testing.T) {
	env := build(subject()) // NOMAD_TASK_NAME is web, node.unique.name is n1
	for text, want := range map[string]string{
		"${upper(node.unique.name)}":                                   "N1",
		"a ${ upper( node.unique.name ) } b ${NOMAD_TASK_NAME}":        "a " + "N1 b web",
		`${upper("x}-${node.unique.name}-${env["NOMAD_TASK_NAME"]}")}`: "X}-" + "N1-WEB",
		`${element(split(",", "a,b,${node.unique.name}"), 2)}`:         "n1",
		`${strlen(NOMAD_TASK_NAME)}`:                                   "3",
		"$${upper(node.unique.name)}":                                  "${upper(node.unique.name)}",
		"${upper} ${upper (} ${x(1)} ${file(\"/etc/passwd\")}":         "${upper} ${upper (} ${x(1)} ${file(\"/etc/passwd\")}",
		"${uuidv4()}":          "${uuidv4()}",
		"${VAR:-x} ${VAR%%(*}": "${VAR:-x} ${VAR%%(*}",
	} {
		got, err := env.Block(map[string]any{"a": []any{map[string]any{"b": text}}})
		if err != nil || got["a"].([]any)[0].(map[string]any)["b"] != want {
			t.Errorf("%s = %v, %v, want %s", text, got, err, want)
		}
	}
	if got := env.Expand("${upper(NOMAD_TASK_NAME)}"); got != "${upper(NOMAD_TASK_NAME)}" {
		t.Errorf("outside of a config: %s, want the text", got)
	}
	many := strings.Repeat("${upper(NOMAD_TASK_NAME)}", 1001)
	wide := `${join("x", range(100000))}`
	for text, want := range map[string]string{
		"${upper(meta.none)}":              "${upper(meta.none)}: no value for ${meta.none}",
		`${split(",", NOMAD_TASK_NAME)}`:   "use join, element or lookup",
		`${parseint(NOMAD_TASK_NAME, 10)}`: "invalid function argument (the message can contain values and is omitted)",
		many:                               "at most 1000 calls",
		strings.Repeat(wide, 200):          "error in function call",
	} {
		_, err := env.Block(map[string]any{"a": text})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("%.60s: %v, want %q", text, err, want)
		}
		if strings.Contains(err.Error(), `"web"`) {
			t.Errorf("the error has the value: %v", err)
		}
	}
}
