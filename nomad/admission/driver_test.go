package admission

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/drivers"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/admission/testjobs"
	"github.com/open-nomad/open-nomad/nomad/kinds"
)

// table is the table of the built-in kinds, as agents hand it to servers.
var table = kinds.Table(drivers.Table())

func TestValidateKnowsTheDriver(t *testing.T) {
	const place = `job "j", group "g", task "t": `
	for name, tc := range map[string]struct {
		change func(*nomad.Task)
		want   []string // nothing: the job is fine
	}{
		"fine":           {func(*nomad.Task) {}, nil},
		"references":     {func(t *nomad.Task) { t.Config["unveil"] = []any{"r:${NOMAD_TASK_DIR}"} }, nil},
		"another driver": {func(t *nomad.Task) { t.Driver, t.Config["unveil"] = "raw_exec", 7 }, nil},
		"two faults": {func(t *nomad.Task) { t.Config["unveil"], t.Config["pids_limit"] = []any{"q:/etc"}, 0 },
			[]string{place + `config of exec2: pids_limit: 0`, place + `config of exec2: unveil: "q:/etc"`}},
		"unknown key": {func(t *nomad.Task) { t.Config["unveils"] = "x" }, []string{place + `unknown argument "unveils"`}},
		"no command":  {func(t *nomad.Task) { t.Config = nil }, []string{place + "config: ", `"command"`}},
		"limit": {func(t *nomad.Task) { t.Config["ulimit"] = []any{map[string]any{"files": 1}} },
			[]string{place + `config of exec2: ulimit: "files"`}},
		"lent user":     {func(t *nomad.Task) { t.User = "nomad-80000" }, []string{place + `user "nomad-80000" is assigned by clients`}},
		"no change":     {func(t *nomad.Task) { t.User = "4294967295" }, []string{place + `user "4294967295" is not a uid`}},
		"overflow":      {func(t *nomad.Task) { t.User = "18446744073709551616" }, []string{place + `user "18446744073709551616" is not a uid`}},
		"highest":       {func(t *nomad.Task) { t.User = "4294967294" }, nil},
		"named nomad-x": {func(t *nomad.Task) { t.User = "nomad-web" }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			err := validate(testjobs.Exec2(tc.change), table.Names(nil))
			if (err == nil) != (tc.want == nil) {
				t.Fatalf("validate() = %v, want %q", err, tc.want)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("validate() = %v, want %q", err, want)
				}
			}
		})
	}
}

func TestWarningOfRoot(t *testing.T) {
	for user, want := range map[string]bool{"root": true, "0": true, "nobody": false, "": false} {
		got := strings.Join(warnings(testjobs.Exec2(func(t *nomad.Task) { t.User = user }), table.Names(nil)), "\n")
		if strings.Contains(got, "allow_root") != want {
			t.Errorf("user %q: warnings %q", user, got)
		}
	}
}

// TestInstances checks jobs that name an instance of a driver. Its kind is that of the nodes.
func TestInstances(t *testing.T) {
	nodes := []*nomad.Node{testjobs.Node(), {Drivers: map[string]*nomad.DriverInfo{"exec2-open": {}}}}
	const place = `job "j", group "g", task "t": `
	for name, tc := range map[string]struct {
		change func(*nomad.Task)
		nodes  []*nomad.Node
		wrong  string // part of the error; "" for none
		warned string // part of the warnings; "" for none
	}{
		"fine": {func(t *nomad.Task) { t.Driver = "exec2-open" }, nodes, "", ""},
		"config": {func(t *nomad.Task) { t.Driver, t.Config["pids_limit"] = "exec2-open", 0 }, nodes,
			place + "config of exec2: pids_limit: 0", ""},
		"user":         {func(t *nomad.Task) { t.Driver, t.User = "exec2-open", "nomad-80000" }, nodes, place + `user "nomad-80000"`, ""},
		"root":         {func(t *nomad.Task) { t.Driver, t.User = "exec2-open", "root" }, nodes, "", "allow_root"},
		"not built-in": {func(t *nomad.Task) { t.Driver, t.Config["image"] = "podman", "x" }, nodes, "", ""},
		"on no node": {func(t *nomad.Task) { t.Driver, t.Config["x"] = "exec2-opne", 7 }, nodes, "",
			place + `no node has the driver "exec2-opne"`},
		"undetected": {func(t *nomad.Task) { t.Driver, t.Config["x"] = "exec2-open", 7 }, nodes[1:], "",
			`no node has the driver "exec2-open"`},
		"without nodes":   {func(t *nomad.Task) { t.Driver, t.Config["x"] = "exec2-open", 7 }, nil, "", `no node has the driver "exec2-open"`},
		"built-in":        {func(t *nomad.Task) {}, nil, "", ""},
		"built-in, wrong": {func(t *nomad.Task) { t.Config["x"] = 7 }, nil, `unknown argument "x"`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			names := table.Names(slices.Values(tc.nodes))
			job := testjobs.Exec2(tc.change)
			if err := validate(job, names); (err == nil) != (tc.wrong == "") || err != nil && !strings.Contains(err.Error(), tc.wrong) {
				t.Errorf("validate() = %v, want %q", err, tc.wrong)
			}
			if got := strings.Join(warnings(job, names), "\n"); (got == "") != (tc.warned == "") || !strings.Contains(got, tc.warned) {
				t.Errorf("warnings() = %q, want %q", got, tc.warned)
			}
		})
	}
}

