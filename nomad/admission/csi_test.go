package admission

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/admission/testjobs"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/kinds"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// TestPlugin_Driver checks which drivers can host plugins, and which of these need privileged = true.
func TestPlugin_Driver(t *testing.T) {
	const cannot, needs = "cannot host CSI plugins", "needs privilege"
	for driver, want := range map[string]struct{ node, controller string }{
		"raw_exec":    {needs, needs},
		"docker":      {needs, ""},
		"exec":        {"", ""},
		"java":        {"", ""},
		"exec2":       {cannot + " of type node, which mount volumes on the node: use docker or raw_exec", ""},
		"qemu":        {cannot, cannot + ": use docker or raw_exec"},
		"mock_driver": {"", ""},
		"podman":      {"", ""}, // the nodes check it
	} {
		for kind, want := range map[nomad.CSIPluginType]string{"node": want.node, "monolith": strings.Replace(want.node, "node,", "monolith,", 1),
			"controller": want.controller} {
			job := testjobs.Exec2(func(t *nomad.Task) {
				t.Driver, t.CSIPluginConfig = driver, &nomad.TaskCSIPluginConfig{ID: "p", Type: kind}
			})
			names := table.Names(slices.Values([]*nomad.Node{testjobs.Node()}))
			var got []string
			for _, err := range append(parts(validate(job, names)), unprivileged(job, names, "")...) {
				if text := err.Error(); strings.Contains(text, "CSI") || strings.Contains(text, needs) {
					got = append(got, text)
				}
			}
			if all := strings.Join(got, "\n"); (want == "") != (all == "") || !strings.Contains(all, want) {
				t.Errorf("%s of %s: %q, want %q", kind, driver, all, want)
			}
			texts := strings.Join(warnings(job, names), "\n")
			if want := (driver == "exec" || driver == "java") && kind != "controller"; strings.Contains(texts,
				"can mount volumes only with user") != want {
				t.Errorf("%s of %s: warnings %q, warned of mounts: want %t", kind, driver, texts, want)
			}
			if strings.Contains(texts, `mount_dir of csi_plugin is "/csi"`) != (driver == "exec2") {
				t.Errorf("%s of %s: warnings %q, want one about mount_dir: %t", kind, driver, texts, driver == "exec2")
			}
		}
	}
}

// A plugin that reaches the node is not isolated, whatever its driver.
func TestPlugin_Isolation(t *testing.T) {
	docker := table["docker"]
	plain := &nomad.Task{Driver: "docker", Config: map[string]any{"image": "x"}}
	controller := &nomad.Task{Driver: "docker", Config: plain.Config, CSIPluginConfig: &nomad.TaskCSIPluginConfig{Type: "controller"}}
	node := &nomad.Task{Driver: "docker", Config: plain.Config, CSIPluginConfig: &nomad.TaskCSIPluginConfig{Type: "node"}}
	if want := kinds.Isolation(docker, plain).Level(); want.String() == "none" || kinds.Isolation(docker, controller).Level() != want {
		t.Errorf("level of a controller %v, want that of a task, %v", kinds.Isolation(docker, controller).Level(), want)
	}
	if got := kinds.Isolation(docker, node).Level(); got.String() != "none" {
		t.Errorf("level of a node plugin %v, want none", got)
	}
}

