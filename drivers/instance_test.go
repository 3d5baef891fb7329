package drivers_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2/hcldec"

	"github.com/open-nomad/open-nomad/drivers"
	"github.com/open-nomad/open-nomad/plugins/schema"
)

type blocks = map[string]drivers.Block
type options = map[string]any

// list returns "name=kind" of the instances.
func list(t *testing.T, given blocks) (out []string, wrong []*drivers.BlockError) {
	t.Helper()
	all, wrong := drivers.Instances(drivers.Kinds(), given)
	for _, i := range all {
		out = append(out, i.Name+"="+i.Kind.Name)
	}
	return out, wrong
}

func TestInstances(t *testing.T) {
	for name, tc := range map[string]struct {
		give blocks
		want []string
	}{
		"no block": {nil, []string{"docker=docker", "exec=exec", "exec2=exec2", "java=java", "qemu=qemu", "raw_exec=raw_exec"}},
		"own block": {blocks{"exec2": {Config: options{"unveil_by_task": true}}},
			[]string{"docker=docker", "exec=exec", "exec2=exec2", "java=java", "qemu=qemu", "raw_exec=raw_exec"}},
		"opt in": {blocks{"mock_driver": {}},
			[]string{"docker=docker", "exec=exec", "exec2=exec2", "java=java", "mock_driver=mock_driver", "qemu=qemu", "raw_exec=raw_exec"}},
		"alias": {blocks{"nomad-driver-exec2": {}}, []string{"docker=docker", "exec=exec", "exec2=exec2", "java=java", "qemu=qemu", "raw_exec=raw_exec"}},
		"alias, backend": {blocks{"nomad-driver-exec2": {Backend: "exec2"}},
			[]string{"docker=docker", "exec=exec", "exec2=exec2", "java=java", "qemu=qemu", "raw_exec=raw_exec"}},
		"same backend": {blocks{"exec2": {Backend: "exec2"}},
			[]string{"docker=docker", "exec=exec", "exec2=exec2", "java=java", "qemu=qemu", "raw_exec=raw_exec"}},
		"another name": {blocks{"exec2-open": {Backend: "exec2"}},
			[]string{"docker=docker", "exec=exec", "exec2=exec2", "exec2-open=exec2", "java=java", "qemu=qemu", "raw_exec=raw_exec"}},
		"two more": {blocks{"A_1": {Backend: "raw_exec"}, "b": {Backend: "mock_driver"}},
			[]string{"A_1=raw_exec", "b=mock_driver", "docker=docker", "exec=exec", "exec2=exec2", "java=java", "qemu=qemu", "raw_exec=raw_exec"}},
		"docker twice": {blocks{"docker": {}, "docker-privileged": {Backend: "docker", Config: options{"allow_privileged": true}}},
			[]string{"docker=docker", "docker-privileged=docker", "exec=exec", "exec2=exec2", "java=java", "qemu=qemu", "raw_exec=raw_exec"}},
		"longest of name": {blocks{strings.Repeat("x", 64): {Backend: "exec2"}},
			[]string{"docker=docker", "exec=exec", "exec2=exec2", "java=java", "qemu=qemu", "raw_exec=raw_exec", strings.Repeat("x", 64) + "=exec2"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, wrong := list(t, tc.give)
			if !slices.Equal(got, tc.want) || len(wrong) > 0 {
				t.Errorf("Instances() = %q, %v, want %q", got, wrong, tc.want)
			}
		})
	}
}

func TestBlockErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		give    blocks
		key     string
		want    string
		unknown bool
	}{
		"unknown driver": {blocks{"exec9": {}}, "",
			`unknown driver "exec9": set backend to one of docker, exec, exec2, java, mock_driver, qemu, raw_exec`,
			true},
		"unknown backend": {blocks{"open": {Backend: "exec9"}}, "backend",
			`unknown driver "exec9": set backend to one of docker, exec, exec2`, true},
		"backend is a file": {blocks{"open": {Backend: "nomad-driver-exec2"}}, "backend", `unknown driver "nomad-driver-exec2"`, true},
		"backend is a name": {blocks{"open": {Backend: "exec2"}, "more": {Backend: "open"}}, "backend", `unknown driver "open"`, true},
		"name of a kind": {blocks{"raw_exec": {Backend: "exec2"}}, "backend",
			`"raw_exec" is the name of the driver raw_exec: choose another label`, false},
		"alias of a kind": {blocks{"nomad-driver-exec2": {Backend: "raw_exec"}}, "backend",
			`is the name of the driver exec2: choose another label`, false},
		"both names": {blocks{"nomad-driver-exec2": {}, "exec2": {}}, "", `plugin "exec2" configures the same driver: keep one block`,
			false},
		"a path":    {blocks{"../open": {Backend: "exec2"}}, "", "the label is not a name: use 1 to 64 letters, digits, - and _", false},
		"a dot":     {blocks{"exec2.open": {Backend: "exec2"}}, "", "the label is not a name", false},
		"a space":   {blocks{"exec2 open": {Backend: "exec2"}}, "", "the label is not a name", false},
		"not ASCII": {blocks{"exéc": {Backend: "exec2"}}, "", "the label is not a name", false},
		"empty":     {blocks{"": {Backend: "exec2"}}, "", "the label is not a name", false},
		"too long":  {blocks{strings.Repeat("x", 65): {Backend: "exec2"}}, "", "the label is not a name", false},
		"unknown argument": {blocks{"open": {Backend: "exec2", Config: options{"unveil": true}}}, "config",
			`config of driver exec2: unknown argument "unveil" in config; expected one of: allow_root`, false},
		"wrong type": {blocks{"open": {Backend: "mock_driver", Config: options{"shutdown_periodic_after": []any{}}}}, "config",
			"shutdown_periodic_after", false},
		"out of range": {blocks{"exec2": {Config: options{"pids_limit": 0}}}, "config", "pids_limit: 0 is not between 1 and", false},
		"range of IDs": {blocks{"raw_exec": {Config: options{"denied_host_uids": "9-1"}}}, "config", "denied_host_uids", false},
	} {
		t.Run(name, func(t *testing.T) {
			_, wrong := list(t, tc.give)
			if len(wrong) != 1 || wrong[0].Key != tc.key || wrong[0].Unknown != tc.unknown || !strings.Contains(wrong[0].Error(), tc.want) {
				t.Errorf("Instances() = %+v, want the key %q and %q", wrong, tc.key, tc.want)
			}
		})
	}
}

// TestTable checks the rows of the table.
func TestTable(t *testing.T) {
	kinds := drivers.Kinds()
	if !slices.IsSortedFunc(kinds, func(a, b drivers.Kind) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("the kinds are not sorted by name")
	}
	for _, k := range kinds {
		d := k.New(host(t), "x-1")
		if d.Name() != "x-1" {
			t.Errorf("%s: the instance has the name %q, want x-1", k.Name, d.Name())
		}
		if k.KillSignal == 0 || k.ConfigSpec == nil || k.TaskSpec == nil || k.CheckConfig == nil || k.CheckConfig(nil) != nil {
			t.Errorf("%s: incomplete row: %+v", k.Name, k.Kind)
		}
		if got, want := d.Capabilities().FSIsolation, k.Capabilities.FSIsolation; got != want {
			t.Errorf("%s: isolation %s of the instance, %s in the table", k.Name, got, want)
		}
		if drivers.Table()[k.Name].Name != k.Name {
			t.Errorf("Table() has no %s", k.Name)
		}
	}
}

// TestTaskSchemas checks that the plugin protocol can express the schemas of all built-in kinds.
func TestTaskSchemas(t *testing.T) {
	for name, k := range drivers.Table() {
		own, err := schema.Of(k.TaskSpec)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		back, err := schema.Parse(own.Raw)
		if err != nil || !hcldec.ImpliedType(back).Equals(hcldec.ImpliedType(k.TaskSpec)) {
			t.Errorf("%s: the parsed schema differs: %v", name, err)
		}
	}
}