// TestMountAbilities checks propagation and labels of mounts, which exec2 cannot apply.
func TestMountAbilities(t *testing.T) {
	for name, mount := range map[string]nomad.VolumeMount{
		`mount volumes with propagation_mode = "host-to-task"`:  {Volume: "v", PropagationMode: "host-to-task"},
		`mount volumes with propagation_mode = "bidirectional"`: {Volume: "v", PropagationMode: "bidirectional"},
		"set selinux_label of mounts":                           {Volume: "v", SELinuxLabel: "z"},
	} {
		job := testjobs.Exec2(func(t *nomad.Task) { t.VolumeMounts = []*nomad.VolumeMount{&mount} })
		err := validate(job, table.Names(slices.Values([]*nomad.Node{testjobs.Node()})))
		if err == nil || !strings.Contains(err.Error(), `driver "exec2" cannot `+name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	job := testjobs.Exec2(func(t *nomad.Task) {
		t.VolumeMounts = []*nomad.VolumeMount{{Volume: "v", PropagationMode: "private"}, {Volume: "v", PropagationMode: "${meta.p}"}}
	})
	if err := validate(job, table.Names(slices.Values([]*nomad.Node{testjobs.Node()}))); err != nil &&
		strings.Contains(err.Error(), "cannot") {
		t.Errorf("private and a reference: %v", err)
	}
}

// TestMissingAbilities checks jobs that ask for what no instance of a kind can do.
func TestMissingAbilities(t *testing.T) {
	for name, edit := range map[string]func(*nomad.TaskGroup){
		"mount volumes":          func(g *nomad.TaskGroup) { g.Tasks[0].VolumeMounts = []*nomad.VolumeMount{{Volume: "v"}} },
		`network of mode "none"`: func(g *nomad.TaskGroup) { g.Networks = nomad.Networks{{Mode: "none"}} },
	} {
		// Tasks of raw_exec can join the network of their group.
		joins := strings.Contains(name, "network")
		for driver, wrong := range map[string]bool{"raw_exec": !joins, "mock_driver": true, "exec2": false, "podman": false} {
			job := testjobs.Exec2(func(t *nomad.Task) { t.Driver = driver })
			edit(job.TaskGroups[0])
			err := validate(job, table.Names(slices.Values([]*nomad.Node{testjobs.Node()})))
			got := err != nil && strings.Contains(err.Error(), fmt.Sprintf(`task "t": driver %q cannot `, driver)) &&
				strings.Contains(err.Error(), name+": use another driver, such as exec")
			if got != wrong {
				t.Errorf("%s: %s: %v", driver, name, err)
			}
		}
	}
}

// TestDNSWithoutEffect checks that a dns block is accepted, with a warning, for tasks that have the files of the node.
func TestDNSWithoutEffect(t *testing.T) {
	for driver, want := range map[string]bool{"raw_exec": true, "exec2": false} {
		job := testjobs.Exec2(func(t *nomad.Task) { t.Driver = driver })
		job.TaskGroups[0].Networks = nomad.Networks{{DNS: &nomad.DNSConfig{Servers: []string{"192.0.2.1"}}}}
		names := table.Names(slices.Values([]*nomad.Node{testjobs.Node()}))
		if err := validate(job, names); err != nil && strings.Contains(err.Error(), "dns") {
			t.Errorf("%s: %v", driver, err)
		}
		if got := strings.Contains(strings.Join(warnings(job, names), "\n"), "the dns block of the group has no effect"); got != want {
			t.Errorf("%s: warned %v, want %v", driver, got, want)
		}
	}
}