// TestCSI_Rights checks the rights that jobs with CSI volumes and plugins need.
func TestCSI_Rights(t *testing.T) {
	volume := func(tg *nomad.TaskGroup) {
		tg.Volumes = map[string]*nomad.VolumeRequest{"v": {Name: "v", Type: "csi", Source: "v"}}
	}
	plugin := func(tg *nomad.TaskGroup) {
		tg.Tasks[0].CSIPluginConfig = &nomad.TaskCSIPluginConfig{ID: "p", Type: "node"}
	}
	for _, c := range []struct {
		policy string
		edit   func(*nomad.TaskGroup)
		want   string // "" is allowed
	}{
		{`namespace "default" { capabilities = ["csi-mount-volume"] } plugin { policy = "read" }`, volume, ""},
		{`namespace "default" { capabilities = ["csi-mount-volume"] } plugin { policy = "list" }`, volume, "plugin"},
		{`namespace "default" { capabilities = ["csi-mount-volume"] }`, volume, "plugin"},
		{`namespace "default" { capabilities = ["csi-read-volume"] } plugin { policy = "read" }`, volume, "csi-mount-volume"},
		{`namespace "other" { policy = "write" } plugin { policy = "read" }`, volume, "csi-mount-volume"},
		{`namespace "default" { capabilities = ["csi-register-plugin"] }`, plugin, ""},
		{`namespace "default" { policy = "read" } plugin { policy = "read" }`, plugin, "csi-register-plugin"},
	} {
		parsed, err := acl.Parse(c.policy)
		if err != nil {
			t.Fatal(err)
		}
		job := testjobs.Exec2(func(*nomad.Task) {})
		job.Namespace = "default"
		c.edit(job.TaskGroups[0])
		err = New(Config{}).Rights(Caller(&rpc.Access{Rights: acl.New(false, parsed)}), job)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("with %s: %v, want %q", c.policy, err, c.want)
		}
	}
}

// TestCSI_Joins checks that a job joins the CSI plugin of another namespace only with the right to register plugins there.
func TestCSI_Joins(t *testing.T) {
	job := func(namespace, id, plugin string) *nomad.Job {
		j := testjobs.Exec2(func(task *nomad.Task) { task.CSIPluginConfig = &nomad.TaskCSIPluginConfig{ID: plugin, Type: "node"} })
		j.Namespace, j.ID = namespace, id
		return j
	}
	store := state.New(slog.New(slog.DiscardHandler))
	if _, err := store.UpsertNamespaces(5, &message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: "infra"}, {Name: "team"}}}); err != nil {
		t.Fatal(err)
	}
	for i, j := range []*nomad.Job{job("infra", "ebs-nodes", "ebs"), job("team", "nfs-team", "nfs"), job("infra", "nfs-infra", "nfs")} {
		if _, err := store.RegisterJob(uint64(10+i), &message.JobRegisterRequest{Job: j}); err != nil {
			t.Fatal(err)
		}
	}
	parsed, err := acl.Parse(`namespace "team" { capabilities = ["csi-register-plugin"] }`)
	if err != nil {
		t.Fatal(err)
	}
	both, err := acl.Parse(`namespace "*" { capabilities = ["csi-register-plugin"] }`)
	if err != nil {
		t.Fatal(err)
	}
	team, all := &rpc.Access{Rights: acl.New(false, parsed)}, &rpc.Access{Rights: acl.New(false, both)}
	for name, c := range map[string]struct {
		who  Asker
		job  *nomad.Job
		want string // "" is allowed
	}{
		"another namespace":            {Caller(team), job("team", "evil", "ebs"), "joins CSI plugin"},
		"a version submitted again":    {Reverter(team, job("team", "evil", "ebs")), job("team", "evil", "ebs"), "joins CSI plugin"},
		"with the right there":         {Caller(all), job("team", "good", "ebs"), ""},
		"a new plugin":                 {Caller(team), job("team", "new", "new"), ""},
		"a job that is part already":   {Caller(team), job("team", "nfs-team", "nfs"), ""},
		"the name of a job elsewhere":  {Caller(team), job("team", "ebs-nodes", "ebs"), "joins CSI plugin"},
		"a plan writes nothing":        {Planner(team), job("team", "evil", "ebs"), ""},
		"the servers, for its version": {Author(job("team", "evil", "ebs")), job("team", "evil", "ebs"), ""},
	} {
		w := &write{View: New(Config{}).At(store.Snapshot()), who: c.who, job: c.job}
		err := w.joins()
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || !errors.Is(err, apierror.ErrPermissionDenied)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
