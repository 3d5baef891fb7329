package jobrules_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
)

// TestInertPage checks that the documentation has each part that is accepted without effect, and no other.
func TestInertPage(t *testing.T) {
	text, err := os.ReadFile("../../website/content/docs/jobspec/refused.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "## Accepted without effect")
	if !found {
		t.Fatal("the page has no section about parts without effect")
	}
	for block, names := range jobrules.InertNames() {
		rows := ""
		for line := range strings.Lines(section) {
			if strings.HasPrefix(line, "| `"+block+"` |") {
				rows += line
			}
		}
		for _, name := range names {
			if !strings.Contains(rows, "`"+name+"`") {
				t.Errorf("the rows of %s lack %s: %s", block, name, rows)
			}
		}
	}
}

// TestWithoutEffect checks that each part is found where it is, and that it is accepted.
func TestWithoutEffect(t *testing.T) {
	j := sample("service")
	tg, hour := j.TaskGroups[0], time.Hour
	task := tg.Tasks[0]
	tg.MaxClientDisconnect, tg.StopAfterClientDisconnect, tg.PreventRescheduleOnLost = &hour, &hour, true
	tg.ReschedulePolicy = &nomad.ReschedulePolicy{Unlimited: true, Attempts: 2, Delay: time.Minute, DelayFunction: "constant"}
	tg.Update = &nomad.UpdateStrategy{Canary: 1, HealthCheck: "checks", HealthyDeadline: hour}
	tg.Networks = nomad.Networks{{MBits: 10, Device: "eth0", CIDR: "10.0.0.0/8", IP: "10.0.0.1", DynamicPorts: []nomad.Port{{Label: "http", To: 80}}}}
	tg.Services = []*nomad.Service{{Name: "web", Provider: "nomad", PortLabel: "http",
		Identity: &nomad.WorkloadIdentity{Name: "x"}, Cluster: "east", Kind: "x"}}
	task.Resources = &nomad.Resources{CPU: 10, MemoryMB: 20, IOPS: 5, DiskMB: 6,
		Devices: nomad.ResourceDevices{{Name: "gpu", Count: 1}}, NUMA: &nomad.NUMA{Affinity: "prefer", Devices: []string{"gpu"}}}
	task.ScalingPolicies = []*nomad.ScalingPolicy{{Type: "vertical_cpu", Max: 5}, {Type: "vertical_mem", Max: 5}}
	task.Templates = []*nomad.Template{{EmbeddedTmpl: "x", DestPath: "local/x", ChangeMode: "restart", Perms: "0644"}}
	jobrules.Canonicalize(j)
	if err := jobrules.Validate(j); err != nil {
		t.Fatalf("Validate() = %v", err)
	}
	got := map[string]bool{}
	for _, part := range jobrules.WithoutEffect(j) {
		name, _, _ := strings.Cut(part.Name, " \"")
		got[part.Place+": "+name] = true
	}
	group, inTask, service := `job "j", group "g": `, `job "j", group "g", task "t": `, `job "j", group "g", service "web": `
	for _, want := range []string{group + "max_client_disconnect", group + "stop_after_client_disconnect", group + "prevent_reschedule_on_lost",
		group + "attempts of reschedule", group + "canary", group + "mbits of network", group + "device of network", group + "cidr of network",
		group + "ip of network", group + "to of port", service + "identity", service + "cluster", service + "kind", inTask + "iops of resources", inTask + "disk of resources",
		inTask + "affinity of numa", inTask + "devices of numa", inTask + "scaling"} {
		if !got[want] {
			t.Errorf("WithoutEffect() lacks %s: %v", want, got)
		}
	}
	all := 0
	for _, names := range jobrules.InertNames() {
		all += len(names)
	}
	if len(got) != all-1 {
		t.Errorf("WithoutEffect() has %d parts, want all %d but update of batch jobs: %v", len(got), all-1, got)
	}
}

// TestTaskScaling checks the scaling blocks of tasks.
func TestTaskScaling(t *testing.T) {
	for name, c := range map[string]struct {
		list []*nomad.ScalingPolicy
		want string
	}{
		"both":       {[]*nomad.ScalingPolicy{{Type: "vertical_cpu", Min: 1, Max: 5}, {Type: "vertical_mem", Max: 5}}, ""},
		"duplicate":  {[]*nomad.ScalingPolicy{{Type: "vertical_cpu"}, {Type: "vertical_cpu"}}, "more than one scaling block has the type vertical_cpu"},
		"horizontal": {[]*nomad.ScalingPolicy{{Type: "horizontal"}}, `the type of a scaling block of a task is "horizontal"`},
		"bounds":     {[]*nomad.ScalingPolicy{{Type: "vertical_mem", Min: 6, Max: 5}}, "max of scaling is 5, less than its min of 6"},
		"negative":   {[]*nomad.ScalingPolicy{{Type: "vertical_mem", Min: -1, Max: 5}}, "min of scaling is -1"},
	} {
		j := sample("service")
		j.TaskGroups[0].Tasks[0].ScalingPolicies = c.list
		jobrules.Canonicalize(j)
		err := jobrules.Validate(j)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: Validate() = %v, want %q", name, err, c.want)
		}
		if target := c.list[0].Target; target["Task"] != "t" || target["Group"] != "g" || target["Job"] != "j" {
			t.Errorf("%s: target = %v", name, target)
		}
	}
}
